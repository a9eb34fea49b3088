"""Fetch: API 1, versions 0-13.

v0-1  get message format 0, v2-3 format 1, converted from what is stored
v3    max_bytes for the whole answer
v7    incremental sessions
v9    leader epochs are checked
v12   flexible
v13   topics by id
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.gateways.kafka.access.api_requirements import FetchTopics
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.fetch_sessions import (
    CLOSE,
    FULL,
    NO_SESSION,
    FetchSession,
    RequestedPartition,
)
from kafscale.gateways.kafka.calls.request_order import POLLS_RECORDS
from kafscale.gateways.kafka.records import conversion
from kafscale.gateways.kafka.records.fetch_answers import BY_ID_FROM, SessionFetch, SessionlessFetch
from kafscale.turns import run_through
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.fetch import FetchRequest, FetchResponse

API_KEY: Final = FetchRequest.api_key
VERSIONS: Final = FetchRequest.versions
ORDER: Final = POLLS_RECORDS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (FetchTopics(),)

_SESSIONS_FROM: Final = 7
_LARGEST_ANSWER: Final = 57_671_680
_LONGEST_WAIT_MS: Final = 30_000
_AT_ONCE: Final = 1_000  # partitions that a session takes at once


def answer(call: Call) -> Answer:
    """Answer at once from memory if there is enough, else wait."""
    if call.is_long:
        return _answer_long(call)
    session: FetchSession | None = None
    if call.version >= _SESSIONS_FROM:
        problem, session = _session(call, _named(call))
        if problem is not ErrorCode.NONE:
            return _refuse(call, problem)
    return _answer(call, session)


async def _answer_long(call: Call) -> FetchResponse:
    """The same for a request that names very many partitions: its session takes some at a time."""
    session: FetchSession | None = None
    if call.version >= _SESSIONS_FROM:
        requested = [one async for one in call.each(_requested(call))]
        problem, session = _session(call, requested[:_AT_ONCE], len(requested) - _AT_ONCE)
        sessions, now_s = call.context.fetch_sessions, call.engine.clock.elapsed_s()
        async for begin in call.each(range(_AT_ONCE, len(requested), _AT_ONCE)):
            some = requested[begin : begin + _AT_ONCE]
            if session is not None and not sessions.update(session, some, (), now_s):
                # A client that has just asked for a session can do without.
                session = None
                if call.message.session_epoch != FULL:
                    problem = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if problem is not ErrorCode.NONE:
            return _refuse(call, problem)
    answer = _answer(call, session)
    return answer if isinstance(answer, FetchResponse) else await answer


def _refuse(call: Call, problem: ErrorCode) -> FetchResponse:
    detail = f"session {call.message.session_id}"
    client_errors.note_ordinary(call, problem.name.lower(), detail)
    return FetchResponse(error_code=problem)


class _Limits(NamedTuple):
    """How much, and how long to wait for it."""

    max_bytes: int
    min_bytes: int
    wait_s: float


def _answer(call: Call, session: FetchSession | None) -> FetchResponse | Awaitable[FetchResponse]:
    request: FetchRequest = call.message
    max_bytes = max(0, min(request.max_bytes, _LARGEST_ANSWER))
    wait_ms = max(0, min(request.max_wait_ms, _LONGEST_WAIT_MS))
    limits = _Limits(max_bytes, min(max(0, request.min_bytes), max_bytes), wait_ms / 1000)
    fetch = SessionlessFetch(call) if session is None else _active(call, session)
    if fetch.is_empty:
        limits = limits._replace(min_bytes=0)
    if call.is_long or fetch.is_large:
        return _answer_in_turns(call, fetch, limits)
    run_through(fetch.look_up())
    at_least = limits.min_bytes if wait_ms else 0
    results = call.engine.partitions.fetch_now(fetch.reads, max_bytes, at_least)
    if results is not None and not conversion.is_due(fetch.reads, results, call.version):
        return run_through(fetch.respond(results))
    if isinstance(fetch, SessionlessFetch):
        return _answer_later(call, fetch, results, limits)
    if results is None:
        fetch.park_all()
    return _answer_session(call, fetch.session, limits)


async def _answer_in_turns(
    call: Call, fetch: SessionlessFetch | SessionFetch, limits: _Limits
) -> FetchResponse:
    if isinstance(fetch, SessionFetch):
        return await _answer_session(call, fetch.session, limits)
    await call.engine.turns.finish(fetch.look_up())
    return await _answer_later(call, fetch, None, limits)


async def _answer_later(
    call: Call,
    fetch: SessionlessFetch | SessionFetch,
    results: Sequence[ReadResult] | None,
    limits: _Limits,
) -> FetchResponse:
    results = await _read(call, fetch.reads, results, *limits)
    return await call.engine.turns.finish(fetch.respond(results))


def _active(call: Call, session: FetchSession) -> SessionFetch:
    return SessionFetch(call, session, session.list_active(call.engine.clock.elapsed_s()))


async def _answer_session(call: Call, session: FetchSession, limits: _Limits) -> FetchResponse:
    """Wait for parked partitions without reading them; if some cannot be parked, for all."""
    loop = asyncio.get_running_loop()
    turns = call.engine.turns
    deadline = loop.time() + limits.wait_s
    while True:
        fetch = _active(call, session)
        await turns.finish(fetch.look_up())
        results = await _read(call, fetch.reads, None, *limits._replace(wait_s=0.0))
        left_s = deadline - loop.time()
        enough = sum(result.size for result in results) >= limits.min_bytes
        if enough or left_s <= 0 or any(result.error for result in results):
            return await turns.finish(fetch.respond(results))
        if not fetch.park_all():
            everything = SessionFetch(call, session, list(session.partitions.values()))
            await turns.finish(everything.look_up())
            return await _answer_later(call, everything, None, limits._replace(wait_s=left_s))
        await session.wait_for_active(left_s)


async def _read(
    call: Call,
    reads: Sequence[PartitionRead],
    results: Sequence[ReadResult] | None,
    max_bytes: int,
    min_bytes: int,
    wait_s: float,
) -> Sequence[ReadResult]:
    """Wait for data, and convert it for consumers of older formats.

    Batches may have nothing to hand out: what compaction left of them lies before the offset that
    the consumer asked for. Then reading goes on behind them, or the consumer would ask again and
    again.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    if results is None:
        results = await call.engine.partitions.fetch(reads, max_bytes, min_bytes, wait_s)
    while conversion.is_due(reads, results, call.version):
        converted = await conversion.to_hand_out(call.work, reads, results, call.version, max_bytes)
        results = [one.result for one in converted]
        if any(result.batches or result.error for result in results):
            return results
        reads = [
            replace(read, offset=one.next_offset)
            for read, one in zip(reads, converted, strict=True)
        ]
        left_s = max(0.0, deadline - loop.time())
        results = await call.engine.partitions.fetch(reads, max_bytes, min_bytes, left_s)
    return results


# -- sessions --------------------------------------------------------------------------------


def _session(
    call: Call, requested: Sequence[RequestedPartition], later: int = 0
) -> tuple[ErrorCode, FetchSession | None]:
    """Find, begin or end the session a request belongs to.

    `later`: how many partitions will be added after those that are given.
    """
    request: FetchRequest = call.message
    sessions = call.context.fetch_sessions
    now_s = call.engine.clock.elapsed_s()
    sessions.close_idle(now_s)
    by_id = call.version >= BY_ID_FROM
    if request.session_epoch == CLOSE:
        sessions.close(request.session_id)
        return ErrorCode.NONE, None
    if request.session_epoch == FULL:
        sessions.close(request.session_id)
        return ErrorCode.NONE, sessions.create(by_id, requested, now_s, max(0, later))
    cached = sessions.find(request.session_id)
    if cached is None or request.session_id == NO_SESSION:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None
    if cached.epoch != request.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH, None
    if cached.by_id != by_id:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None
    forgotten = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    if not sessions.update(cached, requested, forgotten, now_s):
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None
    cached.advance()
    return ErrorCode.NONE, cached


def _named(call: Call) -> Sequence[RequestedPartition]:
    """The partitions that a session takes; a request without a session needs no list of them."""
    return () if call.message.session_epoch == CLOSE else list(_requested(call))


def _requested(call: Call) -> Iterator[RequestedPartition]:
    request: FetchRequest = call.message
    by_id = call.version >= BY_ID_FROM
    return (
        RequestedPartition(
            topic.topic_id if by_id else topic.topic,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
        )
        for topic in request.topics
        for partition in topic.partitions
    )
