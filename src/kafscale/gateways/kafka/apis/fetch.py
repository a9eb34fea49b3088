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

from msgspec.structs import replace

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
    order = _Order(call, session)
    max_bytes = max(0, min(request.max_bytes, _LARGEST_ANSWER))
    min_bytes = min(max(0, request.min_bytes), max_bytes)
    wait_ms = max(0, min(request.max_wait_ms, _LONGEST_WAIT_MS))
    wanted = order.wanted
    if not wanted:
        min_bytes = 0
    parts = call.engine.reads.fetch_now(wanted, max_bytes, min_bytes if wait_ms else 0)
    if parts is not None and not conversion.is_due(wanted, parts, call.version):
        return order.respond(parts)
    finding = _find(call, wanted, parts, max_bytes, min_bytes, wait_ms / 1000)
    return _later(order, finding)


async def _later(order: "_Order", finding: Awaitable[Sequence[Part]]) -> FetchResponse:
    return order.respond(await finding)


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
            replace(want, offset=one.next_offset) for want, one in zip(wanted, handed, strict=True)
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


def _topic(call: Call, asked: str | bytes) -> Topic | KafscaleError:
    topics = call.engine.topics
    try:
        if isinstance(asked, bytes):
            return topics.get_by_id(asked)
        if topics.find(asked) is None:
            call.engine.discovery.notice(asked)
        return topics.get(asked)
    except KafscaleError as problem:
        return problem


# -- answering -------------------------------------------------------------------------------


class _Order:
    """What one request is to be answered with: the partitions of its session, or those it names."""

    def __init__(self, call: Call, session: FetchSession | None) -> None:
        """Look up the topics."""
        self._call = call
        self._session = session
        self._told = list(session.partitions.values()) if session else []
        self.wanted = self._of_session(session) if session else self._of_request()

    def _of_request(self) -> list[Wanted]:
        wanted: list[Wanted] = []
        by_id = self._call.version >= _BY_ID_FROM
        for row in self._call.message.topics:
            topic = _topic(self._call, row.topic_id if by_id else row.topic)
            wanted += [
                Wanted(
                    topic,
                    one.partition,
                    one.fetch_offset,
                    one.partition_max_bytes,
                    one.current_leader_epoch,
                )
                for one in row.partitions
            ]
        return wanted

    def _of_session(self, session: FetchSession) -> list[Wanted]:
        found: dict[str | bytes, Topic | KafscaleError] = {}
        wanted = []
        for one in self._told:
            topic = found.get(one.asked.topic)
            if topic is None:
                topic = found[one.asked.topic] = _topic(self._call, one.asked.topic)
            asked = one.asked
            wanted.append(
                Wanted(topic, asked.partition, asked.offset, asked.max_bytes, asked.leader_epoch)
            )
        return wanted

    def respond(self, parts: Sequence[Part]) -> FetchResponse:
        """The answer; where partitions are told only their news, those that have some."""
        _count(self._call, self.wanted, parts)
        if self._session is None:
            return FetchResponse(responses=self._all(parts))
        return FetchResponse(
            session_id=self._session.session_id,
            responses=self._news(self._session, parts),
        )

    def _all(self, parts: Sequence[Part]) -> list[FetchableTopicResponse]:
        call, wanted, topics, at = self._call, self.wanted, [], 0
        for row in call.message.topics:
            end = at + len(row.partitions)
            pairs = zip(wanted[at:end], parts[at:end], strict=True)
            rows = [_row(call, want, part) for want, part in pairs]
            topics.append(FetchableTopicResponse(row.topic, row.topic_id, rows))
            at = end
        return topics

    def _news(self, session: FetchSession, parts: Sequence[Part]) -> list[FetchableTopicResponse]:
        is_first = self._call.message.session_epoch == FULL
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for known, want, part in zip(self._told, self.wanted, parts, strict=True):
            if not known.learns(part, is_first):
                continue
            if part.batches:
                session.served(known.asked)
            topic = topics.get(known.asked.topic)
            if topic is None:
                topic = topics[known.asked.topic] = _topic_row(known.asked.topic)
            topic.partitions.append(_row(self._call, want, part))
        return list(topics.values())


def _topic_row(topic: str | bytes) -> FetchableTopicResponse:
    if isinstance(topic, str):
        return FetchableTopicResponse(topic=topic)
    return FetchableTopicResponse(topic_id=topic)


def _count(call: Call, wanted: Sequence[Wanted], parts: Sequence[Part]) -> None:
    """Note the outcome; latency only where data was read at once, not where it was waited for."""
    probe = call.engine.probe
    topic: Topic | KafscaleError | None = None
    for want, part in zip(wanted, parts, strict=True):
        if want.topic is not topic:
            topic = want.topic
            counts = probe.reads_of(topic.name) if isinstance(topic, Topic) else None
        if counts is None:
            continue
        if part.error is not None:
            counts.refused(want.partition)
        elif part.batches:
            counts.read(want.partition, part.from_memory, part.read_s)
        else:
            counts.answered(want.partition)


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
    if part.error is not None:
        return _error_row(call, want, part, part.error)
    high, start = part.high, part.start
    # By their places, which is a third of the price: a thousand of these are one answer.
    return PartitionData(
        want.partition, 0, high, high, start, None, None, None, None, -1, part.batches or b""
    )


def _error_row(call: Call, want: Wanted, part: Part, problem: KafscaleError) -> PartitionData:
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
