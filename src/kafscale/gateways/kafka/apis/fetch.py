"""Fetch: API 1, versions 0-13.

v0-1  get message format 0, v2-3 format 1, converted from what is stored
v3    max_bytes for the whole answer
v7    incremental sessions
v9    leader epochs are checked
v12   flexible
v13   topics by id
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

from kafscale.engine.reads import Part, Wanted
from kafscale.engine.topic import Topic
from kafscale.gateways.kafka import blame, conversion
from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.errors import code_of
from kafscale.gateways.kafka.fetch_sessions import (
    CLOSE,
    FULL,
    NO_SESSION,
    Asked,
    FetchSession,
    Told,
)
from kafscale.model.errors import ConversionOff, KafscaleError, NotConvertible
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

API_KEY: Final = FetchRequest.api_key
VERSIONS: Final = FetchRequest.versions

_STORAGE_ERROR_FROM: Final = 6
_SESSIONS_FROM: Final = 7
_BY_ID_FROM: Final = 13
_LARGEST_ANSWER: Final = 57_671_680
_LONGEST_WAIT_MS: Final = 30_000


def answer(call: Call) -> Answer:
    """Answer at once from memory if there is enough, else wait."""
    request: FetchRequest = call.message
    session: FetchSession | None = None
    if call.version >= _SESSIONS_FROM:
        problem, session = _session(call)
        if problem is not ErrorCode.NONE:
            blame.note_ordinary(call, problem.name.lower(), f"session {request.session_id}")
            return FetchResponse(error_code=problem)
    told = list(session.partitions.values()) if session else [Told(a) for a in _asked(call)]
    wanted = [_wanted(call, one.asked) for one in told]
    max_bytes = max(0, min(request.max_bytes, _LARGEST_ANSWER))
    min_bytes = min(max(0, request.min_bytes), max_bytes)
    wait_ms = max(0, min(request.max_wait_ms, _LONGEST_WAIT_MS))
    if not wanted:
        min_bytes = 0
    incremental = session is not None and request.session_epoch != FULL
    parts = call.engine.reads.fetch_now(wanted, max_bytes, min_bytes if wait_ms else 0)
    if parts is not None and not conversion.is_due(wanted, parts, call.version):
        return _respond(call, session, told, wanted, parts, incremental)
    finding = _find(call, wanted, parts, max_bytes, min_bytes, wait_ms / 1000)
    return _later(call, session, told, wanted, finding, incremental)


async def _later(
    call: Call,
    session: FetchSession | None,
    told: list[Told],
    wanted: list[Wanted],
    finding: Awaitable[Sequence[Part]],
    incremental: bool,
) -> FetchResponse:
    return _respond(call, session, told, wanted, await finding, incremental)


async def _find(
    call: Call,
    wanted: Sequence[Wanted],
    parts: Sequence[Part] | None,
    max_bytes: int,
    min_bytes: int,
    wait_s: float,
) -> Sequence[Part]:
    """Wait for data, and convert it for those who read older formats.

    Batches may have nothing to hand out: what is left of them after compaction lies before the
    offset asked for. Then the search goes on behind them, or the consumer would ask for ever.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    if parts is None:
        parts = await call.engine.reads.fetch(wanted, max_bytes, min_bytes, wait_s)
    while conversion.is_due(wanted, parts, call.version):
        handed = await conversion.to_hand_out(
            call.context.conversions, wanted, parts, call.version, max_bytes
        )
        parts = [one.part for one in handed]
        if any(part.batches or part.error for part in parts):
            return parts
        wanted = [
            want._replace(offset=one.next_offset) for want, one in zip(wanted, handed, strict=True)
        ]
        left_s = max(0.0, deadline - loop.time())
        parts = await call.engine.reads.fetch(wanted, max_bytes, min_bytes, left_s)
    return parts


# -- sessions --------------------------------------------------------------------------------


def _session(call: Call) -> tuple[ErrorCode, FetchSession | None]:
    """Find, begin or end the session a request belongs to."""
    request: FetchRequest = call.message
    sessions = call.context.fetch_sessions
    by_id = call.version >= _BY_ID_FROM
    if request.session_epoch == CLOSE:
        sessions.close(request.session_id)
        return ErrorCode.NONE, None
    if request.session_epoch == FULL:
        sessions.close(request.session_id)
        session = sessions.create(by_id)
        session.update(_asked(call), [])
        return ErrorCode.NONE, session
    found = sessions.find(request.session_id)
    if found is None or request.session_id == NO_SESSION:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None
    if found.epoch != request.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH, None
    if found.by_id != by_id:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None
    forgotten = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    found.update(_asked(call), forgotten)
    found.advance()
    return ErrorCode.NONE, found


def _asked(call: Call) -> list[Asked]:
    request: FetchRequest = call.message
    by_id = call.version >= _BY_ID_FROM
    return [
        Asked(
            topic.topic_id if by_id else topic.topic,
            one.partition,
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
        )
        for topic in request.topics
        for one in topic.partitions
    ]


def _wanted(call: Call, asked: Asked) -> Wanted:
    topics = call.engine.topics
    found: Topic | KafscaleError
    try:
        if isinstance(asked.topic, str):
            if topics.find(asked.topic) is None:
                call.engine.discovery.notice(asked.topic)
            found = topics.get(asked.topic)
        else:
            found = topics.get_by_id(asked.topic)
    except KafscaleError as problem:
        found = problem
    return Wanted(found, asked.partition, asked.offset, asked.max_bytes, asked.leader_epoch)


# -- answering -------------------------------------------------------------------------------


def _respond(
    call: Call,
    session: FetchSession | None,
    told: Sequence[Told],
    wanted: Sequence[Wanted],
    parts: Sequence[Part],
    incremental: bool,
) -> FetchResponse:
    topics: dict[str | bytes, FetchableTopicResponse] = {}
    served = []
    for known, want, part in zip(told, wanted, parts, strict=True):
        row = _row(call, want, part)
        _count(call, want, part)
        news = bool(part.batches) or row.error_code or known.had_error
        news = news or (known.high, known.start) != (part.high, part.start)
        if incremental and not news:
            continue
        known.high, known.start = part.high, part.start
        known.had_error = row.error_code != 0
        if part.batches:
            served.append((known.asked.topic, known.asked.partition))
        topic = topics.get(known.asked.topic)
        if topic is None:
            topic = topics[known.asked.topic] = _topic_row(known.asked.topic)
        topic.partitions.append(row)
    if session is not None:
        for key in served:
            if key in session.partitions:
                session.partitions.move_to_end(key)
    return FetchResponse(
        session_id=session.session_id if session else NO_SESSION,
        responses=list(topics.values()),
    )


def _count(call: Call, want: Wanted, part: Part) -> None:
    """Note the outcome; latency only where data was read at once, not where it was waited for."""
    if isinstance(want.topic, KafscaleError):
        return
    probe = call.engine.probe
    read = part.from_memory if part.batches else None
    probe.fetched(want.topic.name, want.partition, part.error is None, read)
    if read is not None:
        hit = "true" if read else "false"
        probe.fetch_latency.labels(want.topic.name, hit).observe(part.read_s)


def _topic_row(topic: str | bytes) -> FetchableTopicResponse:
    if isinstance(topic, str):
        return FetchableTopicResponse(topic=topic)
    return FetchableTopicResponse(topic_id=topic)


# What consumers know how to take in an answer to Fetch. Others make them give up.
_UNDERSTOOD: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        # These two no consumer waits out, and it should not: waiting does not help.
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def _code(problem: KafscaleError, version: int) -> ErrorCode:
    """Trouble with the store becomes a code that consumers wait out."""
    code = code_of(problem)
    if code not in _UNDERSTOOD:
        code = ErrorCode.KAFKA_STORAGE_ERROR
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_FROM:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code


def _row(call: Call, want: Wanted, part: Part) -> PartitionData:
    problem = part.error
    if problem is not None:
        blame.note(call, problem)
        if isinstance(problem, NotConvertible | ConversionOff):
            blame.note_ordinary(call, blame.reason_of(type(problem)), str(problem))
        return PartitionData(
            partition_index=want.partition,
            error_code=_code(problem, call.version),
            high_watermark=part.high,
            last_stable_offset=part.high,
            log_start_offset=part.start,
            records=b"",
        )
    return PartitionData(
        partition_index=want.partition,
        high_watermark=part.high,
        last_stable_offset=part.high,
        log_start_offset=part.start,
        aborted_transactions=None,
        records=part.batches or b"",
    )
