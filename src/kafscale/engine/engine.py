"""The engine: the verbs every door uses.

Here: parts put together and the few verbs that need several of them. The currency is the v2
record batch; which protocol it came in by is nobody's business here.
"""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence

import structlog

from kafscale.engine.administration import Administration
from kafscale.engine.cluster.membership import HAND_OVER_S, Membership
from kafscale.engine.coordinator import records
from kafscale.engine.coordinator.expiry import Expiry
from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.coordinator.offsets import Offsets, Place
from kafscale.engine.metrics.lag import LOOK_EVERY_S, Lag
from kafscale.engine.metrics.series import Probe
from kafscale.engine.moves.moves import Moves
from kafscale.engine.partitions.appends import Appends
from kafscale.engine.partitions.inspection import Inspection
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.opener import Opener
from kafscale.engine.partitions.producer_ids import ProducerIds
from kafscale.engine.partitions.reads import Reads
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.topics.discovery import Discovery
from kafscale.engine.topics.registry import Topics
from kafscale.engine.topics.topic import Topic
from kafscale.engine.topics.topic_watch import follow_topics
from kafscale.engine.upkeep.checkpoints import Checkpoints
from kafscale.engine.upkeep.housekeeping import Housekeeping
from kafscale.log.moves import end_of_topic
from kafscale.log.reader.reader import Reader
from kafscale.model.broker_configs import BrokerConfig
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import (
    GroupNotEmpty,
    GroupNotFound,
    GroupSubscribed,
    KafscaleError,
    TopicExists,
    UnknownTopic,
)
from kafscale.tasks import Tasks

logger = structlog.get_logger()


class Engine:
    """One broker's abilities."""

    def __init__(
        self,
        cluster: Membership,
        topics: Topics,
        logs: OpenLogs,
        appends: Appends,
        reads: Reads,
        reader: Reader,
        producer_ids: ProducerIds,
        offsets: Offsets,
        groups: Groups,
        expiry: Expiry,
        lag: Lag,
        housekeeping: Housekeeping,
        health: StoreGate,
        tasks: Tasks,
        probe: Probe,
        clock: Clock,
        dice: Dice,
        moves: Moves,
        *,
        checkpoints: Checkpoints,
        auto_create: bool,
        broker_configs: Sequence[BrokerConfig] = (),
        store_name: str = "",
    ) -> None:
        """Take the parts as wired."""
        self.cluster = cluster
        self.identity = cluster.identity
        self.topics = topics
        self.logs = logs
        self.appends = appends
        self.reads = reads
        self.producer_ids = producer_ids
        self.offsets = offsets
        self.groups = groups
        self.expiry = expiry
        self.lag = lag
        self.housekeeping = housekeeping
        self.health = health
        self.probe = probe
        self.clock = clock
        self.checkpoints = checkpoints
        self.auto_create = auto_create
        self.broker_configs = broker_configs  # for those who ask; nothing here goes by them
        self.store_name = store_name
        self.discovery = Discovery(topics, tasks, clock, cluster)
        self.admin = Administration(topics, tasks, dice, self._topic_changed)
        self.inspection = Inspection(logs, reader, cluster, tasks)
        self.moves = moves
        moves.on_moved = self._topic_changed
        moves.on_failed = probe.move_failures.inc
        probe.sample_moves(moves.counts, moves.ages)
        self._tasks = tasks
        self._opening = Opener(topics, logs, cluster)
        checkpoints.responsible = lambda: cluster.is_controller
        lag.has_peers = cluster.has_peers
        probe.sample_checkpoint_age(checkpoints.age_s)
        topics.on_changed = self._topic_changed
        topics.on_gone = self._topic_gone
        topics.has_others = cluster.has_peers
        self._creating: dict[str, asyncio.Task[Topic]] = {}

    async def start(self) -> None:
        """Learn the topics and begin background work."""
        self.cluster.start(self)
        await self.topics.load()
        self._tasks.spawn(self._opening.run(), "opening")
        if self.cluster.has_peers:
            self._tasks.spawn(follow_topics(self.topics), "topics")
        self._tasks.spawn(self.moves.move_for_ever(), "moves")
        self._tasks.spawn(self.housekeeping.roll_up_for_ever(), "roll-up")
        self._tasks.spawn(self.housekeeping.tidy_for_ever(), "tidy")
        self._tasks.spawn(self.expiry.expire_for_ever(), "expiry")
        self._tasks.spawn(self._recall_lag(), "lag")
        self._tasks.spawn(self._remove_leftovers(), "removal")
        self._tasks.spawn(self.discovery.scan_for_ever(), "discovery")
        self._tasks.spawn(self.checkpoints.write_for_ever(), "checkpoints")

    async def _remove_leftovers(self) -> None:
        try:
            await self.housekeeping.remove_deleted_topics()
        except KafscaleError as problem:
            logger.warning("removal_postponed", error=str(problem))

    async def _recall_lag(self) -> None:
        while True:
            try:
                await self.lag.recall()
            except KafscaleError as problem:
                logger.warning("lag_not_recalled", error=str(problem))
            if not self.cluster.has_peers:
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def aclose(self, deadline_s: float) -> None:
        """Flush every log and stop."""
        await self.groups.aclose()
        await self.logs.aclose(deadline_s)
        await self.checkpoints.aclose()
        await self.cluster.aclose()
        await asyncio.sleep(0)  # whoever waited for a commit is told in the loop's next round
        await self._tasks.aclose()

    # -- the cluster ---------------------------------------------------------------------------

    def ownership_changed(self) -> asyncio.Task[None]:
        """Stop serving, now, what has become another broker's; flush and save it in a moment."""
        logs = self.logs.release(HAND_OVER_S)
        groups = self.groups.release()
        return self._tasks.spawn(_both(groups, logs), "hand-over")

    def lease_lost(self) -> None:
        """Drop every log and group: other brokers may have them already."""
        self.logs.drop()
        self.groups.drop()

    def logs_ready(self) -> None:
        """Open owned logs that are not open yet."""
        self._opening.wake()

    def _topic_changed(self, topic: Topic) -> None:
        self.appends.forget(topic)
        self.logs.adjust(topic)
        self.logs.leave(topic)
        self._opening.wake()
        self.moves.look()

    def _topic_gone(self, topic: Topic) -> None:
        self._tasks.spawn(self._forget_topic(topic), f"end of {topic.name}")

    async def _forget_topic(self, topic: Topic) -> None:
        await self.logs.close_topic(topic)
        if self.cluster.has_peers and end_of_topic.has_lanes(topic.descriptor):
            self._tasks.spawn(self._seal_lanes(topic), f"seals of {topic.name}")
        self.appends.forget(topic)
        self.probe.forget_topic(topic.name)
        self._tasks.spawn(self._remove_leftovers(), f"removal of {topic.name}")

    async def _seal_lanes(self, topic: Topic) -> None:
        """If the bucket says, too, that it is gone: what the metadata store lost is recovered."""
        try:
            if not await self.topics.is_in_bucket(topic):
                self.logs.seal(topic)
        except KafscaleError as problem:
            # Whoever wants the name ends them.
            logger.warning("lanes_not_sealed", topic=topic.name, error=str(problem))

    # -- topics ------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str | None]
    ) -> Topic:
        """Make a topic; many who ask for the same name at once cause one attempt."""
        await self._catch_up_on(name)
        self.topics.check(name, partitions, configs)
        if name in self._creating:
            # That it exists is said when it does: the other attempt may fail yet.
            await asyncio.shield(self._creating[name])
            raise TopicExists(f"topic {name!r} exists already")
        # Goes on when nobody waits for it any more: a topic half made is finished or taken up.
        work = self.topics.create(name, partitions, configs)
        task = self._tasks.spawn(work, f"creation of {name}", awaited=True)
        self._creating[name] = task
        task.add_done_callback(lambda _: self._creating.pop(name, None))
        return await asyncio.shield(task)

    async def _catch_up_on(self, name: str) -> None:
        """Other brokers may have deleted a topic, and made it again, and we hear late of it."""
        if self.cluster.has_peers:
            await self.topics.look_at(name)

    async def find_or_create(self, name: str) -> Topic:
        """The topic, made with default settings if it does not exist."""
        topic = self.topics.find(name)
        if topic is not None:
            return topic
        try:
            if name in self._creating:
                return await asyncio.shield(self._creating[name])
            return await self.create_topic(name, self.topics.partition_count(name, -1), {})
        except TopicExists:
            found = self.topics.find(name)  # it came into the bucket without a broker
            if found is None:
                raise
            return found

    async def delete_topic(self, name: str) -> None:
        """End a topic and begin removing its objects. Goes on when nobody waits any more."""
        task = self._tasks.spawn(self._delete_topic(name), f"deletion of {name}", awaited=True)
        await asyncio.shield(task)

    async def _delete_topic(self, name: str) -> None:
        await self._catch_up_on(name)
        await self._forget_topic(await self.topics.delete(name))

    # -- groups ------------------------------------------------------------------------------

    async def delete_offsets(
        self, group_id: str, places: Sequence[Place]
    ) -> dict[Place, KafscaleError]:
        """Forget what a group has committed; gives why not, where it could not be done."""
        machine = await self.groups.describe(group_id)
        if machine is None:
            raise GroupNotFound(f"there is no group {group_id!r}")
        kept: Collection[str] = ()
        if not machine.is_idle:
            subscribed = records.subscriptions(machine)
            if subscribed is None:
                raise GroupNotEmpty("what the group's members read is not known")
            kept = subscribed
        problems: dict[Place, KafscaleError] = {}
        for name, partition in places:
            try:
                self.topics.get(name).place(partition)
                if name in kept:
                    raise GroupSubscribed(f"the group reads {name!r}")
            except (UnknownTopic, GroupSubscribed) as problem:
                problems[name, partition] = problem
        doomed = [place for place in places if place not in problems]
        if doomed:
            await self.offsets.delete(group_id, doomed)
        return problems


async def _both(one: Coroutine[None, None, None], other: Coroutine[None, None, None]) -> None:
    await asyncio.gather(one, other)
