import asyncio
import json
import random
from typing import Any

import pytest

from kafscale.engine.coordinator import groups as engine_groups
from kafscale.groups.classic.events import Heartbeat, Join, Joined, Leave, Sync, Synced
from kafscale.groups.classic.states import GroupState
from kafscale.groups.events import Accepted, Event, GroupOutcome, Rejected
from kafscale.metadata import keys
from kafscale.metadata.store import Put
from kafscale.model.errors import (
    GroupNotEmpty,
    GroupNotFound,
    InvalidGroupId,
    MetadataUnavailable,
    UnknownMember,
)
from tests.unit.engine.engine_harness import EngineHarness, tick_groups
from tests.unit.engine.small_metadata import Narrow

KEY = "/kafscale/consumers/g/metadata"
SUBSCRIPTION = b"\x00\x03\x00\x00\x00\x02\x00\x06orders\x00\x01t"
ASSIGNMENT = b"\x00\x00\x00\x00\x00\x01\x00\x06orders" + bytes((0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2))


async def ask(harness: EngineHarness, kind: type[Any], **fields: Any) -> GroupOutcome:
    groups = harness.engine.groups
    await groups.load("g")
    event: Event = kind(call=groups.new_call(), **fields)
    waiting = groups.ask("g", event)
    if isinstance(event, Join | Sync):
        return await groups.settled("g", waiting, event.member_id)
    return await waiting


async def join(harness: EngineHarness, fresh_id: str = "m", /, **fields: Any) -> GroupOutcome:
    given = {
        "fresh_id": fresh_id,
        "client_id": "me",
        "client_host": "/127.0.0.1",
        "session_timeout_s": 10.0,
        "rebalance_timeout_s": 60.0,
        "protocol_type": "consumer",
        "protocols": {"range": SUBSCRIPTION},
        **fields,
    }
    return await ask(harness, Join, **given)


async def stable(harness: EngineHarness, assignment: bytes = ASSIGNMENT) -> None:
    assert isinstance(await join(harness), Joined)
    outcome = await ask(harness, Sync, member_id="m", generation=1, assignments={"m": assignment})
    assert outcome == Synced("consumer", "range", assignment)


async def stored(harness: EngineHarness) -> dict[str, Any] | None:
    entry = await harness.metadata.get(KEY)
    return None if entry is None else json.loads(entry.value)


async def test_it_lies_where_the_schema_says_under_the_names_the_schema_says(
    harness: EngineHarness,
) -> None:
    await stable(harness)
    row = await stored(harness)
    assert row is not None
    member = row["members"].pop("m")
    assert row == {
        "group_id": "g",
        "state": "Stable",
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": "m",
        "generation_id": 1,
        "group_type": "classic",
        "target_epoch": 0,
        "members": {},
        "state_at": "2023-11-14T22:13:20.000Z",
    }
    assert member["client_id"] == "me"
    assert member["client_host"] == "/127.0.0.1"
    assert member["heartbeat_at"] == "2023-11-14T22:13:20.000Z"
    assert member["subscriptions"] == ["orders", "t"]
    assert member["assignment"] == [{"topic": "orders", "partitions": [0, 2]}]


@pytest.mark.parametrize("junk", [b"", b"\x00", b"\xff" * 30, ASSIGNMENT[:-1], b"\x00\x00\x7f" * 9])
async def test_bytes_that_say_nothing_to_us_are_kept_all_the_same(
    harness: EngineHarness, junk: bytes
) -> None:
    await stable(harness, junk)
    row = await stored(harness)
    assert row is not None
    assert row["members"]["m"]["assignment"] == []
    await harness.reopen()
    assert await ask(harness, Sync, member_id="m", generation=1) == Synced(
        "consumer", "range", junk
    )


async def test_heartbeats_are_not_written(harness: EngineHarness) -> None:
    await stable(harness)
    before = await harness.metadata.get(KEY)
    for _ in range(10):
        assert await ask(harness, Heartbeat, member_id="m", generation=1) == Accepted()
    assert await harness.metadata.get(KEY) == before


async def test_members_do_not_hear_of_an_assignment_that_was_not_saved(
    harness: EngineHarness,
) -> None:
    await join(harness)
    harness.metadata.refuse_commits = (
        1000  # the group's own attempts, and those for calls that wait
    )
    fields: dict[str, Any] = {"member_id": "m", "generation": 1}
    refused = await ask(harness, Sync, **fields, assignments={"m": b"mine"})
    assert isinstance(refused, Rejected)
    assert isinstance(refused.problem, MetadataUnavailable)
    assert await stored(harness) is None
    harness.metadata.refuse_commits = 0
    assert await ask(harness, Sync, **fields) == Synced("consumer", "range", b"mine")
    assert await stored(harness) is not None


async def test_a_group_whose_last_member_left_is_saved_as_empty(harness: EngineHarness) -> None:
    await stable(harness)
    await ask(harness, Leave, leavers=(("m", None),))
    await harness.reopen()
    row = await stored(harness)
    assert row is not None
    assert (row["state"], row["generation_id"], row["members"]) == ("Empty", 2, {})
    joined = await join(harness)
    assert isinstance(joined, Joined)
    assert joined.generation == 3


async def test_members_that_do_not_come_back_after_a_restart_expire(harness: EngineHarness) -> None:
    await stable(harness)
    await harness.reopen()
    assert await ask(harness, Heartbeat, member_id="m", generation=1) == Accepted()
    harness.clock.advance_ms(10_000)
    tick_groups(harness.engine.groups)
    outcome = await ask(harness, Heartbeat, member_id="m", generation=1)
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.problem, UnknownMember)


async def test_timers_go_off_by_themselves() -> None:
    harness = EngineHarness()
    async with harness:
        await stable(harness)
        held = harness.engine.groups._loaded["g"]
        harness.clock.advance_ms(9_999)
        await ask(harness, Sync, member_id="m", generation=1)
        held.wakes_s = float("inf")
        harness.engine.groups._wake_at(held, 10.0)  # in a millisecond, as time stands
        harness.clock.advance_ms(20_000)
        while held.machine.state is not GroupState.EMPTY:
            await asyncio.sleep(0.01)


async def test_a_group_whose_record_cannot_be_read_begins_again(
    harness: EngineHarness,
) -> None:
    await harness.metadata.commit([Put(KEY, b"{nonsense")])
    joined = await join(harness)
    assert isinstance(joined, Joined)
    assert joined.generation == 1


async def test_a_group_that_cannot_be_read_is_not_made_up(harness: EngineHarness) -> None:
    groups = harness.engine.groups
    with pytest.raises(MetadataUnavailable):
        groups.ask("g", Heartbeat(call=groups.new_call(), member_id="m", generation=1))
    with pytest.raises(InvalidGroupId):
        await groups.load("")


async def test_groups_without_members_leave_memory_when_there_are_many(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_groups, "_MOST_IDLE", 10)
    await stable(harness)
    for number in range(100):
        await harness.engine.groups.load(f"idle-{number}")
    assert len(harness.engine.groups._loaded) <= 11
    assert await ask(harness, Heartbeat, member_id="m", generation=1) == Accepted()


async def test_deleting_takes_everything_with_it(harness: EngineHarness) -> None:
    groups = harness.engine.groups
    with pytest.raises(GroupNotFound):
        await groups.delete("g")
    await stable(harness)
    with pytest.raises(GroupNotEmpty):
        await groups.delete("g")
    await ask(harness, Leave, leavers=(("m", None),))
    await groups.delete("g")
    assert await harness.metadata.find(keys.group("g")) == []
    assert await groups.list() == []
    joined = await join(harness)
    assert isinstance(joined, Joined)
    assert joined.generation == 1


async def test_a_member_id_is_short_whatever_the_client_calls_itself(
    harness: EngineHarness,
) -> None:
    found = harness.engine.groups.fresh_member_id("x" * 32_767)
    assert len(found) == 255 + 37
    assert found != harness.engine.groups.fresh_member_id("x" * 32_767)


async def test_a_member_whose_time_is_over_does_not_keep_a_group_from_being_deleted(
    harness: EngineHarness,
) -> None:
    await stable(harness)
    harness.clock.advance_ms(10_001)  # the timer of the loop has not come yet
    await harness.engine.groups.delete("g")
    assert await stored(harness) is None


async def wide_group(
    harness: EngineHarness, subscription: bytes, members: int
) -> list[GroupOutcome]:
    """A group of that many members, all of them at once."""
    names = [f"m{number:03}" for number in range(members)]
    fields = {"protocols": {"range": subscription, "sticky": subscription}}
    await join(harness, names[0], **fields)
    async with asyncio.timeout(30):
        await asyncio.gather(
            *(join(harness, name, **fields) for name in names[1:]),
            join(harness, member_id=names[0], **fields),
        )
    shares = dict.fromkeys(names, ASSIGNMENT)
    return await asyncio.gather(
        *(ask(harness, Sync, member_id=name, generation=2, assignments=shares) for name in names)
    )


async def test_members_that_read_hundreds_of_topics_fit_into_etcd(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.engine.groups, "_metadata", Narrow(harness.metadata))
    topics = b"".join(b"\0\x18com.example.orders.v1.%03d" % number for number in range(200))
    outcomes = await wide_group(harness, b"\0\3" + (200).to_bytes(4, "big") + topics, 100)
    assert set(outcomes) == {Synced("consumer", "range", ASSIGNMENT)}
    await harness.reopen()
    back = await ask(harness, Sync, member_id="m099", generation=2)
    assert back == Synced("consumer", "range", ASSIGNMENT)


async def test_a_group_beyond_all_measure_lives_and_joins_again_after_a_restart(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.engine.groups, "_metadata", Narrow(harness.metadata))
    outcomes = await wide_group(harness, random.Random(1).randbytes(400_000), 3)
    assert set(outcomes) == {Synced("consumer", "range", ASSIGNMENT)}
    await harness.reopen()
    again = await ask(harness, Heartbeat, member_id="m001", generation=2)
    assert isinstance(again, Rejected)
    assert isinstance(again.problem, UnknownMember)
    assert isinstance(joined := await join(harness, "n"), Joined)
    assert joined.generation == 3
