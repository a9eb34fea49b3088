"""A name that is used again while some broker has not heard that its first topic is gone."""

import asyncio
from collections.abc import Mapping

import pytest

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.engine.topics.topic import Topic
from kafscale.engine.upkeep import removals
from kafscale.log.formats import keys
from kafscale.log.moves import end_of_topic
from kafscale.log.protocol import end_of_log
from kafscale.metadata import keys as metadata_keys
from kafscale.metadata.store import Remove
from kafscale.model.errors import (
    KafscaleError,
    LogEnded,
    NotTheOwner,
    OutOfOrderSequence,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import values_of
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually
from tests.unit.gateways.kafka.caller import make_batch

LAYOUTS: Mapping[str, Mapping[str, str | None]] = {
    "ordinary": {},
    "virtual": {"physical.partitions": "1"},
    "shared": {"storage.placement": "shared"},
}
ROUNDS = 2
any_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers wait only shortly for the owner of a shared log."""
    monkeypatch.setattr(end_of_topic, "_PATIENCE_S", 0.1)


async def late_owner(
    fleet: FleetHarness, configs: Mapping[str, str | None]
) -> tuple[Member, Member]:
    """A broker that owns partition 0 of "t" and hears nothing of topics, and another one."""
    members = await fleet.start_all(2)
    await members[0].engine.topics.create("t", 2, configs)
    await eventually(lambda: all(member.engine.topics.find("t") for member in members))
    late = fleet.owner("t", 0)
    (other,) = (member for member in members if member is not late)
    await late.append("t", 0, b"old life")
    late.wire.is_deaf = True
    return late, other


async def use_again(other: Member, configs: Mapping[str, str | None]) -> Topic:
    await other.engine.topics.delete("t")
    return await other.engine.topics.create("t", 2, configs)


async def hear(late: Member, topic: Topic) -> None:
    late.wire.is_deaf = False
    await eventually(lambda: late.engine.topics.get("t").topic_id == topic.topic_id)


@any_layout
async def test_what_a_late_broker_acknowledges_is_in_the_new_topic(layout: str) -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, LAYOUTS[layout])
        for life in range(ROUNDS):
            topic = await use_again(other, LAYOUTS[layout])
            acknowledged = []
            for number in range(3):
                value = f"{life} {number}".encode()
                try:
                    await late.append("t", 0, value)
                except NotTheOwner:
                    continue
                acknowledged.append(value)
            await hear(late, topic)
            owner = fleet.owner("t", 0)
            assert values_of(await owner.read("t", 0)) == acknowledged
            await owner.append("t", 0, b"goes on")
            late.wire.is_deaf = True


@any_layout
async def test_what_is_on_its_way_when_the_log_ends_is_in_the_old_topic_or_refused(
    layout: str,
) -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, LAYOUTS[layout])
        held = late.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/segment-*.kfs", times=1))
        sending = asyncio.ensure_future(late.append("t", 0, b"on its way"))
        await held.reached.wait()
        await use_again(other, LAYOUTS[layout])
        held.release()
        with pytest.raises(NotTheOwner):
            await sending
        with pytest.raises(NotTheOwner):
            await late.append("t", 0, b"later")


async def test_a_broker_that_opens_the_log_late_is_told_that_it_has_ended() -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, {})
        old = late.engine.topics.get("t")
        late.parts.logs.drop()
        await use_again(other, {})
        with pytest.raises(LogEnded):
            await late.parts.logs.open(old, 0)


async def test_a_late_broker_shows_nothing_to_who_asks_by_the_new_id() -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, {})
        topic = await use_again(other, {})
        with pytest.raises(UnknownTopicId):
            late.engine.topics.get_by_id(topic.topic_id)


@any_layout
async def test_a_late_broker_does_not_say_that_a_deleted_topic_exists(layout: str) -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, LAYOUTS[layout])
        await other.engine.topics.delete("t")
        made = await late.engine.topics.create("t", 2, LAYOUTS[layout])
        assert made.descriptor.incarnation == 2
        with pytest.raises(TopicExists):
            await other.engine.topics.create("t", 2, {})


async def test_a_late_broker_deletes_the_topic_that_there_is_now() -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, {})
        await use_again(other, {})
        await late.engine.topics.delete("t")
        await eventually(lambda: other.engine.topics.find("t") is None)
        with pytest.raises(UnknownTopic):
            await late.engine.topics.delete("t")


def numbered(value: bytes, sequence: int) -> memoryview:
    made = make_batch(value, producer_id=7, producer_epoch=0, base_sequence=sequence)
    return memoryview(bytearray(made))


@any_layout
async def test_a_batch_does_not_overtake_the_one_that_the_old_topic_refused(layout: str) -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, LAYOUTS[layout])
        topic = await use_again(other, LAYOUTS[layout])
        while other.fleet.leader_of(topic.folder(0)) != late.fleet_id:
            topic = await use_again(other, LAYOUTS[layout])
        held = late.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*/segment-*.kfs", times=1))
        appends, old = late.engine.partitions, late.engine.topics.get("t")
        stored = appends.append(old, 0, numbered(b"first", 0), acknowledged=False)
        await held.reached.wait()
        held.release()
        assert stored.appended.committed is not None
        assert isinstance(await stored.appended.committed, NotTheOwner)
        await hear(late, topic)
        topic = late.engine.topics.get("t")
        await late.parts.logs.open(topic, 0)
        with pytest.raises((OutOfOrderSequence, NotTheOwner)):
            appends.append(topic, 0, numbered(b"second", 1), acknowledged=False)
        for sequence, value in enumerate((b"first", b"second")):
            stored = appends.append(topic, 0, numbered(value, sequence), acknowledged=False)
            assert stored.first == sequence


async def test_topics_that_the_metadata_store_has_lost_are_not_sealed() -> None:
    async with FleetHarness() as fleet:
        (member,) = await fleet.start_all(1)
        await member.engine.topics.create("t", 1, LAYOUTS["shared"])
        await member.append("t", 0, b"a")
        await fleet.metadata.commit([Remove(metadata_keys.topic_config("t"))])
        await eventually(lambda: member.engine.topics.find("t") is None)
        await asyncio.sleep(0.1)
        (log,) = [log for topic, log in member.parts.logs.each() if topic is None]
        assert not log.lane(0).producers.is_sealed
        assert await member.engine.topics._lifecycle.adopt("t")


async def objects(fleet: FleetHarness, folder: str) -> list[str]:
    return [row.key.rpartition("/")[2] for row in await fleet.objects.find(folder)]


async def test_a_fleet_ends_logs_before_it_deletes_their_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FleetHarness() as fleet:
        (member,) = await fleet.start_all(1)
        await member.engine.topics.create("t", 1, {})
        await member.append("t", 0, b"a")
        await member.engine.topics.delete("t")
        last = [f"manifest-{generation:020d}" for generation in (keys.ENDING, keys.ENDED)]
        keeper = member.parts.removals
        async with asyncio.timeout(20):
            while last[1] not in await objects(fleet, "default/t/0"):
                await asyncio.sleep(0.01)
        kept = [*last, keys.segment_name(0), keys.segment_name(1)]
        assert await objects(fleet, "default/t/0") == kept
        keeper._progress.clear()
        keeper._grace_s = 0.0
        await keeper.remove_deleted_topics()
        assert await objects(fleet, "default/t/0") == last
        monkeypatch.setattr(end_of_log, "REMEMBERED_S", 0.0)
        for _ in range(2):
            keeper._progress.clear()
            await keeper.remove_deleted_topics()
        assert await objects(fleet, "default/t/0") == []
        assert await fleet.metadata.find(metadata_keys.REMOVALS) == []


async def test_a_removal_is_looked_at_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FleetHarness() as fleet:
        (member,) = await fleet.start_all(1)
        await member.engine.topics.create("t", 3, {})
        await member.engine.topics.delete("t")
        keeper = member.parts.removals
        await keeper.remove_deleted_topics()
        looked: list[object] = []

        async def look(*args: object, **_: object) -> list[object]:
            looked.append(args)
            return []

        monkeypatch.setattr(removals.end_of_log, "remains", look)
        for _ in range(3):
            await keeper.remove_deleted_topics()
        assert looked == []
        keeper._progress.clear()
        await keeper.remove_deleted_topics()
        assert len(looked) == 3


async def test_a_store_that_does_not_answer_does_not_keep_a_topic_from_ending() -> None:
    async with FleetHarness() as fleet:
        (member,) = await fleet.start_all(1)
        await member.engine.topics.create("t", 1, LAYOUTS["shared"])
        member.plan.add(Rule(Fault.FAIL_BEFORE, "read", "*/descriptor-*", skip=1))
        await member.engine.topics.delete("t")
        assert member.engine.topics.find("t") is None
        member.plan.clear()
        again = await member.engine.topics.create("t", 1, LAYOUTS["shared"])
        assert again.descriptor.incarnation == 2
        with pytest.raises(KafscaleError):
            member.engine.topics.get_by_id(b"0" * 16)


def groups_of(member: Member) -> list[str]:
    """Two groups that this broker coordinates."""
    return [name for name in map(str, range(100)) if member.fleet.may_coordinate(name)][:2]


async def test_a_late_coordinator_commits_for_the_topic_that_there_is_now() -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, {})
        topic = await use_again(other, {})
        offsets, group = late.engine.offsets, groups_of(late)[0]
        assert await offsets.commit(group, [OffsetCommit("t", 0, 7), OffsetCommit("t", 1, 8)]) == [
            None,
            None,
        ]
        late.wire.is_deaf = False
        for member in (late, other):
            found = await member.engine.offsets.committed(group)
            assert {place: row.offset for place, row in found.items()} == {("t", 0): 7, ("t", 1): 8}
            assert {row.topic_id for row in found.values()} == {topic.descriptor.topic_id}


async def test_a_late_coordinator_commits_nothing_for_a_topic_that_is_gone() -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, {})
        await other.engine.topics.delete("t")
        (group, _) = groups_of(late)
        await late.engine.offsets.commit(group, [OffsetCommit("t", 0, 7)])
        assert await late.engine.offsets.committed(group) == {}
        await other.engine.topics.create("t", 2, {})
        assert await other.engine.offsets.committed(group) == {}


async def test_groups_commit_on_a_broker_that_has_not_heard_of_new_settings() -> None:
    async with FleetHarness() as fleet:
        late, other = await late_owner(fleet, {})
        await other.engine.topics.change_configs("t", lambda _: {"retention.ms": "77"})
        wishes, groups = [OffsetCommit("t", 0, 7)], groups_of(late)
        await asyncio.gather(*(late.engine.offsets.commit(name, wishes) for name in groups))
        for name in groups:
            assert len(await other.engine.offsets.committed(name)) == 1


async def test_many_groups_and_topics_do_not_make_a_commit_too_large() -> None:
    async with FleetHarness() as fleet:
        (member,) = await fleet.start_all(1)
        names = [f"t{number}" for number in range(80)]
        await asyncio.gather(*(member.engine.topics.create(name, 1, {}) for name in names))
        offsets = member.engine.offsets
        for name in names:
            await offsets.claim(name)
        said = await asyncio.gather(
            *(offsets.commit(name, [OffsetCommit(name, 0, 7)]) for name in names)
        )
        assert said == [[None]] * len(names)
        for name in names:
            assert list(await offsets.committed(name)) == [(name, 0)]
