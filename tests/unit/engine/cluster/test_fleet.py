"""Several brokers share logs and groups, give them to each other, and lose them."""

import asyncio

import pytest

from kafscale.engine.partitions.reads import PartitionRead
from kafscale.model.errors import (
    FencedLeaderEpoch,
    NotTheOwner,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from kafscale.records import batch
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import values_of
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually, with_topic
from tests.unit.gateways.kafka.caller import make_batch


def theirs(fleet: FleetHarness, member: Member, partitions: int) -> int:
    """A partition that is this broker's."""
    return next(number for number in range(partitions) if fleet.owner("t", number) is member)


async def a_broker_has_come(fleet: FleetHarness) -> tuple[Member, Member, int]:
    """One with a record in each of twelve partitions, one that came, the generation before it."""
    (old,) = await with_topic(fleet, 1, 12)
    for partition in range(12):
        await old.append("t", partition, b"x")
    before = old.fleet.generation
    comer = await fleet.start(1)
    await fleet.agree()
    return old, comer, before


# -- sharing -------------------------------------------------------------------------------------


async def test_brokers_share_a_topic_and_know_whose_each_partition_is(fleet: FleetHarness) -> None:
    members = await with_topic(fleet, 3, 30)
    owners = [fleet.owner("t", partition) for partition in range(30)]
    assert {owner.fleet.identity.broker_id for owner in owners} == {0, 1, 2}
    for partition, owner in enumerate(owners):
        assert await owner.append("t", partition, b"x") == 0
        for other in members:
            if other is not owner:
                with pytest.raises(NotTheOwner):
                    await other.append("t", partition, b"y")
    assert len({member.fleet.controller_id() for member in members}) == 1
    assert [node.broker_id for node in members[2].fleet.nodes()] == [0, 1, 2]
    assert all(member.fleet.why_not_ready() == [] for member in members)


async def test_a_broker_opens_its_logs_before_a_client_asks(fleet: FleetHarness) -> None:
    members = await with_topic(fleet, 2, 20)
    await eventually(lambda: sum(member.parts.logs.count() for member in members) == 20)
    assert all(member.parts.logs.count() for member in members)


async def test_topics_are_created_changed_and_deleted_everywhere(fleet: FleetHarness) -> None:
    one, other = await with_topic(fleet, 2, 4)
    partition = theirs(fleet, other, 4)
    await other.append("t", partition, b"x")
    await one.engine.topics.create_partitions("t", 6)
    await eventually(lambda: other.engine.topics.get("t").partitions == 6)
    await other.engine.topics.change_configs("t", lambda old: {**old, "retention.ms": "5000"})
    await eventually(lambda: one.engine.topics.get("t").settings.retention_ms == 5000)
    await one.engine.topics.delete("t")
    await eventually(lambda: other.engine.topics.find("t") is None)
    await eventually(lambda: other.parts.logs.count() == 0)
    again = await other.engine.topics.create("t", 2, {})
    await eventually(lambda: one.engine.topics.find("t") is not None)
    assert one.engine.topics.get("t").topic_id == again.topic_id


# -- handing over ----------------------------------------------------------------------------------


async def test_what_a_leaving_broker_had_is_served_by_the_others(fleet: FleetHarness) -> None:
    members = await with_topic(fleet, 3, 12)
    for partition in range(12):
        await fleet.owner("t", partition).append("t", partition, b"%d" % partition)
    await members[1].broker.stop()
    fleet.members.remove(members[1])
    await fleet.agree()
    for partition in range(12):
        owner = fleet.owner("t", partition)
        assert values_of(await owner.read("t", partition)) == [b"%d" % partition]
        assert await owner.append("t", partition, b"more") == 1


async def test_what_waits_when_a_log_changes_hands_is_committed_first(fleet: FleetHarness) -> None:
    members = await with_topic(fleet, 2, 4)
    leaving = members[1]
    partition = theirs(fleet, leaving, 4)
    topic = leaving.engine.topics.get("t")
    await leaving.parts.logs.open(topic, partition)
    stall = leaving.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*.kfs"))
    waiting = asyncio.ensure_future(leaving.append("t", partition, b"late"))
    await stall.reached.wait()
    stopping = asyncio.ensure_future(leaving.broker.stop())
    await eventually(lambda: not leaving.fleet.state.is_member)
    with pytest.raises(NotTheOwner):  # from here on it takes nothing new
        await leaving.append("t", partition, b"too late")
    leaving.plan.clear()
    assert await waiting == 0
    await stopping
    fleet.members.remove(leaving)
    await fleet.agree()
    assert values_of(await members[0].read("t", partition)) == [b"late"]


async def test_a_flush_that_takes_too_long_is_given_up_and_its_producer_told(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 2, 4)
    leaving = members[1]
    partition = theirs(fleet, leaving, 4)
    stall = leaving.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*.kfs"))
    waiting = asyncio.ensure_future(leaving.append("t", partition, b"stuck"))
    await stall.reached.wait()
    await leaving.broker.stop()
    fleet.members.remove(leaving)
    with pytest.raises(NotTheOwner):
        await waiting
    await fleet.agree()
    assert await members[0].append("t", partition, b"next") == 0


async def test_a_fetch_that_waits_is_sent_to_the_new_owner(fleet: FleetHarness) -> None:
    members = await with_topic(fleet, 2, 4)
    leaving = members[1]
    partition = theirs(fleet, leaving, 4)
    wanted = PartitionRead(leaving.engine.topics.get("t"), partition, 0, 1000)
    waiting = asyncio.ensure_future(leaving.engine.partitions.fetch([wanted], 1000, 1, 60.0))
    await asyncio.sleep(0.05)
    await leaving.broker.stop()
    fleet.members.remove(leaving)
    (part,) = await waiting
    assert isinstance(part.error, NotTheOwner)


async def test_a_broker_that_comes_gets_its_share_when_the_others_have_let_go(
    fleet: FleetHarness,
) -> None:
    old, comer, before = await a_broker_has_come(fleet)
    share = [number for number in range(12) if fleet.owner("t", number) is comer]
    assert share
    for partition in range(12):
        assert await fleet.owner("t", partition).append("t", partition, b"y") == 1
    assert old.parts.logs.handed_over == len(share)
    assert before < old.fleet.generation == comer.fleet.generation


async def test_a_fetch_that_waited_through_a_change_of_members_is_given_no_data(
    fleet: FleetHarness,
) -> None:
    (old,) = await with_topic(fleet, 1, 12)
    topic, before = old.engine.topics.get("t"), old.fleet.generation
    waiting = [
        asyncio.ensure_future(
            old.engine.partitions.fetch(
                [PartitionRead(topic, number, 0, 1 << 20, before)], 1 << 20, 1, 20.0
            )
        )
        for number in range(12)
    ]
    await asyncio.sleep(0.05)
    await fleet.start(1)
    await fleet.agree()
    kept = theirs(fleet, old, 12)
    await old.append("t", kept, b"x")
    (part,) = await waiting[kept]
    assert isinstance(part.error, FencedLeaderEpoch)
    assert not part.size
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_clients_must_know_the_newest_epoch_even_of_a_log_that_keeps_its_leader(
    fleet: FleetHarness,
) -> None:
    old, comer, before = await a_broker_has_come(fleet)
    now = old.fleet.generation
    kept, moved = theirs(fleet, old, 12), theirs(fleet, comer, 12)
    assert isinstance((await old.read("t", kept, epoch=before)).error, FencedLeaderEpoch)
    assert (await old.read("t", kept, epoch=now)).error is None
    too_new = (await old.read("t", kept, epoch=now + 1)).error
    assert isinstance(too_new, UnknownLeaderEpoch)
    assert (await comer.read("t", moved, epoch=now)).error is None
    assert isinstance((await comer.read("t", moved, epoch=before)).error, FencedLeaderEpoch)
    assert await old.engine.partitions.epoch_end(old.engine.topics.get("t"), kept, before, now) == (
        before,
        1,
    )
    # What the new leader writes carries its epoch: the history of epochs is in the log.
    await comer.append("t", moved, b"y")
    topic = comer.engine.topics.get("t")
    assert await comer.engine.partitions.epoch_end(topic, moved, before, now) == (before, 1)
    assert await comer.engine.partitions.epoch_end(topic, moved, now, now) == (now, 2)


# -- dying and losing the lease --------------------------------------------------------------------


async def test_a_broker_cut_off_from_the_metadata_stops_in_time_and_comes_back_by_itself(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 3, 12)
    lost = members[2]
    partition = theirs(fleet, lost, 12)
    await lost.append("t", partition, b"before")
    generation, incarnation = lost.fleet.generation, lost.fleet.state.incarnation
    lost.wire.is_cut = True
    (lease,) = [lease for lease in lost.wire.leases if lease.remaining_s() > 0]
    await lease.revoke()  # as if it had not been renewed in time
    assert not lost.fleet.holds()
    with pytest.raises(NotTheOwner):
        await lost.append("t", partition, b"zombie")
    assert isinstance((await lost.read("t", partition)).error, NotTheOwner)
    assert lost.fleet.why_not_ready()
    await fleet.agree()
    owner = fleet.owner("t", partition)
    assert values_of(await owner.read("t", partition)) == [b"before"]
    assert await owner.append("t", partition, b"after") == 1
    assert lost.parts.logs.count() == 0
    lost.wire.is_cut = False
    await eventually(lambda: lost.fleet.state.is_member and lost.fleet.state.is_settled)
    await fleet.agree()
    assert lost.fleet.generation > generation
    assert lost.fleet.state.incarnation > incarnation
    assert fleet.owner("t", partition) is lost
    assert values_of(await lost.read("t", partition)) == [b"before", b"after"]


async def test_a_broker_stops_even_if_its_lease_cannot_be_revoked(
    fleet: FleetHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    (member,) = await fleet.start_all(1)
    lease = member.wire.leases[-1]

    async def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(lease, "revoke", fail)
    await member.broker.stop()
    monkeypatch.undo()
    await lease.revoke()
    fleet.members.remove(member)


async def test_nothing_is_acknowledged_when_the_lease_went_during_the_upload(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 2, 4)
    zombie = members[1]
    partition = theirs(fleet, zombie, 4)
    topic = zombie.engine.topics.get("t")
    log, _ = await zombie.parts.logs.open(topic, partition)
    log._may_answer = lambda: False  # the lease is seen to be gone only after the upload
    with pytest.raises(NotTheOwner):
        await zombie.append("t", partition, b"unsure")
    stored = await fleet.objects.find(topic.folder(partition))
    assert any(row.key.endswith(".kfs") for row in stored)


async def test_records_a_zombie_wrote_after_the_take_over_are_found_when_asked_for(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 2, 4)
    partition = theirs(fleet, members[0], 4)
    topic = members[0].engine.topics.get("t")
    await members[0].append("t", partition, b"0")
    # Another writer adds to the chain, as a broker does that was paused before its PUT.
    zombie = members[1].parts.logs._make(topic, topic.folder(partition))
    await zombie.open()
    data = memoryview(bytearray(make_batch(b"1", b"2")))
    appended = zombie.append(0, batch.read_header(data), data, acknowledged=False)
    assert appended.committed is not None
    assert await appended.committed is None
    await zombie.abandon()
    assert values_of(await members[0].read("t", partition, offset=0)) == [b"0"]
    part = await members[0].read("t", partition, offset=3)
    assert (part.error, part.high) == (None, 3)
    assert values_of(await members[0].read("t", partition, offset=1)) == [b"1", b"2"]
    assert await members[0].engine.partitions.offset_at(topic, partition, 1 << 60) is None
    beyond = await members[0].read("t", partition, offset=9)
    assert isinstance(beyond.error, OffsetOutOfRange)


async def test_a_restarted_broker_takes_its_predecessors_place_without_waiting(
    fleet: FleetHarness,
) -> None:
    fleet.lease_s = 60.0
    (dead,) = await with_topic(fleet, 1, 4)
    await dead.append("t", 0, b"x")
    dead.wire.is_cut = True  # killed: its registration stays until its lease ends
    fleet.members.remove(dead)
    loop = asyncio.get_running_loop()
    began = loop.time()
    successor = await fleet.start(0)
    assert successor.fleet.state.is_settled
    assert loop.time() - began < fleet.lease_s / 2
    assert values_of(await successor.read("t", 0)) == [b"x"]
    dead.wire.is_cut = False
    async with asyncio.timeout(30):
        assert "registered as broker 0" in await dead.fleet.failure()
    with pytest.raises(NotTheOwner):
        await dead.append("t", 0, b"zombie")
    await dead.broker.stop()
