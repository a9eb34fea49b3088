"""Fetch: API 1, versions 0-13.

v0-1  get message format 0, v2-3 format 1, converted from what is stored
v3    max_bytes for the whole answer
v7    incremental sessions
v9    leader epochs are checked
v12   flexible
v13   topics by id
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.gateways.kafka import client_errors, conversion
from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.fetch_answers import BY_ID_FROM, NamedOrder, SessionOrder
from kafscale.gateways.kafka.fetch_sessions import (
    CLOSE,
    FULL,
    MOST_PARTITIONS,
    NO_SESSION,
    Asked,
    FetchSession,
)
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.fetch import FetchRequest, FetchResponse

API_KEY: Final = FetchRequest.api_key
VERSIONS: Final = FetchRequest.versions

_SESSIONS_FROM: Final = 7
_LARGEST_ANSWER: Final = 57_671_680
_LONGEST_WAIT_MS: Final = 30_000


def answer(call: Call) -> Answer:
    """Answer at once from memory if there is enough, else wait."""
    request: FetchRequest = call.message
    session: FetchSession | None = None
    if call.version >= _SESSIONS_FROM:
        problem, session = _session(call)
        if problem is not ErrorCode.NONE:
            client_errors.note_ordinary(call, problem.name.lower(), f"session {request.session_id}")
            return FetchResponse(error_code=problem)
    max_bytes = max(0, min(request.max_bytes, _LARGEST_ANSWER))
    wait_ms = max(0, min(request.max_wait_ms, _LONGEST_WAIT_MS))
    wishes = _Wishes(max_bytes, min(max(0, request.min_bytes), max_bytes), wait_ms / 1000)
    order = NamedOrder(call) if session is None else _in_line(call, session)
    if order.is_empty:
        wishes = wishes._replace(min_bytes=0)
    at_least = wishes.min_bytes if wait_ms else 0
    parts = call.engine.reads.fetch_now(order.wanted, max_bytes, at_least)
    if parts is not None and not conversion.is_due(order.wanted, parts, call.version):
        return order.respond(parts)
    if isinstance(order, NamedOrder):
        return _later(call, order, parts, wishes)
    if parts is None:
        order.let_rest()
    return _news(call, order.session, wishes)


class _Wishes(NamedTuple):
    """How much, and how long to wait for it."""

    max_bytes: int
    min_bytes: int
    wait_s: float


async def _later(
    call: Call,
    order: NamedOrder | SessionOrder,
    parts: Sequence[ReadResult] | None,
    wishes: _Wishes,
) -> FetchResponse:
    return order.respond(await _find(call, order.wanted, parts, *wishes))


def _in_line(call: Call, session: FetchSession) -> SessionOrder:
    return SessionOrder(call, session, session.line_up(call.engine.clock.elapsed_s()))


async def _news(call: Call, session: FetchSession, wishes: _Wishes) -> FetchResponse:
    """Wait for partitions at rest without looking at them; for others with a look at all."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wishes.wait_s
    while True:
        order = _in_line(call, session)
        parts = await _find(call, order.wanted, None, *wishes._replace(wait_s=0.0))
        left_s = deadline - loop.time()
        enough = sum(part.size for part in parts) >= wishes.min_bytes
        if enough or left_s <= 0 or any(part.error for part in parts):
            return order.respond(parts)
        if not order.let_rest():
            everyone = SessionOrder(call, session, list(session.partitions.values()))
            return await _later(call, everyone, None, wishes._replace(wait_s=left_s))
        await session.news(left_s)


async def _find(
    call: Call,
    wanted: Sequence[PartitionRead],
    parts: Sequence[ReadResult] | None,
    max_bytes: int,
    min_bytes: int,
    wait_s: float,
) -> Sequence[ReadResult]:
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
    sessions.let_go_idle(call.engine.clock.elapsed_s())
    by_id = call.version >= BY_ID_FROM
    if request.session_epoch == CLOSE:
        sessions.close(request.session_id)
        return ErrorCode.NONE, None
    if request.session_epoch == FULL:
        sessions.close(request.session_id)
        asked = _asked(call)
        if len(asked) > MOST_PARTITIONS:
            return ErrorCode.NONE, None  # it may name them anew each time
        session = sessions.create(by_id)
        session.update(asked, [])
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
    if len(found.partitions) > MOST_PARTITIONS:
        sessions.close(request.session_id)
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None
    found.advance()
    return ErrorCode.NONE, found


def _asked(call: Call) -> list[Asked]:
    request: FetchRequest = call.message
    by_id = call.version >= BY_ID_FROM
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
