"""Two brokers that both believe they coordinate a group: the one that lost it says so."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.heartbeat import HeartbeatRequest
from kafscale.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafscale.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.gateways.kafka.apis.test_offset_commit import codes, commit_request
from tests.unit.gateways.kafka.caller import Caller

Pair = tuple[Caller, Caller]


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Connections to an old and a new broker on the same stores, both with topic t."""
    async with AsyncExitStack() as undo:
        store, metadata = MemoryObjectStore(), EmbeddedMetadataStore(tmp_path / "m.db", "OFF")
        undo.push_async_callback(metadata.aclose)
        old = await undo.enter_async_context(InProcessBroker(store=store, metadata=metadata))
        first = await undo.enter_async_context(Caller(old.port))
        await first.create("t")
        new = await undo.enter_async_context(InProcessBroker(store=store, metadata=metadata))
        yield first, await undo.enter_async_context(Caller(new.port))


async def commit(caller: Caller, offset: int, member: str = "", generation: int = -1) -> int:
    request = commit_request(
        "g", {"t": {0: offset}}, generation_id_or_member_epoch=generation, member_id=member
    )
    ((_, _, code),) = await codes(caller, request, 8)
    return code


async def join(caller: Caller) -> Any:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return await caller.ask(
        JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", protocols), 3
    )


async def sync(caller: Caller, joined: Any, share: bytes) -> int:
    shares = [SyncGroupRequestAssignment(joined.member_id, share)]
    request = SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=shares)
    return int((await caller.ask(request, 3)).error_code)


async def test_the_commit_of_the_old_coordinator_is_refused(pair: Pair) -> None:
    old, new = pair
    assert await commit(old, 5) == 0
    assert await commit(new, 7) == 0
    assert await commit(old, 6) == ErrorCode.NOT_COORDINATOR


async def test_so_it_is_when_the_old_one_has_read_the_group_but_never_written(pair: Pair) -> None:
    old, new = pair
    request = HeartbeatRequest("g", 1, "missing")
    assert (await old.ask(request, 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit(new, 7) == 0
    assert await commit(old, 6) == ErrorCode.NOT_COORDINATOR


async def test_a_members_commit_is_refused_although_its_generation_was_right(pair: Pair) -> None:
    old, new = pair
    joined = await join(old)
    assert await sync(old, joined, b"mine") == 0
    assert await commit(old, 5, joined.member_id, 1) == 0
    assert await commit(new, 6, joined.member_id, 1) == 0, "the new one knows the member"
    assert await commit(old, 7, joined.member_id, 1) == ErrorCode.NOT_COORDINATOR
    found = (await old.ask(HeartbeatRequest("g", 1, joined.member_id), 3)).error_code
    assert found == 0, "read again, the group is as the store has it"


async def test_what_the_old_one_would_assign_is_not_handed_out(pair: Pair) -> None:
    old, new = pair
    joined = await join(old)
    assert await commit(new, 1) == 0
    assert await sync(old, joined, b"mine") == ErrorCode.NOT_COORDINATOR
