"""Groups change their coordinator and go on where they were."""

import pytest

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.groups.classic.events import Heartbeat, Join, Joined, Sync, Synced
from kafscale.groups.events import GroupOutcome, Rejected
from kafscale.model.errors import NotTheCoordinator
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually, with_topic


async def join(member: Member, group: str, member_id: str = "") -> GroupOutcome:
    await member.engine.groups.load(group)
    event = Join(
        call=member.engine.groups.new_call(),
        member_id=member_id,
        fresh_id=member_id or "m",
        session_timeout_s=10.0,
        rebalance_timeout_s=60.0,
        protocol_type="consumer",
        protocols={"range": b""},
    )
    waiting = member.engine.groups.ask(group, event)
    return await member.engine.groups.settled(group, waiting, event.member_id)


async def sync(member: Member, group: str, generation: int) -> GroupOutcome:
    event = Sync(
        call=member.engine.groups.new_call(),
        generation=generation,
        member_id="m",
        assignments={"m": b"all"},
    )
    waiting = member.engine.groups.ask(group, event)
    return await member.engine.groups.settled(group, waiting, event.member_id)


def coordinated_by(member: Member) -> str:
    names = (f"group-{number}" for number in range(100))
    return next(name for name in names if member.fleet.may_coordinate(name))


async def test_a_group_goes_on_with_its_generation_at_the_next_coordinator(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 2, 1)
    leaving, staying = members[1], members[0]
    group = coordinated_by(leaving)
    node = staying.fleet.coordinator_of(group)
    assert node is not None
    assert node.broker_id == 1
    with pytest.raises(NotTheCoordinator):
        await staying.engine.groups.load(group)
    joined = await join(leaving, group)
    assert isinstance(joined, Joined)
    assert isinstance(await sync(leaving, group, joined.generation), Synced)
    assert await leaving.engine.offsets.commit(group, [OffsetCommit("t", 0, 7)]) == [None]
    assert [row.group_id for row in await leaving.engine.groups.list()] == [group]
    assert await staying.engine.groups.list() == []
    await leaving.broker.stop()
    fleet.members.remove(leaving)
    await fleet.agree()
    await staying.engine.groups.load(group)
    beat = Heartbeat(
        call=staying.engine.groups.new_call(), generation=joined.generation, member_id="m"
    )
    outcome = await staying.engine.groups.ask(group, beat)
    assert not isinstance(outcome, Rejected)
    committed = await staying.engine.offsets.committed(group)
    assert [row.offset for row in committed.values()] == [7]
    assert [row.group_id for row in await staying.engine.groups.list()] == [group]


async def test_members_that_wait_for_a_rebalance_are_sent_to_the_next_coordinator(
    fleet: FleetHarness,
) -> None:
    members = await fleet.start_all(2)
    leaving = members[1]
    group = coordinated_by(leaving)
    joined = await join(leaving, group)
    assert isinstance(joined, Joined)
    second = Join(
        call=leaving.engine.groups.new_call(),
        fresh_id="n",
        session_timeout_s=10.0,
        rebalance_timeout_s=60.0,
        protocol_type="consumer",
        protocols={"range": b""},
    )
    waiting = leaving.engine.groups.ask(group, second)  # waits for the first member to come again
    await leaving.broker.stop()
    fleet.members.remove(leaving)
    outcome = await waiting
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.problem, NotTheCoordinator)


async def test_a_broker_without_lease_coordinates_nothing(fleet: FleetHarness) -> None:
    members = await with_topic(fleet, 2, 1)
    lost = members[1]
    group = coordinated_by(lost)
    assert isinstance(await join(lost, group), Joined)
    lost.wire.is_cut = True
    (lease,) = [lease for lease in lost.wire.leases if lease.remaining_s() > 0]
    await lease.revoke()
    with pytest.raises(NotTheCoordinator):
        await join(lost, group, "m")
    await eventually(lambda: lost.engine.groups.in_memory(group) is None)
    await fleet.agree()
    assert members[0].fleet.may_coordinate(group)
    lost.wire.is_cut = False
    await eventually(lambda: lost.fleet.state.is_settled)


async def test_a_commit_that_was_allowed_before_the_group_was_lost_does_not_take_it_back(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 2, 1)
    staying, lost = members
    group = coordinated_by(lost)
    assert isinstance(await join(lost, group), Joined)
    assert await lost.engine.offsets.commit(group, [OffsetCommit("t", 0, 5)]) == [None]
    lost.wire.is_cut = True
    (lease,) = [lease for lease in lost.wire.leases if lease.remaining_s() > 0]
    await lease.revoke()
    await fleet.agree()
    await staying.engine.groups.load(group)
    assert await staying.engine.offsets.commit(group, [OffsetCommit("t", 0, 9)]) == [None]
    lost.wire.is_cut = False
    late = lost.engine.offsets.commit(group, [OffsetCommit("t", 0, 6)])
    with pytest.raises(NotTheCoordinator):
        await late
    committed = await staying.engine.offsets.committed(group)
    assert [row.offset for row in committed.values()] == [9]
