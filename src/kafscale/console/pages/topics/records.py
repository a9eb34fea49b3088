"""Records: searching, following, fetching one whole, producing, deleting, and what a look costs.

Next door: the search itself (console/records), the client (admin/records/scanning.py).
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kafscale.admin.brokers import topics as questions
from kafscale.admin.brokers.client import KafkaAdmin
from kafscale.admin.groups.groups import list_first_at
from kafscale.admin.records.scanning import ScannedRecord, Scanner
from kafscale.admin.records.sending import PlacedRecord, send_records
from kafscale.console.answers.record_shapes import (
    DeleteRecordsRequest,
    EndEvent,
    NewRecord,
    ProducedAnswer,
    ProducedRecord,
    ProgressEvent,
    RecordRange,
    RecordsEvent,
    SearchPrice,
    SearchRequest,
    TailRequest,
    TrimmedAnswer,
    TrimmedRow,
)
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.shapes import Confirmation
from kafscale.console.call import ApiCall, Download, EventStream, Handlers, Services
from kafscale.console.pages.topics.topics import check_typed
from kafscale.console.records import ranges
from kafscale.console.records.as_of import SnapshotReader
from kafscale.console.records.filters import FilterError, RecordFilter, compile_filter
from kafscale.console.records.ranges import OffsetRange
from kafscale.console.records.search import RecordReader, RecordTest, Search
from kafscale.console.records.tail import follow
from kafscale.console.records.threads import stream_from_thread
from kafscale.log.formats import places
from kafscale.log.protocol import survey
from kafscale.log.protocol.survey import LogSnapshot
from kafscale.model.errors import KafscaleError

_SEARCHES_OF_ONE: Final = 2
_WAIT_S: Final = 3.0  # for a search that its reader has left and that has not noticed yet
_LOOK_S: Final = 0.1
_MOST_RECORDS: Final = 1000
_EVENT_NAMES: Final[dict[type, str]] = {
    RecordsEvent: "records",
    ProgressEvent: "progress",
    EndEvent: "end",
}


async def search_records(call: ApiCall) -> EventStream:
    """Search a topic; the stream begins once the question is understood."""
    request: SearchRequest = call.body
    services = call.services
    _check_values(services, request.find or request.filter)
    test = RecordTest(request.find, _filter(request.filter), services.schemas)
    past = await _past(call, request.snapshot)
    found = await _ranges(call, request, request.after, past)
    topic, settings = call.topic, services.cluster.settings
    opened = (lambda: Scanner(settings, topic)) if past is None else (lambda: past)
    return _events(call, _searching(services, opened, request, found, test))


async def _past(call: ApiCall, snapshot: str | None) -> SnapshotReader | None:
    """The topic as a snapshot has it, if one was named."""
    if snapshot is None:
        return None
    services = call.services
    bucket = services.need_bucket()
    assert services.snapshots is not None, "where there is a bucket, there are its snapshots"
    loop = asyncio.get_running_loop()

    def read(key: str, start: int, length: int) -> memoryview:
        asked = asyncio.run_coroutine_threadsafe(bucket.store.read(key, start, length), loop)
        return asked.result()

    held = await asyncio.to_thread(services.snapshots.partitions_of, snapshot, call.topic)
    return SnapshotReader(held, read)


def _searching(
    services: Services,
    opened: Callable[[], RecordReader],
    request: SearchRequest,
    found: dict[int, OffsetRange],
    test: RecordTest,
) -> Any:
    def work(is_stopped: Any) -> Iterator[Any]:
        search = Search(
            request,
            found,
            test,
            services.clock,
            is_shown=services.show_values,
            is_stopped=is_stopped,
        )
        reader = opened()
        try:
            yield from search.run(reader)
        finally:
            reader.close()

    return work


async def tail_records(call: ApiCall) -> EventStream:
    """Follow a topic from its end."""
    request: TailRequest = call.body
    services, topic = call.services, call.topic
    _check_values(services, request.find or request.filter)
    test = RecordTest(request.find, _filter(request.filter), services.schemas)
    bounds = await services.cluster.ask(_bounds, topic)
    wanted = RecordRange(partitions=request.partitions)
    starts = {at: end for at, (_, end) in ranges.chosen(wanted, bounds).items()}

    def work(is_stopped: Any) -> Iterator[Any]:
        scanner = Scanner(services.cluster.settings, topic)
        try:
            yield from follow(
                scanner,
                request,
                starts,
                test,
                services.clock,
                is_shown=services.show_values,
                is_stopped=is_stopped,
            )
        finally:
            scanner.close()

    return _events(call, work)


async def _events(call: ApiCall, work: Any) -> EventStream:
    """The events of a thread, by name; a session has two such threads at most."""
    searches = call.services.searches
    key = call.session.key if call.session is not None else b""
    until_s = call.services.clock.elapsed_s() + _WAIT_S
    while searches.get(key, 0) >= _SEARCHES_OF_ONE and call.services.clock.elapsed_s() < until_s:
        await asyncio.sleep(_LOOK_S)
        yield None
    if searches.get(key, 0) >= _SEARCHES_OF_ONE:
        raise ApiRefusal("slow_down", "two searches of yours run already", retry_after_s=5)
    searches[key] = searches.get(key, 0) + 1
    try:
        async for event in stream_from_thread(work):
            yield None if event is None else (_EVENT_NAMES[type(event)], event)
    finally:
        searches[key] -= 1
        if not searches[key]:
            del searches[key]


def _filter(text: str) -> RecordFilter | None:
    try:
        return compile_filter(text) if text.strip() else None
    except FilterError as bad:
        raise ApiRefusal("invalid", str(bad), field="filter") from bad


def _check_values(services: Services, looks_inside: str) -> None:
    """Where values are hidden, a filter could guess them bit by bit."""
    if not services.show_values and looks_inside:
        raise ApiRefusal("hidden", "values are hidden, also from filters (console.showValues)")


async def _ranges(
    call: ApiCall,
    request: RecordRange,
    after: str | None = None,
    past: SnapshotReader | None = None,
) -> dict[int, OffsetRange]:
    cluster, topic = call.services.cluster, call.topic
    bounds = past.bounds if past is not None else await cluster.ask(_bounds, topic)
    if after is not None:
        return ranges.read_cursor(after, bounds, backwards=request.from_kind == "newest")
    times: dict[int, Mapping[int, int]] = {}
    for kind, text in (
        (request.from_kind, request.from_value),
        (request.to_kind, request.to_value),
    ):
        if kind == "time" and text is not None and past is not None:
            times[int(text)] = await asyncio.to_thread(past.first_at, int(text))
        elif kind == "time" and text is not None:
            wanted = [(topic, at) for at in ranges.chosen(request, bounds)]
            found = await cluster.ask(list_first_at, wanted, int(text))
            times[int(text)] = {partition: offset for (_, partition), offset in found.items()}
    return ranges.ranges_of(request, bounds, lambda at_ms: times[at_ms])


def _bounds(admin: KafkaAdmin, topic: str) -> dict[int, OffsetRange]:
    return questions.list_offset_ranges(admin, topic, questions.list_partitions(admin, topic))


# -- one record ----------------------------------------------------------------------------------


async def get_record(call: ApiCall) -> Download:
    """Give a record's key or value as it is."""
    query, services = call.query, call.services
    if not services.show_values:
        raise ApiRefusal("hidden", "values are hidden (console.showValues)")

    past = await _past(call, query.snapshot)

    def read() -> ScannedRecord | None:
        scanner: RecordReader = past or Scanner(services.cluster.settings, call.topic)
        began_s = services.clock.elapsed_s()
        try:
            span = {query.partition: (query.offset, query.offset + 1)}
            for batch in scanner.read(span, lambda: services.clock.elapsed_s() - began_s > 15):
                for record in batch:
                    return record
        finally:
            scanner.close()
        return None

    bounds = past.bounds if past else await services.cluster.ask(_bounds, call.topic)
    first, end = bounds.get(query.partition, (0, 0))
    record = await services.cluster.run(read) if first <= query.offset < end else None
    if record is None:
        raise ApiRefusal("unknown_record", "there is no record at that offset")
    body = record.key if query.part == "key" else record.value
    name = f"{call.topic}-{query.partition}-{query.offset}-{query.part}"
    return Download(body or b"", name)


# -- changes -------------------------------------------------------------------------------------


async def produce_records(call: ApiCall) -> ProducedAnswer:
    """Produce records with acks=all."""
    wanted: list[NewRecord] = call.body
    if not 0 < len(wanted) <= _MOST_RECORDS:
        raise ApiRefusal("invalid", f"send 1 to {_MOST_RECORDS} records at a time")
    records = [_placed(record) for record in wanted]
    cluster = call.services.cluster
    await cluster.ask(questions.list_partitions, call.topic)  # else producing would create it
    sent = await cluster.run(lambda: send_records(cluster.settings, call.topic, records))
    return ProducedAnswer(
        items=[
            ProducedRecord(
                partition=one.partition,
                offset=None if one.offset is None else str(one.offset),
                error=one.error,
            )
            for one in sent
        ]
    )


def _placed(record: NewRecord) -> PlacedRecord:
    return PlacedRecord(
        record.partition,
        _bytes(record.key, record.key_encoding, "key"),
        _bytes(record.value, record.value_encoding, "value"),
        [(one.key, _bytes(one.value, one.encoding, "headers")) for one in record.headers],
    )


def _bytes(text: str | None, encoding: str, field: str) -> bytes | None:
    if text is None:
        return None
    try:
        if encoding == "base64":
            return base64.b64decode(text, validate=True)
        return bytes.fromhex(text) if encoding == "hex" else text.encode("utf-8")
    except (ValueError, binascii.Error) as bad:
        raise ApiRefusal("invalid", f"not {encoding}: {bad}", field=field) from bad


async def delete_records(call: ApiCall) -> TrimmedAnswer:
    """Delete records of a topic whose name was typed."""
    body: DeleteRecordsRequest = call.body
    check_typed(Confirmation(confirm=body.confirm), call.topic)
    before = None if body.before is None else int(body.before)
    trimmed = await call.services.cluster.ask(
        questions.trim_topic, call.topic, body.partition, before
    )
    return TrimmedAnswer(
        items=[
            TrimmedRow(partition=one.partition, earliest=str(one.earliest), deleted=one.deleted)
            for one in trimmed
        ]
    )


# -- what a look costs ---------------------------------------------------------------------------


async def price_records(call: ApiCall) -> SearchPrice:
    """Say what a range would read: objects and bytes, by manifests; requests and money by them."""
    services, request = call.services, call.body
    past = await _past(call, request.snapshot)
    found = await _ranges(call, request, past=past)
    records = sum(max(end - first, 0) for first, end in found.values())
    currency = services.prices.currency
    if services.bucket is None:
        why = dict.fromkeys(("objects", "bytes", "gets", "money"), services.no_bucket)
        return SearchPrice(objects=None, bytes=None, gets=None, money=None, currency=currency,
                     records=records, unknown=why)  # fmt: skip
    try:
        touched = past.touched(found) if past is not None else None
        objects, size = touched or await _touched(services, call.topic, found)
    except KafscaleError as bad:
        raise ApiRefusal("store", f"the object store: {bad}") from bad
    prices = services.prices
    money = objects / 1000 * prices.get_per_1000 + size / (1 << 30) * prices.read_gb
    return SearchPrice(
        objects=objects, bytes=size, gets=objects, money=money, currency=currency, records=records
    )


async def _touched(
    services: Services, topic: str, found: Mapping[int, OffsetRange]
) -> tuple[int, int]:
    bucket = services.need_bucket()
    descriptor = await bucket.topic(topic)
    keys: set[str] = set()
    size = 0
    for partition, (first, end) in found.items():
        if first >= end or partition >= descriptor.partitions:
            continue
        folder, lane = places.place(descriptor, partition)

        async def look(folder: str = folder) -> LogSnapshot:
            return await survey.take_snapshot(bucket.store, folder)

        snapshot = await bucket.remembered.get(("snapshot", folder), look)
        for piece in snapshot.pieces:
            for span in piece.spans:
                if span.lane == lane and span.first < end and span.last >= first:
                    keys.add(piece.key)
                    size += span.length
    return len(keys), size


HANDLERS: Final[Handlers] = {
    "price_records": price_records,
    "search_records": search_records,
    "tail_records": tail_records,
    "get_record": get_record,
    "produce_records": produce_records,
    "delete_records": delete_records,
}
