"""One broker writes the members, and no other can."""

import dataclasses

import pytest

from kafscale.engine.cluster.controller import Controller
from kafscale.engine.cluster.events import FleetRead, MembersSeen, WriteMembers
from kafscale.engine.cluster.fleet_state import FleetState
from kafscale.metadata import keys
from kafscale.metadata.store import Put, Remove
from kafscale.model.errors import MetadataConflict
from tests.unit.engine.fleet_harness import FleetHarness, eventually, with_topic


async def test_when_the_controller_goes_another_one_is_elected(fleet: FleetHarness) -> None:
    members = await fleet.start_all(3)
    (old,) = [member for member in members if member.fleet.is_controller]
    await old.broker.stop()
    fleet.members.remove(old)
    await fleet.agree()
    await eventually(lambda: any(member.fleet.is_controller for member in fleet.members))
    (new,) = [member for member in fleet.members if member.fleet.is_controller]
    ours = {new.fleet.identity.broker_id}
    await eventually(lambda: {member.fleet.controller_id() for member in fleet.members} == ours)


async def test_a_deposed_controller_cannot_write_members(fleet: FleetHarness) -> None:
    members = await fleet.start_all(2)
    (old,) = [member for member in members if member.fleet.is_controller]
    (other,) = [member for member in members if member is not old]
    then = await old.fleet.store.read_fleet()
    assert then.controller == old.fleet.state.as_controller
    usurper = keys.ControllerRow(
        broker_id=other.fleet.identity.broker_id, incarnation=other.fleet.state.incarnation
    )
    await fleet.metadata.commit([Put(keys.CONTROLLER, keys.encode(usurper))])
    before = await fleet.metadata.get(keys.MEMBERS)
    leaver = keys.BrokerRow(
        broker_id=9, host="h", port=1, started_at="", version="", incarnation=1000, leaving=True
    )
    other.wire.is_cut = True  # the broker that could write them is silent
    await fleet.metadata.commit([Put(keys.broker(9), keys.encode(leaver))])
    stays = keys.BrokerRow(
        broker_id=9, host="h", port=1, started_at="", version="", incarnation=1000
    )
    await fleet.metadata.commit([Put(keys.broker(9), keys.encode(stays))])
    now = await old.fleet.store.read_fleet()
    believed = dataclasses.replace(
        now, controller=then.controller, controller_version=then.controller_version
    )
    effect = Controller(old.fleet.state, gather_s=0.0).decide(believed, 1.0)
    assert isinstance(effect, WriteMembers)
    with pytest.raises(MetadataConflict):
        await old.fleet.store.write_members(effect)
    assert await fleet.metadata.get(keys.MEMBERS) == before
    await fleet.metadata.commit([Remove(keys.broker(9)), Remove(keys.CONTROLLER)])


async def test_generations_and_incarnations_are_numbers_of_one_rising_mark(
    fleet: FleetHarness,
) -> None:
    members = await fleet.start_all(3)
    incarnations = [member.fleet.state.incarnation for member in members]
    assert sorted(incarnations) == incarnations
    entry = await fleet.metadata.get(keys.EPOCHS)
    assert entry is not None
    assert keys.decode(keys.Mark, entry.value).next > members[0].fleet.generation > incarnations[-1]


async def test_a_registration_that_cannot_be_read_stops_no_broker(fleet: FleetHarness) -> None:
    members = await fleet.start_all(2)
    await fleet.metadata.commit([Put(keys.broker(5), b"{"), Put(f"{keys.BROKERS}x", b"{}")])
    await members[1].broker.stop()
    fleet.members.remove(members[1])
    await fleet.agree()


async def test_a_broker_that_missed_a_generation_waits_before_it_goes_on(
    fleet: FleetHarness,
) -> None:
    (member,) = await with_topic(fleet, 1, 2)
    await member.append("t", 0, b"x")
    membership = member.fleet
    members = keys.MemberList(
        generation=membership.generation + 10,
        previous=membership.generation + 5,  # which we have never seen
        brokers=(keys.MemberRow(0, membership.state.incarnation),),
    )
    membership.feed(MembersSeen(members))
    assert member.parts.logs.count() == 0  # another broker may have had it in between
    await eventually(lambda: membership.state.is_settled)
    assert await member.append("t", 0, b"y") == 1


def _row(broker_id: int, transaction_version: int, *, leaving: bool = False) -> keys.BrokerRow:
    return keys.BrokerRow(
        broker_id=broker_id,
        host="h",
        port=1,
        started_at="",
        version="",
        incarnation=broker_id,
        leaving=leaving,
        transaction_version=transaction_version,
    )


def test_the_version_of_transactions_is_what_all_brokers_know_and_never_falls() -> None:
    state = FleetState(1, 1)
    controller = Controller(state, gather_s=0.0)

    def write(rows: list[keys.BrokerRow], members: keys.MemberList) -> keys.MemberList | None:
        facts = FleetRead(
            brokers=tuple(rows),
            controller=state.as_controller,
            controller_version=1,
            members=members,
            members_version=1,
            next_epoch=members.generation + 1,
            epochs_version=1,
        )
        effect = controller.decide(facts, 1.0)
        return effect.members if isinstance(effect, WriteMembers) else None

    old = write([_row(1, 2), _row(2, 0)], keys.MemberList(generation=0))
    assert old is not None
    assert old.transaction_version == 0, "an earlier release does not know it"
    # The old broker hands over: it still serves clients.
    alone = write([_row(1, 2), _row(2, 0, leaving=True)], old)
    assert alone is not None
    assert alone.transaction_version == 0
    # It has gone for good: nothing but the version changes.
    raised = write([_row(1, 2)], alone)
    assert raised is not None
    assert (raised.brokers, raised.transaction_version) == (alone.brokers, 2)
    assert write([_row(1, 2)], raised) is None
    fallen = write([_row(1, 2), _row(3, 0)], raised)
    assert fallen is not None
    assert fallen.transaction_version == 2
