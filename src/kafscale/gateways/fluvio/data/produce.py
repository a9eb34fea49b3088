"""Produce: record sets become batches of the log; the answer comes when they are committed.

Here: the rows of a request and of its answer. A client pairs them by their order, so that each row
of the request has one in the answer, also where a partition is named several times.
Isolation in Fluvio's words is what acks are in Kafka's: read committed is acks=all, read
uncommitted acks=1.
Next door: the batches themselves (records/incoming.py), the connection (session.py).
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kafscale.access.quotas import QuotaKey
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.fluvio.context import OFFSETS_TOPIC
from kafscale.gateways.fluvio.errors import DENIED, error_of
from kafscale.gateways.fluvio.records import incoming
from kafscale.log.writer.types import CommitOutcome
from kafscale.model.errors import InvalidRecord, InvalidRequest, KafscaleError, OutcomeUnknown
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.records.compression import Codec
from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.errors import NO_ERROR, FluvioError
from kafscale.wire.fluvio.frame import FluvioRequest
from kafscale.wire.fluvio.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kafscale.gateways.fluvio.data.session import DataSession

# A client waits 60 s for an answer. What it asks for (1.5 s) is short for an object store.
_LEAST_WAIT_S: Final = 30.0
_QUICK_BYTES: Final = 16 << 10  # what the event loop unpacks and packs by itself
# What a request may unpack to: so many times its own size. Small requests may have this much.
_MOST_EXPANSION: Final = 100
_LEAST_BUDGET_BYTES: Final = 32 << 20


@dataclass(slots=True)
class _Produced:
    """What has become of one row so far."""

    partition: int
    error: FluvioError = NO_ERROR
    base_offset: int = -1
    append_time_ms: int = -1
    log_start: int = -1

    def refuse(self, error: FluvioError) -> None:
        self.error, self.base_offset, self.append_time_ms = error, -1, -1


class _Request:
    """One request on its way."""

    def __init__(self, session: "DataSession", header: FluvioRequest, frame: memoryview) -> None:
        self.session = session
        self.header = header
        self.began_s = session.engine.clock.elapsed_s()
        self.message = schema.decode(ProduceRequest, frame, header.version, header.body_start)
        self.is_committed = self.message.isolation < 0
        asked_s = self.message.timeout_ms / 1000
        self.wait_s = min(max(asked_s, _LEAST_WAIT_S), session.context.longest_wait_s)
        self.topics: list[tuple[str, list[_Produced]]] = []
        self.pending: list[tuple[_Produced, asyncio.Future[CommitOutcome]]] = []
        self.budget = max(_LEAST_BUDGET_BYTES, _MOST_EXPANSION * len(frame))


async def answer(
    session: "DataSession", header: FluvioRequest, frame: memoryview
) -> asyncio.Task[None] | None:
    """Append every batch, in order; what is left is to wait for the commits."""
    session.writes = True
    session.charge(header, QuotaKey.PRODUCED_BYTES, len(frame))
    request = _Request(session, header, frame)
    objection = _objection(request.message)
    for topic_data in request.message.topics:
        rows: list[_Produced] = []
        request.topics.append((topic_data.name, rows))
        async for data in session.engine.turns.each(topic_data.partitions):
            row = _Produced(data.partition)
            rows.append(row)
            try:
                if objection is not None:
                    raise InvalidRequest(objection)
                await _append(request, topic_data.name, data, row)
            except KafscaleError as problem:
                session.note_refusal(header, problem)
                row.refuse(error_of(problem))
    if not request.pending:
        _answer(request)
        return None
    return session.tasks.spawn(_answer_when_committed(request), "fluvio produce")


def _objection(message: ProduceRequest) -> str | None:
    """Why nothing of a request is stored, if so."""
    if message.transactional_id is not None:
        return "transactions are not supported"
    if message.smart_modules:
        return "SmartModules are run on streams, not on what is produced"
    return None


async def _append(request: _Request, name: str, data: PartitionProduceData, row: _Produced) -> None:
    session, engine = request.session, request.session.engine
    denied = not session.allows(request.header, AccessOperation.WRITE, ResourceType.TOPIC, name)
    if denied or name == OFFSETS_TOPIC:
        row.refuse(DENIED)
        return
    topic = engine.topics.find(name)
    if topic is None:
        engine.topics.search_soon(name)
        topic = engine.topics.get(name)
    if engine.partitions.list_closed(topic, [data.partition]):
        await engine.partitions.open(topic, data.partition)
    assert isinstance(data.records, memoryview)
    batches = list(incoming.each_batch(data.records))
    if not batches:
        raise InvalidRecord("no records")
    # All of them before the first one is stored: a row is stored whole or refused.
    stored = [await _converted(request, topic, one) for one in batches]
    early = not request.is_committed and topic.settings.acks1_buffered
    for number, batch in enumerate(stored):
        appended = engine.partitions.append(
            topic, data.partition, batch, acknowledged=early, is_checked=True
        )
        if number == 0:
            row.base_offset = appended.first
            row.append_time_ms = appended.append_time_ms
            row.log_start = appended.log_start
        if appended.appended.committed is not None and not early:
            request.pending.append((row, appended.appended.committed))


async def _converted(request: _Request, topic: Topic, batch: memoryview) -> memoryview:
    """One batch as the log stores it."""
    session, engine = request.session, request.session.engine
    sent = incoming.read_batch(batch)
    limits = engine.partitions.limits_of(topic)
    unpack = partial(
        incoming.unpack, sent, min(limits.max_decompressed_bytes, max(0, request.budget))
    )
    is_quick = sent.codec is Codec.NONE or len(batch) <= _QUICK_BYTES
    data = unpack() if is_quick else await session.work.run(unpack)
    request.budget -= len(data)
    plain = await engine.turns.finish(incoming.spliced(sent, data))
    wanted = topic.settings.compression
    codec = sent.codec if wanted is None else Codec.named(wanted)
    pack = partial(incoming.to_store, plain, codec, limits, engine.clock.now_ms())
    is_quick = codec is Codec.NONE or len(plain) <= _QUICK_BYTES
    return pack() if is_quick else await session.work.run(pack)


async def _answer_when_committed(request: _Request) -> None:
    waiting = [committed for _, committed in request.pending]
    await asyncio.wait(waiting, timeout=request.wait_s)
    waited_ms = int(request.wait_s * 1000)
    for row, committed in request.pending:
        if not committed.done():
            problem: KafscaleError | None = OutcomeUnknown("the store has not answered in time")
        else:
            problem = committed.result()
        if problem is not None:
            row.refuse(error_of(problem, waited_ms))
    _answer(request)


def _answer(request: _Request) -> None:
    engine = request.session.engine
    took_s = engine.clock.elapsed_s() - request.began_s
    acks = "all" if request.is_committed else "1"
    topics = []
    for name, rows in request.topics:
        if engine.topics.find(name) is not None:
            for row in rows:
                engine.metrics.produced(name, row.partition, row.error is NO_ERROR)
            engine.metrics.produce_latency.labels(name, acks).observe(took_s)
        topics.append(
            TopicProduceResponse(
                name,
                [
                    PartitionProduceResponse(
                        row.partition, row.error, row.base_offset, row.append_time_ms, row.log_start
                    )
                    for row in rows
                ],
            )
        )
    request.session.send(request.header, ProduceResponse(topics))
