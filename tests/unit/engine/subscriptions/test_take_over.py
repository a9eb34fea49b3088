"""Subscriptions of a fleet: only the partition's owner serves them, and they go with it."""

import asyncio

import pytest

from kafscale.model.errors import NotTheOwner
from kafscale.subscriptions.events import Ack, Fate, Mode, SubscriptionRules
from tests.unit.engine.fleet_harness import FleetHarness, eventually, with_topic
from tests.unit.engine.subscriptions.consumer import attach


async def test_only_the_owner_serves_a_subscription(fleet: FleetHarness) -> None:
    members = await with_topic(fleet, 2, 1)
    owner = fleet.owner("t", 0)
    (other,) = [member for member in members if member is not owner]
    with pytest.raises(NotTheOwner):
        await attach(other.engine)
    await attach(owner.engine)


async def test_a_broker_that_dies_takes_at_most_a_second_with_it(fleet: FleetHarness) -> None:
    await with_topic(fleet, 2, 1)
    owner = fleet.owner("t", 0)
    await owner.append("t", 0, *(b"v" for _ in range(6)))
    taker = await attach(owner.engine, mode=Mode.SHARED)
    await eventually(lambda: len(taker.offsets) == 6)
    await taker.attached.acknowledge([Ack(0), Ack(2), Ack(3)])
    await asyncio.sleep(1.2)
    owner.wire.is_cut = True
    (lease,) = [lease for lease in owner.wire.leases if lease.remaining_s() > 0]
    await taker.attached.acknowledge([Ack(1)])  # never saved
    await lease.revoke()
    await eventually(lambda: bool(taker.ends))
    assert isinstance(taker.ends[0], NotTheOwner)
    await fleet.agree()
    heir = fleet.owner("t", 0)
    assert heir is not owner
    again = await attach(heir.engine, mode=Mode.SHARED)
    await eventually(lambda: again.offsets == [1, 4, 5])


async def test_a_planned_move_loses_no_acknowledgement(fleet: FleetHarness) -> None:
    await with_topic(fleet, 2, 1)
    owner = fleet.owner("t", 0)
    await owner.append("t", 0, *(b"v" for _ in range(4)))
    taker = await attach(owner.engine)
    await eventually(lambda: len(taker.offsets) == 4)
    await taker.attached.acknowledge([Ack(0), Ack(2)])
    fleet.members.remove(owner)
    await owner.broker.stop()
    assert isinstance(taker.ends[0], NotTheOwner)
    await fleet.agree()
    again = await attach(fleet.owner("t", 0).engine)
    await eventually(lambda: again.offsets == [1, 3])


async def test_a_broker_that_was_replaced_cannot_save_any_more(fleet: FleetHarness) -> None:
    await with_topic(fleet, 2, 1)
    owner = fleet.owner("t", 0)
    await owner.append("t", 0, b"a", b"b", b"c")
    taker = await attach(owner.engine)
    await eventually(lambda: len(taker.offsets) == 3)
    # The other broker takes the subscription while this one still believes to have it.
    (other,) = [member for member in fleet.members if member is not owner]
    name = taker.attached._serving.name
    loaded = await other.parts.subscriptions._around.cursors.load(name)
    assert loaded is not None
    await taker.attached.acknowledge_up_to(Ack(2))
    await eventually(lambda: bool(taker.ends))
    assert isinstance(taker.ends[0], NotTheOwner)
    assert (await other.engine.offsets.committed("s"))["t", 0].offset == 0


LOCKED = SubscriptionRules(lock_ms=30_000, most_deliveries=5, most_saved_spans=1000)


async def test_what_is_settled_is_saved_when_the_call_returns(fleet: FleetHarness) -> None:
    await with_topic(fleet, 2, 1)
    owner = fleet.owner("t", 0)
    await owner.append("t", 0, *(b"v" for _ in range(6)))
    taker = await attach(owner.engine, mode=Mode.SHARED, rules=LOCKED)
    await eventually(lambda: len(taker.offsets) == 6)
    await taker.attached.settle([((0, 1), Fate.DONE), ((2, 4), Fate.DONE)])
    owner.wire.is_cut = True  # at once: nothing is saved any more
    (lease,) = [lease for lease in owner.wire.leases if lease.remaining_s() > 0]
    await lease.revoke()
    await eventually(lambda: bool(taker.ends))
    await fleet.agree()
    again = await attach(fleet.owner("t", 0).engine, mode=Mode.SHARED, rules=LOCKED)
    await eventually(lambda: again.offsets == [1, 4, 5])


async def test_a_broker_that_was_replaced_settles_nothing(fleet: FleetHarness) -> None:
    await with_topic(fleet, 2, 1)
    owner = fleet.owner("t", 0)
    await owner.append("t", 0, b"a", b"b", b"c")
    taker = await attach(owner.engine, mode=Mode.SHARED, rules=LOCKED)
    await eventually(lambda: len(taker.offsets) == 3)
    (other,) = [member for member in fleet.members if member is not owner]
    name = taker.attached._serving.name
    assert await other.parts.subscriptions._around.cursors.load(name) is not None
    with pytest.raises(NotTheOwner):
        await taker.attached.settle([((0, 3), Fate.DONE)])
    assert (await other.engine.offsets.committed("s"))["t", 0].offset == 0
