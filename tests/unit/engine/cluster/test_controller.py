"""One broker writes who counts, and no other can."""

import pytest

from kafscale.metadata import keys
from kafscale.metadata.store import Put, Remove
from kafscale.model.errors import MetadataConflict
from tests.unit.engine.fleet_harness import Squad, eventually, with_topic


async def test_when_the_controller_goes_another_one_is_elected(squad: Squad) -> None:
    mates = await squad.start_all(3)
    (old,) = [mate for mate in mates if mate.fleet.is_controller]
    await old.broker.stop()
    squad.mates.remove(old)
    await squad.agree()
    await eventually(lambda: any(mate.fleet.is_controller for mate in squad.mates))
    (new,) = [mate for mate in squad.mates if mate.fleet.is_controller]
    ours = {new.fleet.identity.broker_id}
    await eventually(lambda: {mate.fleet.controller_id() for mate in squad.mates} == ours)


async def test_a_deposed_controller_cannot_write_members(squad: Squad) -> None:
    mates = await squad.start_all(2)
    (old,) = [mate for mate in mates if mate.fleet.is_controller]
    (other,) = [mate for mate in mates if mate is not old]
    guard = await old.fleet._controller._elected()
    assert guard is not None
    usurper = keys.ControllerRow(
        broker_id=other.fleet.identity.broker_id, incarnation=other.fleet.incarnation
    )
    await squad.metadata.commit([Put(keys.CONTROLLER, keys.encode(usurper))])
    before = await squad.metadata.get(keys.MEMBERS)
    stranger = keys.BrokerRow(
        broker_id=9, host="h", port=1, started_at="", version="", incarnation=1000, leaving=True
    )
    other.wire.is_cut = True  # the one that could is silent
    await squad.metadata.commit([Put(keys.broker(9), keys.encode(stranger))])
    stays = keys.BrokerRow(
        broker_id=9, host="h", port=1, started_at="", version="", incarnation=1000
    )
    await squad.metadata.commit([Put(keys.broker(9), keys.encode(stays))])
    with pytest.raises(MetadataConflict):
        await old.fleet._controller._govern(guard)
    assert await squad.metadata.get(keys.MEMBERS) == before
    await squad.metadata.commit([Remove(keys.broker(9)), Remove(keys.CONTROLLER)])


async def test_generations_and_incarnations_are_numbers_of_one_rising_mark(squad: Squad) -> None:
    mates = await squad.start_all(3)
    incarnations = [mate.fleet.incarnation for mate in mates]
    assert sorted(incarnations) == incarnations
    entry = await squad.metadata.get(keys.EPOCHS)
    assert entry is not None
    assert keys.decode(keys.Mark, entry.value).next > mates[0].fleet.generation > incarnations[-1]


async def test_a_registration_nobody_can_read_stops_nobody(squad: Squad) -> None:
    mates = await squad.start_all(2)
    await squad.metadata.commit([Put(keys.broker(5), b"{"), Put(f"{keys.BROKERS}x", b"{}")])
    await mates[1].broker.stop()
    squad.mates.remove(mates[1])
    await squad.agree()


async def test_a_broker_that_missed_a_generation_waits_before_it_goes_on(squad: Squad) -> None:
    (mate,) = await with_topic(squad, 1, 2)
    await mate.append("t", 0, b"x")
    fleet = mate.fleet
    members = keys.MemberList(
        generation=fleet.generation + 10,
        previous=fleet.generation + 5,  # which we have never seen
        brokers=(keys.MemberRow(0, fleet.incarnation),),
    )
    fleet._take_generation(members)
    assert mate.engine.logs.count() == 0  # somebody may have had it in between
    await eventually(lambda: fleet.is_settled)
    assert await mate.append("t", 0, b"y") == 1
