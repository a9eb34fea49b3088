import asyncio
from typing import Any

import pytest

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.groups.classic.events import Heartbeat, Join, Joined, Leave, Sync, Synced
from kafscale.groups.classic.states import GroupState
from kafscale.groups.events import Accepted, GroupOutcome
from kafscale.metadata import keys
from kafscale.metadata.store import Put
from kafscale.model.errors import MetadataConflict
from tests.unit.engine.engine_harness import EngineHarness, tick_groups

DAY_MS = 24 * 3600 * 1000


def subscription(*topics: str) -> bytes:
    """What an ordinary consumer says about itself."""
    raw = b"\x00\x03" + len(topics).to_bytes(4, "big")
    for topic in topics:
        raw += len(topic).to_bytes(2, "big") + topic.encode()
    return raw + b"\xff\xff\xff\xff"


async def ask(harness: EngineHarness, kind: type[Any], **fields: Any) -> GroupOutcome:
    groups = harness.engine.groups
    await groups.load("g")
    event = kind(call=groups.new_call(), **fields)
    waiting = groups.ask("g", event)
    if isinstance(event, Join | Sync):
        return await groups.settled("g", waiting, event.member_id)
    return await waiting


async def work(harness: EngineHarness, *topics: str, metadata: bytes | None = None) -> None:
    """A group of one member that reads these topics."""
    fields: dict[str, Any] = {
        "session_timeout_s": 1800.0,
        "rebalance_timeout_s": 60.0,
        "protocol_type": "consumer",
        "protocols": {"range": subscription(*topics) if metadata is None else metadata},
    }
    joined = await ask(harness, Join, fresh_id="m", **fields)
    assert isinstance(joined, Joined)
    synced = await ask(harness, Sync, member_id="m", generation=joined.generation)
    assert isinstance(synced, Synced)


async def pass_days(harness: EngineHarness, days: float, *, alive: bool = False) -> None:
    """Let time pass; members who are alive say so."""
    steps = round(days * 96)  # a quarter of an hour each
    for _ in range(steps):
        harness.clock.advance_ms(DAY_MS // 96)
        if alive:
            generation = harness.engine.groups._loaded["g"].machine.generation
            assert await ask(harness, Heartbeat, member_id="m", generation=generation) == Accepted()
        tick_groups(harness.engine.groups)
    await settle(harness)


async def settle(harness: EngineHarness) -> None:
    """Wait until what happened in memory is saved."""
    for held in list(harness.engine.groups._loaded.values()):
        await harness.engine.groups._save(held)


async def places(harness: EngineHarness) -> set[tuple[str, int]]:
    return set(await harness.engine.offsets.committed("g"))


async def names(harness: EngineHarness) -> list[str]:
    return [row.group_id for row in await harness.engine.groups.list()]


@pytest.fixture
async def topics(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 200, {})
    await harness.engine.topics.create("u", 1, {})


@pytest.mark.usefixtures("topics")
async def test_offsets_of_a_group_without_members_go_after_seven_days_since_it_became_empty(
    harness: EngineHarness,
) -> None:
    await work(harness, "t")
    await harness.engine.offsets.commit("g", [OffsetCommit("t", at, 1) for at in range(200)])
    await pass_days(harness, 3, alive=True)
    await ask(harness, Leave, leavers=(("m", None),))
    await pass_days(harness, 6.9)
    await harness.parts.expiry.expire()
    assert len(await places(harness)) == 200
    await pass_days(harness, 0.2)
    await harness.parts.expiry.expire()
    assert await places(harness) == set()
    assert await names(harness) == [], "the group went with its offsets"
    assert await harness.metadata.find(keys.CONSUMERS) == []


@pytest.mark.usefixtures("topics")
async def test_an_offset_moved_by_hand_counts_from_then(harness: EngineHarness) -> None:
    await work(harness, "t")
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 1), OffsetCommit("t", 1, 1)])
    await ask(harness, Leave, leavers=(("m", None),))
    await pass_days(harness, 5)
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 1, 0)])
    await pass_days(harness, 3)
    await harness.parts.expiry.expire()
    assert await places(harness) == {("t", 1)}
    assert await names(harness) == ["g"]


@pytest.mark.usefixtures("topics")
async def test_offsets_of_a_group_that_never_had_members_count_from_their_commit(
    harness: EngineHarness,
) -> None:
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 1)])
    await pass_days(harness, 4)
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 1, 1)])
    await pass_days(harness, 3.1)
    await harness.parts.expiry.expire()
    assert await places(harness) == {("t", 1)}
    await pass_days(harness, 4)
    await harness.parts.expiry.expire()
    assert await harness.metadata.find(keys.CONSUMERS) == []


@pytest.mark.usefixtures("topics")
async def test_a_group_at_work_keeps_the_topics_it_reads_and_loses_the_others(
    harness: EngineHarness,
) -> None:
    await work(harness, "t")
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 1), OffsetCommit("u", 0, 1)])
    await pass_days(harness, 6, alive=True)
    await harness.parts.expiry.expire()
    assert await places(harness) == {("t", 0), ("u", 0)}
    await pass_days(harness, 2, alive=True)
    await harness.parts.expiry.expire()
    assert await places(harness) == {("t", 0)}
    assert await names(harness) == ["g"]


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize("metadata", [b"", b"\x00\x01\xff", b"connect says other things"])
async def test_offsets_are_kept_if_the_metadata_of_members_cannot_be_read(
    harness: EngineHarness, metadata: bytes
) -> None:
    await work(harness, metadata=metadata)
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 1)])
    await pass_days(harness, 8, alive=True)
    await harness.parts.expiry.expire()
    assert await places(harness) == {("t", 0)}


@pytest.mark.usefixtures("topics")
async def test_in_the_middle_of_a_rebalance_nothing_expires(harness: EngineHarness) -> None:
    await work(harness, "t")
    await harness.engine.offsets.commit("g", [OffsetCommit("u", 0, 1)])
    await pass_days(harness, 8, alive=True)
    groups = harness.engine.groups
    held = groups._loaded["g"]
    waiting = groups.ask(
        "g",
        Join(
            call=groups.new_call(),
            fresh_id="n",
            session_timeout_s=10.0,
            rebalance_timeout_s=60.0,
            protocol_type="consumer",
            protocols={"range": subscription("t")},
        ),
    )
    assert held.machine.state is GroupState.PREPARING
    await harness.parts.expiry.expire()
    assert await places(harness) == {("u", 0)}
    waiting.cancel()


@pytest.mark.usefixtures("topics")
async def test_the_days_go_on_while_the_broker_is_away(harness: EngineHarness) -> None:
    await work(harness, "t")
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 1)])
    await ask(harness, Leave, leavers=(("m", None),))
    await settle(harness)
    await pass_days(harness, 4)
    await harness.reopen()
    await pass_days(harness, 3.1)
    await harness.parts.expiry.expire()
    assert await places(harness) == set()


@pytest.mark.usefixtures("topics")
async def test_offsets_expire_after_members_were_lost_with_the_broker(
    harness: EngineHarness,
) -> None:
    await work(harness, "t")
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 1)])
    await harness.reopen()  # and no client asks for the group again
    await pass_days(harness, 8)
    await harness.parts.expiry.expire()
    assert await places(harness) == {("t", 0)}, "the members may come back"
    await pass_days(harness, 0.1)
    await harness.parts.expiry.expire()
    assert await places(harness) == {("t", 0)}, "the group is empty only since a moment"
    await pass_days(harness, 7.1)
    await harness.parts.expiry.expire()
    assert await places(harness) == set()


@pytest.mark.usefixtures("topics")
async def test_an_empty_group_without_offsets_is_forgotten_at_the_next_look(
    harness: EngineHarness,
) -> None:
    await work(harness, "t")
    await harness.parts.expiry.expire()
    assert await names(harness) == ["g"]
    await ask(harness, Leave, leavers=(("m", None),))
    await settle(harness)
    await harness.parts.expiry.expire()
    assert await names(harness) == []
    assert await harness.metadata.find(keys.CONSUMERS) == []
    await work(harness, "t")  # and it can come back
    assert await names(harness) == ["g"]


@pytest.mark.usefixtures("topics")
async def test_a_claim_without_anything_else_is_swept(harness: EngineHarness) -> None:
    await harness.engine.offsets.claim("g")
    assert len(await harness.metadata.find(keys.CONSUMERS)) == 1
    assert await names(harness) == []
    await harness.parts.expiry.expire()
    assert await harness.metadata.find(keys.CONSUMERS) == []


@pytest.mark.usefixtures("topics")
async def test_a_commit_that_comes_meanwhile_wins(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 1)])
    await pass_days(harness, 8)
    remove = harness.engine.offsets.remove

    async def late(*given: Any) -> None:
        await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 2)])
        with pytest.raises(MetadataConflict):
            await remove(*given)
        raise MetadataConflict("as it was")

    monkeypatch.setattr(harness.engine.offsets, "remove", late)
    await harness.parts.expiry.expire()
    found = await harness.engine.offsets.committed("g")
    assert [row.offset for row in found.values()] == [2]


@pytest.mark.usefixtures("topics")
async def test_a_commit_under_way_when_its_group_is_forgotten_is_not_lost(
    harness: EngineHarness,
) -> None:
    await harness.engine.offsets.claim("g")
    groups = harness.engine.groups
    await groups.load("g")
    results = await asyncio.gather(
        groups.discard_bare("g"),
        harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 2)]),
        return_exceptions=True,
    )
    stored = [row.offset for row in (await harness.engine.offsets.committed("g")).values()]
    assert (stored == [2]) is (results[1] == [None]), results


@pytest.mark.usefixtures("topics")
async def test_one_unreadable_group_does_not_keep_the_others(harness: EngineHarness) -> None:
    await harness.metadata.commit([Put(keys.group_metadata("a"), b"{nonsense")])
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 1)])
    await pass_days(harness, 8)
    await harness.parts.expiry.expire()
    assert await places(harness) == set()


@pytest.mark.usefixtures("topics")
async def test_a_group_whose_end_could_not_be_saved_keeps_its_offsets_for_the_whole_time(
    harness: EngineHarness,
) -> None:
    await work(harness, "t")
    await harness.engine.offsets.commit("g", [OffsetCommit("t", 0, 1)])
    await pass_days(harness, 8, alive=True)
    harness.metadata.refuse_commits = 1
    await ask(harness, Leave, leavers=(("m", None),))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert harness.metadata.refuse_commits == 0, "the record still names the member"
    await harness.parts.expiry.expire()
    assert await places(harness) == {("t", 0)}
    record = await harness.metadata.get(keys.group_metadata("g"))
    assert record is not None
    assert keys.decode(keys.GroupRow, record.value).members == {}, "by the pass itself"
    await pass_days(harness, 6.9)
    await harness.parts.expiry.expire()
    assert await places(harness) == {("t", 0)}
    await pass_days(harness, 0.2)
    await harness.parts.expiry.expire()
    assert await harness.metadata.find(keys.CONSUMERS) == []
