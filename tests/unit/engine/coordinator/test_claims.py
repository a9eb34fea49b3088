"""A broker that has lost a group is stopped by the store, whatever it believes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.engine.engine import Engine
from kafscale.groups.classic.events import Heartbeat, Join, Joined, Leave, Left, Sync, Synced
from kafscale.groups.events import GroupOutcome, Rejected
from kafscale.metadata import keys
from kafscale.metadata.store import Put
from kafscale.model.errors import MetadataUnavailable, NotTheCoordinator
from kafscale.testing.in_process import InProcessBroker
from tests.unit.engine.engine_harness import EngineHarness


@pytest.fixture
async def rival(harness: EngineHarness) -> AsyncIterator[Engine]:
    """Another broker on the same stores, which believes that everything is its own."""
    broker = await InProcessBroker(
        store=harness.store, metadata=harness.metadata, clock=harness.clock
    ).start()
    yield broker.engine
    await broker.stop()


async def ask(engine: Engine, kind: type[Any], **fields: Any) -> GroupOutcome:
    await engine.groups.load("g")
    event = kind(call=engine.groups.new_call(), **fields)
    waiting = engine.groups.ask("g", event)
    if isinstance(event, Join | Sync):
        return await engine.groups.settled("g", waiting, event.member_id)
    return await waiting


async def join(engine: Engine, member_id: str) -> GroupOutcome:
    return await ask(
        engine,
        Join,
        fresh_id=member_id,
        session_timeout_s=10.0,
        rebalance_timeout_s=60.0,
        protocol_type="consumer",
        protocols={"range": b""},
    )


async def commit(engine: Engine, offset: int, group: str = "g") -> None:
    assert await engine.offsets.commit(group, [OffsetCommit("t", 0, offset)]) == [None]


async def committed(harness: EngineHarness, group: str = "g") -> list[int]:
    return [row.offset for row in (await harness.engine.offsets.committed(group)).values()]


async def claim(harness: EngineHarness, group: str = "g") -> keys.CoordinatorRow | None:
    entry = await harness.metadata.get(keys.group_coordinator(group))
    return None if entry is None else keys.decode(keys.CoordinatorRow, entry.value)


async def test_a_claim_says_who_and_its_epoch_rises_every_time(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    for times in (1, 2, 3):
        await commit(harness.engine, times)
        await commit(harness.engine, times)
        found = await claim(harness)
        assert found is not None
        assert (found.epoch, found.broker_epoch) == (times, harness.engine.identity.epoch)
        await harness.reopen()


async def test_the_commit_of_a_coordinator_that_has_lost_the_group_is_refused_by_the_store(
    harness: EngineHarness, rival: Engine
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await rival._parts.topics.load(rival._reactions)
    await commit(harness.engine, 5)
    await commit(rival, 7)
    with pytest.raises(NotTheCoordinator):
        await commit(harness.engine, 6)
    assert await committed(harness) == [7]
    # Told once, it may take the group again; then the other one is refused.
    await commit(harness.engine, 8)
    with pytest.raises(NotTheCoordinator):
        await commit(rival, 9)
    await commit(rival, 11)
    with pytest.raises(NotTheCoordinator):
        await harness.engine.offsets.delete("g", [("t", 0)])
    assert await committed(harness) == [11]


async def test_a_group_that_was_only_looked_at_is_not_taken_from_who_has_written_since(
    harness: EngineHarness, rival: Engine
) -> None:
    await harness.engine.groups.load("g")  # sees no group
    joined = await join(rival, "m")
    assert isinstance(joined, Joined)
    assert isinstance(await ask(rival, Sync, member_id="m", generation=1), Synced)
    assert isinstance(await join(harness.engine, "n"), Joined)  # by what it knows
    outcome = await ask(harness.engine, Sync, member_id="n", generation=1)
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.problem, NotTheCoordinator)
    entry = await harness.metadata.get(keys.group_metadata("g"))
    assert entry is not None
    assert list(keys.decode(keys.GroupRow, entry.value).members) == ["m"]
    # From now on it knows better.
    outcome = await ask(harness.engine, Heartbeat, member_id="n", generation=1)
    assert isinstance(outcome, Rejected)
    assert harness.engine.groups.in_memory("g") is not None


async def test_who_waits_in_a_lost_group_is_sent_to_the_other_broker(
    harness: EngineHarness, rival: Engine
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await rival._parts.topics.load(rival._reactions)
    assert isinstance(await join(harness.engine, "m"), Joined)
    assert isinstance(await ask(harness.engine, Sync, member_id="m", generation=1), Synced)
    groups = harness.engine.groups
    event = Join(
        call=groups.new_call(),
        fresh_id="n",
        session_timeout_s=10.0,
        rebalance_timeout_s=60.0,
        protocol_type="consumer",
        protocols={"range": b""},
    )
    waiting = groups.ask("g", event)  # for m to join again
    assert await ask(rival, Leave, leavers=(("m", None),)) == Left((None,))
    await rival.groups.aclose()  # saved: the group is the rival's
    with pytest.raises(NotTheCoordinator):
        await commit(harness.engine, 1)
    outcome = await groups.settled("g", waiting, event.member_id)
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.problem, NotTheCoordinator)


async def test_one_lost_group_does_not_take_others_along_that_were_written_together(
    harness: EngineHarness, rival: Engine
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await rival._parts.topics.load(rival._reactions)
    names = [f"g{number}" for number in range(20)]
    for name in names:
        await commit(harness.engine, 1, name)
    for name in names[3:5]:
        await commit(rival, 2, name)
    results = await asyncio.gather(
        *(harness.engine.offsets.commit(name, [OffsetCommit("t", 0, 9)]) for name in names),
        return_exceptions=True,
    )
    refused = [name for name, result in zip(names, results, strict=True) if result != [None]]
    assert refused == names[3:5]
    assert [await committed(harness, name) for name in names] == [
        [2] if name in refused else [9] for name in names
    ]


async def test_a_claim_that_was_not_heard_of_is_known_again(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    harness.metadata.lose_answers = 1
    with pytest.raises(MetadataUnavailable):
        await commit(harness.engine, 1)
    harness.clock.advance_ms(5)
    await commit(harness.engine, 2)
    found = await claim(harness)
    assert found is not None
    assert found.epoch == 1


async def test_a_claim_that_cannot_be_read_does_not_lock_a_group(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.metadata.commit([Put(keys.group_coordinator("g"), b"{nonsense")])
    await commit(harness.engine, 1)
    assert await claim(harness) is not None


async def test_a_group_cannot_be_deleted_by_a_broker_that_has_lost_it(
    harness: EngineHarness, rival: Engine
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await rival._parts.topics.load(rival._reactions)
    await commit(harness.engine, 1)
    await harness.engine.groups.load("g")
    await commit(rival, 2)
    with pytest.raises(NotTheCoordinator):
        await harness.engine.groups.delete("g")
    assert await committed(harness) == [2]


async def test_questions_about_unknown_groups_leave_nothing_behind(
    harness: EngineHarness,
) -> None:
    for number in range(10):
        assert await harness.engine.groups.describe(f"unknown-{number}") is None
        assert await is_rejected(harness.engine, f"unknown-{number}")
    assert await harness.metadata.find(keys.CONSUMERS) == []


async def is_rejected(engine: Engine, group: str) -> bool:
    await engine.groups.load(group)
    event = Heartbeat(call=engine.groups.new_call(), member_id="m", generation=1)
    return isinstance(await engine.groups.ask(group, event), Rejected)
