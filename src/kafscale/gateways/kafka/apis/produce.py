"""Produce: API 0, versions 0-9.

v0-2  go by the magic byte: the old message formats are converted, format 2 is taken as it is
v3    exactly one batch of message format 2 per partition
v7    zstd
acks  all and 1 are answered after the commit (topics may opt for an early answer to acks=1),
      0 never; an error then closes the connection
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from kafscale.engine.topics.topic import Topic
from kafscale.gateways.kafka import client_errors, conversion
from kafscale.gateways.kafka.call import Answer, Call, CloseConnection, Deferred
from kafscale.gateways.kafka.errors import code_of, words_of
from kafscale.log.writer.types import CommitOutcome
from kafscale.model.errors import (
    InvalidRecord,
    InvalidRequest,
    KafscaleError,
    OutcomeUnknown,
    UnknownProducer,
)
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

API_KEY: Final = ProduceRequest.api_key
VERSIONS: Final = ProduceRequest.versions

_ZSTD_FROM: Final = 7
_ONE_BATCH_FROM: Final = 3
_NO_ANSWER: Final = 0
_EARLY: Final = 1
_ALL: Final = -1
_ACKS_NAMES: Final = {_ALL: "all", _EARLY: "1", _NO_ANSWER: "0"}


class _Pending(NamedTuple):
    row: PartitionProduceResponse
    committed: asyncio.Future[CommitOutcome]


class _OldSet(NamedTuple):
    """A message set of an old format."""

    place: tuple[int, int]  # which topic of the request, which partition of that
    topic: Topic
    records: memoryview


def prepare(call: Call) -> Coroutine[Any, Any, None] | None:
    """Do what takes time. Later requests wait for it, so that batches keep their order.

    It opens logs that are not open, and converts large message sets of the old formats.
    """
    request: ProduceRequest = call.message
    engine = call.engine
    closed = []
    for topic_data in request.topic_data:
        topic = engine.topics.find(topic_data.name)
        if topic is None:
            engine.topics.search_soon(topic_data.name)
            continue
        indexes = [data.index for data in topic_data.partition_data]
        closed += [(topic, index) for index in engine.partitions.list_closed(topic, indexes)]
    old = list(_old_sets(call)) if call.version < _ONE_BATCH_FROM else []
    if conversion.are_quick([message_set.records for message_set in old]):
        old = []  # not worth a thread: they are converted when they are appended
    return _prepare(call, closed, old) if closed or old else None


async def _prepare(call: Call, closed: list[tuple[Topic, int]], old: list[_OldSet]) -> None:
    opening = (call.engine.partitions.open(topic, partition) for topic, partition in closed)
    await asyncio.gather(*opening, return_exceptions=True)
    call.converted = {}
    for message_set in old:
        work = _conversion(call, message_set.topic, message_set.records)
        call.converted[message_set.place] = await call.context.conversions.run(work)


def _old_sets(call: Call) -> Iterator[_OldSet]:
    request: ProduceRequest = call.message
    for number, topic_data in enumerate(request.topic_data):
        topic = call.engine.topics.find(topic_data.name)
        if topic is None:
            continue
        for at, data in enumerate(topic_data.partition_data):
            if isinstance(data.records, memoryview) and conversion.is_old(data.records):
                yield _OldSet((number, at), topic, data.records)


def _conversion(
    call: Call, topic: Topic, records: memoryview
) -> Callable[[], conversion.Converted]:
    limits = call.engine.partitions.limits_of(topic)
    now_ms = call.engine.clock.now_ms()
    return partial(conversion.to_store, records, limits, now_ms, topic.settings.compression)


def answer(call: Call) -> Answer:
    """Append every batch now; answer when the last one is committed."""
    request: ProduceRequest = call.message
    pending: list[_Pending] = []
    responses = []
    failed = ""
    for number, topic_data in enumerate(request.topic_data):
        topic = call.engine.topics.find(topic_data.name)
        rows = []
        for at, data in enumerate(topic_data.partition_data):
            row = PartitionProduceResponse(index=data.index, base_offset=-1)
            rows.append(row)
            try:
                _append(call, topic, topic_data.name, data, (number, at), row, pending)
            except KafscaleError as problem:
                _refuse(row, problem)
                client_errors.note(call, problem)
                failed = failed or words_of(problem)
        responses.append(TopicProduceResponse(name=topic_data.name, partition_responses=rows))
    response = ProduceResponse(responses=responses)
    if request.acks == _NO_ANSWER:
        _count(call, response)
        if failed:
            raise CloseConnection(f"acks=0 and {failed}")
        return None
    if not pending:
        return _count(call, response)
    return _when_committed(call, response, pending)


def _append(
    call: Call,
    topic: Topic | None,
    name: str,
    data: PartitionProduceData,
    place: tuple[int, int],
    row: PartitionProduceResponse,
    pending: list[_Pending],
) -> None:
    request: ProduceRequest = call.message
    if request.acks not in (_ALL, _EARLY, _NO_ANSWER):
        row.error_code = ErrorCode.INVALID_REQUIRED_ACKS
        client_errors.note_bad(call, "invalid_required_acks", f"acks={request.acks}")
        return
    if request.transactional_id is not None:
        raise InvalidRequest("transactions are not supported")
    records = data.records
    assert records is None or isinstance(records, memoryview)  # as decoding gives them
    if topic is None:
        call.engine.partitions.note_refused(name, data.index, records)
        topic = call.engine.topics.get(name)
    if (tell := call.engine.metrics.log_received) is not None:
        tell(name, data.index, len(records or b""))
    sets = [records]
    is_old = call.version < _ONE_BATCH_FROM and conversion.is_old(records)
    if is_old:
        sets = _converted(call, topic, place, records)
    early = request.acks == _NO_ANSWER or (request.acks == _EARLY and topic.settings.acks1_buffered)
    for number, records in enumerate(sets):
        stored = call.engine.partitions.append(
            topic,
            data.index,
            records,
            acknowledged=early,
            allow_zstd=call.version >= _ZSTD_FROM,
            is_checked=is_old,
        )
        if number == 0:
            row.base_offset = stored.first
            row.log_append_time_ms = stored.append_time_ms
            row.log_start_offset = stored.log_start
        if stored.appended.committed is not None and not early:
            pending.append(_Pending(row, stored.appended.committed))


def _converted(
    call: Call, topic: Topic, place: tuple[int, int], records: memoryview | None
) -> list[memoryview | None]:
    """The batches that `prepare` has converted; a small message set is converted now."""
    assert records is not None  # it has a magic byte
    converted = (call.converted or {}).get(place) or _conversion(call, topic, records)()
    if isinstance(converted, KafscaleError):
        # Raising the error itself would make a reference cycle with this frame.
        raise type(converted)(str(converted))
    return list(converted)


def _refuse(row: PartitionProduceResponse, problem: KafscaleError) -> None:
    row.error_code = code_of(problem)
    row.error_message = words_of(problem)
    if isinstance(problem, InvalidRecord):
        # A producer that knows the bad records can send the others again.
        row.record_errors = [BatchIndexAndErrorMessage(number) for number in problem.records]
    elif isinstance(problem, UnknownProducer):
        # The Java client begins anew only if it gets a log start; else it sends the same again.
        row.log_start_offset = problem.log_start
    row.base_offset = -1
    row.log_append_time_ms = -1


def _when_committed(call: Call, response: ProduceResponse, pending: list[_Pending]) -> Deferred:
    """Answer when all are committed or refused; after the timeout, that the outcome is unknown."""
    request: ProduceRequest = call.message
    answer = Deferred()
    waiting = {id(batch.committed): batch.committed for batch in pending}

    def finish() -> None:
        if answer.is_given:
            return  # too late: the client has its answer, that the outcome is unknown
        timer.cancel()
        for batch in pending:
            if not batch.committed.done():
                _refuse(batch.row, OutcomeUnknown("the store has not answered in time"))
            elif (problem := batch.committed.result()) is not None:
                _refuse(batch.row, problem)
        answer.give(_count(call, response))

    def settle(committed: asyncio.Future[CommitOutcome]) -> None:
        waiting.pop(id(committed), None)
        if not waiting:
            finish()

    timeout_s = min(request.timeout_ms / 1000, call.context.longest_wait_s)
    timer = asyncio.get_running_loop().call_later(max(0.0, timeout_s), finish)
    for committed in list(waiting.values()):
        committed.add_done_callback(settle)
    return answer


def _count(call: Call, response: ProduceResponse) -> ProduceResponse:
    """Count the outcome. Unknown topics are not counted by name: clients choose those names."""
    engine = call.engine
    seconds = engine.clock.elapsed_s() - call.began_s
    acks = _ACKS_NAMES.get(call.message.acks, "invalid")
    for topic in response.responses:
        if engine.topics.find(topic.name) is None:
            continue
        for row in topic.partition_responses:
            engine.metrics.produced(topic.name, row.index, row.error_code == 0)
        engine.metrics.produce_latency.labels(topic.name, acks).observe(seconds)
    return response
