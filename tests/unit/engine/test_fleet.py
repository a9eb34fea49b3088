"""Several brokers share logs and groups, give them to each other, and lose them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kafscale.engine.offsets import Wish
from kafscale.engine.reads import Wanted
from kafscale.groups.events import Heartbeat, Join, Joined, Outcome, Refused, Sync, Synced
from kafscale.metadata import keys
from kafscale.metadata.store import Put, Remove
from kafscale.model.errors import (
    FencedLeaderEpoch,
    MetadataConflict,
    NotTheCoordinator,
    NotTheOwner,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from kafscale.records import batch
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.shop import values_of
from tests.unit.engine.squad import LEASE_S, Mate, Squad, eventually
from tests.unit.gateways.kafka.caller import make_batch


@pytest.fixture
async def squad() -> AsyncIterator[Squad]:
    async with Squad() as opened:
        yield opened


async def with_topic(squad: Squad, brokers: int, partitions: int) -> list[Mate]:
    mates = await squad.start_all(brokers)
    await mates[0].engine.create_topic("t", partitions, {})
    await eventually(lambda: all(mate.engine.topics.find("t") for mate in mates))
    return mates


def theirs(squad: Squad, mate: Mate, partitions: int) -> int:
    """A partition that is this broker's."""
    return next(number for number in range(partitions) if squad.owner("t", number) is mate)


# -- sharing -------------------------------------------------------------------------------------


async def test_brokers_share_a_topic_and_know_whose_each_partition_is(squad: Squad) -> None:
    mates = await with_topic(squad, 3, 30)
    owners = [squad.owner("t", partition) for partition in range(30)]
    assert {owner.fleet.identity.broker_id for owner in owners} == {0, 1, 2}
    for partition, owner in enumerate(owners):
        assert await owner.append("t", partition, b"x") == 0
        for other in mates:
            if other is not owner:
                with pytest.raises(NotTheOwner):
                    await other.append("t", partition, b"y")
    assert len({mate.fleet.controller_id() for mate in mates}) == 1
    assert [node.broker_id for node in mates[2].fleet.nodes()] == [0, 1, 2]
    assert all(mate.fleet.why_not_ready() == [] for mate in mates)


async def test_owned_logs_are_opened_before_anybody_asks(squad: Squad) -> None:
    mates = await with_topic(squad, 2, 20)
    await eventually(lambda: sum(mate.engine.logs.count() for mate in mates) == 20)
    assert all(mate.engine.logs.count() for mate in mates)


async def test_topics_are_created_changed_and_deleted_everywhere(squad: Squad) -> None:
    one, other = await with_topic(squad, 2, 4)
    partition = theirs(squad, other, 4)
    await other.append("t", partition, b"x")
    await one.engine.admin.create_partitions("t", 6)
    await eventually(lambda: other.engine.topics.get("t").partitions == 6)
    await other.engine.admin.change_configs("t", lambda old: {**old, "retention.ms": "5000"})
    await eventually(lambda: one.engine.topics.get("t").settings.retention_ms == 5000)
    await one.engine.delete_topic("t")
    await eventually(lambda: other.engine.topics.find("t") is None)
    await eventually(lambda: other.engine.logs.count() == 0)
    again = await other.engine.create_topic("t", 2, {})
    await eventually(lambda: one.engine.topics.find("t") is not None)
    assert one.engine.topics.get("t").topic_id == again.topic_id


# -- handing over ----------------------------------------------------------------------------------


async def test_what_a_leaving_broker_had_is_served_by_the_others(squad: Squad) -> None:
    mates = await with_topic(squad, 3, 12)
    for partition in range(12):
        await squad.owner("t", partition).append("t", partition, b"%d" % partition)
    await mates[1].broker.stop()
    squad.mates.remove(mates[1])
    await squad.agree()
    for partition in range(12):
        owner = squad.owner("t", partition)
        assert values_of(await owner.read("t", partition)) == [b"%d" % partition]
        assert await owner.append("t", partition, b"more") == 1


async def test_what_waits_when_a_log_changes_hands_is_committed_first(squad: Squad) -> None:
    mates = await with_topic(squad, 2, 4)
    leaving = mates[1]
    partition = theirs(squad, leaving, 4)
    topic = leaving.engine.topics.get("t")
    await leaving.engine.logs.open(topic, partition)
    stall = leaving.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*.kfs"))
    waiting = asyncio.ensure_future(leaving.append("t", partition, b"late"))
    await stall.reached.wait()
    stopping = asyncio.ensure_future(leaving.broker.stop())
    await eventually(lambda: not leaving.fleet.is_member)
    with pytest.raises(NotTheOwner):  # from here on it takes nothing new
        await leaving.append("t", partition, b"too late")
    leaving.plan.clear()
    assert await waiting == 0
    await stopping
    squad.mates.remove(leaving)
    await squad.agree()
    assert values_of(await mates[0].read("t", partition)) == [b"late"]


async def test_a_flush_that_takes_too_long_is_given_up_and_its_producer_told(squad: Squad) -> None:
    mates = await with_topic(squad, 2, 4)
    leaving = mates[1]
    partition = theirs(squad, leaving, 4)
    stall = leaving.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*.kfs"))
    waiting = asyncio.ensure_future(leaving.append("t", partition, b"stuck"))
    await stall.reached.wait()
    await leaving.broker.stop()
    squad.mates.remove(leaving)
    with pytest.raises(NotTheOwner):
        await waiting
    await squad.agree()
    assert await mates[0].append("t", partition, b"next") == 0


async def test_a_fetch_that_waits_is_sent_to_the_new_owner(squad: Squad) -> None:
    mates = await with_topic(squad, 2, 4)
    leaving = mates[1]
    partition = theirs(squad, leaving, 4)
    wanted = Wanted(leaving.engine.topics.get("t"), partition, 0, 1000)
    waiting = asyncio.ensure_future(leaving.engine.reads.fetch([wanted], 1000, 1, 60.0))
    await asyncio.sleep(0.05)
    await leaving.broker.stop()
    squad.mates.remove(leaving)
    (part,) = await waiting
    assert isinstance(part.error, NotTheOwner)


async def test_a_broker_that_comes_gets_its_share_when_the_others_have_let_go(
    squad: Squad,
) -> None:
    (old,) = await with_topic(squad, 1, 12)
    for partition in range(12):
        await old.append("t", partition, b"x")
    before = old.fleet.generation
    comer = await squad.start(1)
    await squad.agree()
    share = [number for number in range(12) if squad.owner("t", number) is comer]
    assert share
    for partition in range(12):
        assert await squad.owner("t", partition).append("t", partition, b"y") == 1
    assert old.engine.logs.handed_over == len(share)
    assert before < old.fleet.generation == comer.fleet.generation


async def test_a_fetch_that_waited_through_a_change_of_members_is_given_no_data(
    squad: Squad,
) -> None:
    (old,) = await with_topic(squad, 1, 12)
    topic, before = old.engine.topics.get("t"), old.fleet.generation
    waiting = [
        asyncio.ensure_future(
            old.engine.reads.fetch([Wanted(topic, number, 0, 1 << 20, before)], 1 << 20, 1, 20.0)
        )
        for number in range(12)
    ]
    await asyncio.sleep(0.05)
    await squad.start(1)
    await squad.agree()
    kept = theirs(squad, old, 12)
    await old.append("t", kept, b"x")
    (part,) = await waiting[kept]
    assert isinstance(part.error, FencedLeaderEpoch)
    assert not part.size
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_clients_must_know_the_newest_epoch_even_of_a_log_that_keeps_its_leader(
    squad: Squad,
) -> None:
    (old,) = await with_topic(squad, 1, 12)
    for partition in range(12):
        await old.append("t", partition, b"x")
    before = old.fleet.generation
    comer = await squad.start(1)
    await squad.agree()
    now = old.fleet.generation
    kept, moved = theirs(squad, old, 12), theirs(squad, comer, 12)
    assert isinstance((await old.read("t", kept, epoch=before)).error, FencedLeaderEpoch)
    assert (await old.read("t", kept, epoch=now)).error is None
    too_new = (await old.read("t", kept, epoch=now + 1)).error
    assert isinstance(too_new, UnknownLeaderEpoch)
    assert (await comer.read("t", moved, epoch=now)).error is None
    assert isinstance((await comer.read("t", moved, epoch=before)).error, FencedLeaderEpoch)
    assert await old.engine.admin.epoch_end(old.engine.topics.get("t"), kept, before, now) == (
        before,
        1,
    )
    # What the new leader writes carries its epoch: the history of epochs is in the log.
    await comer.append("t", moved, b"y")
    topic = comer.engine.topics.get("t")
    assert await comer.engine.admin.epoch_end(topic, moved, before, now) == (before, 1)
    assert await comer.engine.admin.epoch_end(topic, moved, now, now) == (now, 2)


# -- dying and losing the lease --------------------------------------------------------------------


async def test_a_broker_cut_off_from_the_metadata_stops_in_time_and_comes_back_by_itself(
    squad: Squad,
) -> None:
    mates = await with_topic(squad, 3, 12)
    lost = mates[2]
    partition = theirs(squad, lost, 12)
    await lost.append("t", partition, b"before")
    generation, incarnation = lost.fleet.generation, lost.fleet.incarnation
    lost.wire.is_cut = True
    (lease,) = [lease for lease in lost.wire.leases if lease.remaining_s() > 0]
    await lease.revoke()  # as if it had not been renewed in time
    assert not lost.fleet.holds()
    with pytest.raises(NotTheOwner):
        await lost.append("t", partition, b"zombie")
    assert isinstance((await lost.read("t", partition)).error, NotTheOwner)
    assert lost.fleet.why_not_ready()
    await squad.agree()
    owner = squad.owner("t", partition)
    assert values_of(await owner.read("t", partition)) == [b"before"]
    assert await owner.append("t", partition, b"after") == 1
    assert lost.engine.logs.count() == 0
    lost.wire.is_cut = False
    await eventually(lambda: lost.fleet.is_member and lost.fleet.is_settled)
    await squad.agree()
    assert lost.fleet.generation > generation
    assert lost.fleet.incarnation > incarnation
    assert squad.owner("t", partition) is lost
    assert values_of(await lost.read("t", partition)) == [b"before", b"after"]


async def test_nothing_is_acknowledged_when_the_lease_went_during_the_upload(
    squad: Squad,
) -> None:
    mates = await with_topic(squad, 2, 4)
    zombie = mates[1]
    partition = theirs(squad, zombie, 4)
    topic = zombie.engine.topics.get("t")
    log, _ = await zombie.engine.logs.open(topic, partition)
    log._may_answer = lambda: False  # the lease is seen to be gone only after the upload
    with pytest.raises(NotTheOwner):
        await zombie.append("t", partition, b"unsure")
    stored = await squad.objects.find(topic.folder(partition))
    assert any(row.key.endswith(".kfs") for row in stored)


async def test_records_a_zombie_wrote_after_the_take_over_are_found_when_asked_for(
    squad: Squad,
) -> None:
    mates = await with_topic(squad, 2, 4)
    partition = theirs(squad, mates[0], 4)
    topic = mates[0].engine.topics.get("t")
    await mates[0].append("t", partition, b"0")
    # Another writer adds to the chain, as a broker does that was paused before its PUT.
    zombie = mates[1].engine.logs._make(topic, topic.folder(partition))
    await zombie.open()
    data = memoryview(bytearray(make_batch(b"1", b"2")))
    appended = zombie.append(0, batch.read_header(data), data, acknowledged=False)
    assert appended.committed is not None
    assert await appended.committed is None
    await zombie.abandon()
    assert values_of(await mates[0].read("t", partition, offset=0)) == [b"0"]
    part = await mates[0].read("t", partition, offset=3)
    assert (part.error, part.high) == (None, 3)
    assert values_of(await mates[0].read("t", partition, offset=1)) == [b"1", b"2"]
    beyond = await mates[0].read("t", partition, offset=9)
    assert isinstance(beyond.error, OffsetOutOfRange)


async def test_a_restarted_broker_takes_its_predecessors_place_without_waiting(
    squad: Squad,
) -> None:
    (dead,) = await with_topic(squad, 1, 4)
    await dead.append("t", 0, b"x")
    dead.wire.is_cut = True  # killed: its registration stays until its lease ends
    squad.mates.remove(dead)
    loop = asyncio.get_running_loop()
    began = loop.time()
    successor = await squad.start(0)
    assert successor.fleet.is_settled
    assert loop.time() - began < LEASE_S
    assert values_of(await successor.read("t", 0)) == [b"x"]
    dead.wire.is_cut = False
    async with asyncio.timeout(10):
        assert "registered as broker 0" in await dead.fleet.failure()
    with pytest.raises(NotTheOwner):
        await dead.append("t", 0, b"zombie")
    await dead.broker.stop()


# -- the controller --------------------------------------------------------------------------------


async def test_when_the_controller_goes_another_one_is_elected(squad: Squad) -> None:
    mates = await squad.start_all(3)
    (old,) = [mate for mate in mates if mate.fleet.is_controller]
    await old.broker.stop()
    squad.mates.remove(old)
    await squad.agree()
    (new,) = [mate for mate in squad.mates if mate.fleet.is_controller]
    assert {mate.fleet.controller_id() for mate in squad.mates} == {new.fleet.identity.broker_id}


async def test_a_deposed_controller_cannot_write_members(squad: Squad) -> None:
    mates = await squad.start_all(2)
    (old,) = [mate for mate in mates if mate.fleet.is_controller]
    (other,) = [mate for mate in mates if mate is not old]
    guard = await old.fleet._controller._elected()
    assert guard is not None
    usurper = keys.Controller(
        broker_id=other.fleet.identity.broker_id, incarnation=other.fleet.incarnation
    )
    await squad.metadata.commit([Put(keys.CONTROLLER, keys.encode(usurper))])
    before = await squad.metadata.get(keys.MEMBERS)
    stranger = keys.Broker(
        broker_id=9, host="h", port=1, started_at="", version="", incarnation=1000, leaving=True
    )
    other.wire.is_cut = True  # the one that could is silent
    await squad.metadata.commit([Put(keys.broker(9), keys.encode(stranger))])
    stays = keys.Broker(broker_id=9, host="h", port=1, started_at="", version="", incarnation=1000)
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
    members = keys.Members(
        generation=fleet.generation + 10,
        previous=fleet.generation + 5,  # which we have never seen
        brokers=(keys.Member(0, fleet.incarnation),),
    )
    fleet._take_generation(members)
    assert mate.engine.logs.count() == 0  # somebody may have had it in between
    await eventually(lambda: fleet.is_settled)
    assert await mate.append("t", 0, b"y") == 1


# -- groups ----------------------------------------------------------------------------------------


async def join(mate: Mate, group: str, member_id: str = "") -> Outcome:
    await mate.engine.groups.load(group)
    event = Join(
        call=mate.engine.groups.new_call(),
        member_id=member_id,
        fresh_id=member_id or "m",
        session_timeout_s=10.0,
        rebalance_timeout_s=60.0,
        protocol_type="consumer",
        protocols={"range": b""},
    )
    waiting = mate.engine.groups.ask(group, event)
    return await mate.engine.groups.settled(group, waiting, event)


async def sync(mate: Mate, group: str, generation: int) -> Outcome:
    event = Sync(
        call=mate.engine.groups.new_call(),
        generation=generation,
        member_id="m",
        assignments={"m": b"all"},
    )
    waiting = mate.engine.groups.ask(group, event)
    return await mate.engine.groups.settled(group, waiting, event)


def coordinated_by(mate: Mate) -> str:
    names = (f"group-{number}" for number in range(100))
    return next(name for name in names if mate.fleet.may_coordinate(name))


async def test_a_group_goes_on_with_its_generation_at_the_next_coordinator(squad: Squad) -> None:
    mates = await with_topic(squad, 2, 1)
    leaving, staying = mates[1], mates[0]
    group = coordinated_by(leaving)
    node = staying.fleet.coordinator_of(group)
    assert node is not None
    assert node.broker_id == 1
    with pytest.raises(NotTheCoordinator):
        await staying.engine.groups.load(group)
    joined = await join(leaving, group)
    assert isinstance(joined, Joined)
    assert isinstance(await sync(leaving, group, joined.generation), Synced)
    assert await leaving.engine.offsets.commit(group, [Wish("t", 0, 7)]) == [None]
    assert [row.group_id for row in await leaving.engine.groups.list()] == [group]
    assert await staying.engine.groups.list() == []
    await leaving.broker.stop()
    squad.mates.remove(leaving)
    await squad.agree()
    await staying.engine.groups.load(group)
    beat = Heartbeat(
        call=staying.engine.groups.new_call(), generation=joined.generation, member_id="m"
    )
    outcome = await staying.engine.groups.ask(group, beat)
    assert not isinstance(outcome, Refused)
    committed = await staying.engine.offsets.committed(group)
    assert [row.offset for row in committed.values()] == [7]
    assert [row.group_id for row in await staying.engine.groups.list()] == [group]


async def test_members_that_wait_for_a_rebalance_are_sent_to_the_next_coordinator(
    squad: Squad,
) -> None:
    mates = await squad.start_all(2)
    leaving = mates[1]
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
    squad.mates.remove(leaving)
    outcome = await waiting
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.problem, NotTheCoordinator)


async def test_a_broker_without_lease_coordinates_nothing(squad: Squad) -> None:
    mates = await with_topic(squad, 2, 1)
    lost = mates[1]
    group = coordinated_by(lost)
    assert isinstance(await join(lost, group), Joined)
    lost.wire.is_cut = True
    (lease,) = [lease for lease in lost.wire.leases if lease.remaining_s() > 0]
    await lease.revoke()
    with pytest.raises(NotTheCoordinator):
        await join(lost, group, "m")
    await eventually(lambda: lost.engine.groups.in_memory(group) is None)
    await squad.agree()
    assert mates[0].fleet.may_coordinate(group)
    lost.wire.is_cut = False
    await eventually(lambda: lost.fleet.is_settled)
