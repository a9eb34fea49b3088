"""Push delivery, as a door sees it that sends records to its clients without being asked."""

import asyncio

import pytest

from kafscale.engine.partitions.partitions import Partitions
from kafscale.engine.partitions.reads import PartitionRead
from kafscale.engine.topics.topic import Topic
from kafscale.model.errors import KafscaleError, NotTheOwner, UnknownTopic
from tests.unit.engine.cluster.test_fleet import theirs
from tests.unit.engine.engine_harness import EngineHarness, values_of
from tests.unit.engine.fleet_harness import FleetHarness, eventually, with_topic

SEAL = bytes(6)


class PushingDoor:
    """Pushes a partition's records to a client: it holds a subscription and nothing else."""

    def __init__(self, partitions: Partitions, topic: Topic, partition: int, offset: int) -> None:
        self.pushed: list[bytes | None] = []
        self.error: KafscaleError | None = None
        self.wakes = 0
        self._tasks: list[asyncio.Task[None]] = []
        position = PartitionRead(topic, partition, offset, 1 << 20)
        self.subscription = partitions.subscribe(position, self._wake)
        self._push_soon()

    def _wake(self) -> None:
        self.wakes += 1
        self._push_soon()

    def _push_soon(self) -> None:
        self._tasks.append(asyncio.ensure_future(self._push()))

    async def _push(self) -> None:
        while not self.subscription.watch():
            result = await self.subscription.read(1 << 20)
            if result.error is not None:
                self.error = result.error
                return
            # What a lane is sealed with is a control record, which no client shows.
            self.pushed += [value for value in values_of(result) if value != SEAL]

    async def has_pushed(self, *values: bytes) -> None:
        await eventually(lambda: self.pushed == list(values) or self.error is not None)
        assert (self.pushed, self.error) == (list(values), None)


def watchers(harness: EngineHarness) -> int:
    return sum(
        len(lane.watchers) for _, log in harness.parts.logs.each() for lane in log.lanes.values()
    )


async def test_a_door_is_woken_by_a_commit_and_reads(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 2, {})
    await harness.append("t", b"a", b"b", partition=1)
    door = PushingDoor(harness.engine.partitions, topic, 1, 0)
    await door.has_pushed(b"a", b"b")
    assert door.wakes == 0, "what was there needs no waking"
    await harness.append("t", b"elsewhere", partition=0)
    await harness.append("t", b"c", partition=1)
    await door.has_pushed(b"a", b"b", b"c")
    assert door.wakes == 1
    assert door.subscription.position.offset == 3


async def test_old_records_come_from_the_store(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"old")
    await harness.reopen()
    door = PushingDoor(harness.engine.partitions, harness.engine.topics.get("t"), 0, 0)
    await door.has_pushed(b"old")
    await harness.append("t", b"new")
    await door.has_pushed(b"old", b"new")


async def test_a_closed_subscription_is_not_woken_and_leaves_nothing_behind(
    harness: EngineHarness,
) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a")
    door = PushingDoor(harness.engine.partitions, topic, 0, 0)
    await door.has_pushed(b"a")
    await eventually(lambda: watchers(harness) == 1)
    door.subscription.close()
    assert watchers(harness) == 0
    await harness.append("t", b"b")
    assert (door.wakes, door.pushed) == (0, [b"a"])


async def test_a_subscriber_that_does_not_read_is_woken_once(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a")
    woken: list[int] = []
    subscription = harness.engine.partitions.subscribe(
        PartitionRead(topic, 0, 1, 100), lambda: woken.append(1)
    )
    assert not subscription.has_news()
    assert subscription.watch()
    await harness.append("t", b"b")
    await harness.append("t", b"c")
    assert woken == [1]
    assert subscription.has_news()
    assert watchers(harness) == 0


async def test_only_a_partition_read_to_its_end_can_be_watched(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    woken: list[int] = []

    def watch(*position: object) -> bool:
        read = PartitionRead(*position)  # type: ignore[arg-type]
        return harness.engine.partitions.subscribe(read, lambda: woken.append(1)).watch()

    assert not watch(topic, 0, 1, 100)  # not open
    await harness.append("t", b"a")
    assert not watch(topic, 0, 0, 100)  # it has something
    assert not watch(topic, 0, 2, 100)  # beyond the end
    assert not watch(topic, 0, 1, 100, 99)  # an unknown epoch
    assert not watch(UnknownTopic("?"), 0, 1, 100)
    assert watch(topic, 0, 1, 100)
    await harness.append("t", b"b")
    assert woken == [1]


@pytest.mark.parametrize("placement", ["shared", "dedicated"])
async def test_a_subscriber_follows_a_partition_that_moves_to_another_log(
    harness: EngineHarness, placement: str
) -> None:
    before = {"shared": "dedicated", "dedicated": "shared"}[placement]
    topic = await harness.engine.topics.create("t", 2, {"storage.placement": before})
    await harness.append("t", b"before", partition=1)
    door = PushingDoor(harness.engine.partitions, topic, 1, 0)
    await door.has_pushed(b"before")
    await harness.engine.topics.change_configs(
        "t", lambda old: {**old, "storage.placement": placement}
    )
    await eventually(lambda: topic.descriptor.moving is None)
    await harness.append("t", b"after", partition=1)
    await door.has_pushed(b"before", b"after")
    assert door.error is None


async def test_the_end_of_a_topic_is_told(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a")
    door = PushingDoor(harness.engine.partitions, topic, 0, 0)
    await door.has_pushed(b"a")
    await harness.engine.topics.delete("t")
    await eventually(lambda: isinstance(door.error, UnknownTopic))


async def test_a_subscriber_is_told_that_its_broker_has_lost_the_partition(
    fleet: FleetHarness,
) -> None:
    members = await with_topic(fleet, 2, 4)
    leaving = members[1]
    partition = theirs(fleet, leaving, 4)
    await leaving.append("t", partition, b"a")
    topic = leaving.engine.topics.get("t")
    door = PushingDoor(leaving.engine.partitions, topic, partition, 0)
    await door.has_pushed(b"a")
    await leaving.broker.stop()
    fleet.members.remove(leaving)
    await eventually(lambda: isinstance(door.error, NotTheOwner))
