import time

import pytest

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.engine.metrics.lag import MOST_ROWS, ConsumerLag
from tests.support.exposition import parse, series
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.engine.fleet_harness import FleetHarness, Member, with_topic


async def lags(harness: EngineHarness) -> dict[tuple[str, str, str], float]:
    return {
        (dict(labels)["group"], dict(labels)["topic"], dict(labels)["partition"]): value
        for (name, labels), value in parse(harness.broker.metrics()).items()
        if name == "kafscale_consumer_lag"
    }


async def commit(harness: EngineHarness, group: str, partition: int, offset: int) -> None:
    assert await harness.engine.offsets.commit(group, [OffsetCommit("t", partition, offset)]) == [
        None
    ]


async def test_lag_is_what_is_written_and_not_yet_committed(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 2, {})
    await harness.append("t", b"1", b"2", b"3")
    await commit(harness, "g", 0, 1)
    await commit(harness, "h", 0, 3)
    await commit(harness, "h", 1, 0)  # nothing was written there since the start: not known
    assert await lags(harness) == {("g", "t", "0"): 2, ("h", "t", "0"): 0}
    await harness.append("t", b"4")
    assert await lags(harness) == {("g", "t", "0"): 3, ("h", "t", "0"): 1}
    await commit(harness, "g", 0, 99)  # beyond the end is not behind
    assert (await lags(harness))["g", "t", "0"] == 0


async def test_after_a_restart_it_is_known_again(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"1", b"2", b"3")
    await commit(harness, "g", 0, 1)
    await harness.reopen()
    await harness.read("t")  # opens the log
    await harness.parts.lag.refresh()
    assert await lags(harness) == {("g", "t", "0"): 2}


async def test_deleted_offsets_and_topics_leave_no_row(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 2, {})
    for partition in (0, 1):
        await harness.append("t", b"1", partition=partition)
        await commit(harness, "g", partition, 0)
    await harness.engine.offsets.delete("g", [("t", 0)])
    assert set(await lags(harness)) == {("g", "t", "1")}
    await harness.engine.topics.delete("t")
    await harness.engine.topics.create("t", 2, {})
    await harness.append("t", b"1", partition=1)
    assert await lags(harness) == {}
    assert harness.parts.lag._committed == {}


async def test_rows_are_bounded_and_what_found_no_room_is_counted(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"1")
    lag = ConsumerLag(
        harness.metadata,
        harness.engine.topics._registry,
        harness.parts.logs,
        harness.engine.cluster,
        most_rows=3,
    )
    for number in range(5):
        lag.offset_committed(f"g{number}", topic.name, 0, 0)
    assert len(list(lag.rows())) == 3
    assert lag.untracked == 2
    lag.offset_committed("g0", topic.name, 0, 1)  # those inside go on
    assert sorted(value for _, value in lag.rows()) == [0, 1, 1]


async def test_groups_members_rebalances_and_commits_are_counted(harness: EngineHarness) -> None:
    samples = parse(harness.broker.metrics())
    assert samples[series("kafscale_groups", state="Stable")] == 0
    assert samples[series("kafscale_group_members")] == 0
    assert samples[series("kafscale_group_rebalances_total")] == 0
    assert samples[series("kafscale_offset_commits_total", status="success")] == 0
    await harness.engine.groups.load("g")
    assert parse(harness.broker.metrics())[series("kafscale_groups", state="Empty")] == 1


async def test_a_full_table_is_scraped_without_holding_up_clients(harness: EngineHarness) -> None:
    """No bound is asserted here: it is printed, and `MOST_ROWS` was chosen by it."""
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"1")
    for number in range(MOST_ROWS):
        harness.parts.lag.offset_committed(f"g{number}", "t", 0, 0)
    harness.broker.metrics()
    began = time.perf_counter()
    page = harness.broker.metrics()
    print(f"{MOST_ROWS} rows in {(time.perf_counter() - began) * 1000:.0f} ms")
    assert page.count(b"kafscale_consumer_lag{") == MOST_ROWS


def shown(member: Member) -> dict[tuple[str, ...], float]:
    return {tuple(key): value for key, value in member.parts.lag.rows()}


def coordinator(fleet: FleetHarness, group_id: str) -> Member:
    return next(member for member in fleet.members if member.fleet.may_coordinate(group_id))


async def test_in_a_fleet_the_owner_of_a_partition_shows_the_lag_of_every_group() -> None:
    async with FleetHarness() as fleet:
        members = await with_topic(fleet, 2, 8)
        for partition in range(8):
            await fleet.owner("t", partition).append("t", partition, b"1", b"2", b"3")
        groups = [f"g{number}" for number in range(4)]
        assert {coordinator(fleet, group).fleet_id for group in groups} == {0, 1}
        for group in groups:
            wishes = [OffsetCommit("t", partition, 1) for partition in range(8)]
            assert (
                await coordinator(fleet, group).engine.offsets.commit(group, wishes) == [None] * 8
            )
        for member in members:
            await member.parts.lag.refresh()
        for partition in range(8):
            for member in members:
                here = {key: lag for key, lag in shown(member).items() if key[2] == str(partition)}
                is_owner = member is fleet.owner("t", partition)
                rows = {(group, "t", str(partition)): 2.0 for group in groups}
                assert here == (rows if is_owner else {})


async def test_what_groups_of_other_brokers_commit_is_seen_with_the_next_look() -> None:
    async with FleetHarness() as fleet:
        members = await with_topic(fleet, 2, 8)
        group = next(
            f"g{number}" for number in range(99) if coordinator(fleet, f"g{number}") is members[0]
        )
        at = next(number for number in range(8) if fleet.owner("t", number) is members[1])
        home = next(number for number in range(8) if fleet.owner("t", number) is members[0])
        for partition in (at, home):
            await fleet.owner("t", partition).append("t", partition, b"1", b"2", b"3")
        offsets = members[0].engine.offsets
        await offsets.commit(group, [OffsetCommit("t", at, 1), OffsetCommit("t", home, 1)])
        assert shown(members[0]) == {(group, "t", str(home)): 2}  # at once: both are here
        assert shown(members[1]) == {}
        await members[1].parts.lag.refresh()
        assert shown(members[1]) == {(group, "t", str(at)): 2}
        await members[1].append("t", at, b"4")  # the end is of the moment
        await offsets.commit(group, [OffsetCommit("t", at, 3)])  # the offset of the last look
        assert shown(members[1]) == {(group, "t", str(at)): 3}
        await members[1].parts.lag.refresh()
        assert shown(members[1]) == {(group, "t", str(at)): 1}
        await offsets.delete(group, [("t", at)])
        await members[1].parts.lag.refresh()
        assert shown(members[1]) == {}


async def test_a_look_at_the_store_does_not_take_back_what_was_committed_here(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"1", b"2", b"3")
    await commit(harness, "g", 0, 1)
    lag = harness.parts.lag
    lag.offset_committed("g", "t", 0, 2)  # as if the store were read just before this one
    monkeypatch.setattr(type(harness.engine.cluster), "has_peers", True)
    await lag.refresh()
    assert await lags(harness) == {("g", "t", "0"): 1}


async def test_the_look_at_the_store_stops_taking_up_rows_at_the_bound(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"1")
    for number in range(5):
        await commit(harness, f"g{number}", 0, 0)
    lag = ConsumerLag(
        harness.metadata,
        harness.engine.topics._registry,
        harness.parts.logs,
        harness.engine.cluster,
        most_rows=3,
    )
    await lag.refresh()
    assert len(list(lag.rows())) == 3
    assert lag.untracked == 0  # they count commits
