"""The engine: the verbs every door uses.

Here: parts put together and the few verbs that need several of them. Records come and go as v2
record batches. Never here: which protocol a record came in by.
"""

import asyncio
from collections.abc import Collection, Sequence

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator import records
from kafscale.engine.coordinator.expiry import Expiry
from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.coordinator.offsets import Offsets, Place
from kafscale.engine.metrics.lag import LOOK_EVERY_S, Lag
from kafscale.engine.metrics.series import Probe
from kafscale.engine.moves.moves import Moves
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.partitions import Partitions
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.reactions import Reactions
from kafscale.engine.topics.discovery import watch_topics
from kafscale.engine.topics.topics import TopicParts
from kafscale.engine.upkeep.checkpoints import Checkpoints
from kafscale.engine.upkeep.housekeeping import Housekeeping
from kafscale.metadata.store import MetadataStore
from kafscale.model.broker_configs import BrokerConfig
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    GroupNotEmpty,
    GroupNotFound,
    GroupSubscribed,
    KafscaleError,
    UnknownTopic,
)
from kafscale.tasks import Tasks

logger = structlog.get_logger()


class Engine:
    """One broker's abilities."""

    def __init__(
        self,
        cluster: Membership,
        topics: TopicParts,
        logs: OpenLogs,
        partitions: Partitions,
        offsets: Offsets,
        groups: Groups,
        expiry: Expiry,
        lag: Lag,
        housekeeping: Housekeeping,
        health: StoreGate,
        tasks: Tasks,
        probe: Probe,
        clock: Clock,
        moves: Moves,
        metadata: MetadataStore,
        *,
        checkpoints: Checkpoints,
        auto_create: bool,
        broker_configs: Sequence[BrokerConfig] = (),
        store_name: str = "",
    ) -> None:
        self.cluster = cluster
        self.identity = cluster.identity
        self.topics = topics.topics
        self._topic_parts = topics
        self._metadata = metadata
        self.logs = logs
        self.partitions = partitions
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
        self.broker_configs = broker_configs  # shown to clients; nothing here goes by them
        self.store_name = store_name
        self.moves = moves
        moves.on_failed = probe.move_failures.inc
        probe.sample_moves(moves.counts, moves.ages)
        self._tasks = tasks
        checkpoints.responsible = lambda: cluster.is_controller
        lag.has_peers = cluster.has_peers
        probe.sample_checkpoint_age(checkpoints.age_s)
        self.reactions = Reactions(
            cluster,
            topics.lifecycle,
            logs,
            partitions,
            groups,
            moves,
            housekeeping,
            probe,
            tasks,
        )

    async def start(self) -> None:
        """Read the topics and begin background work."""
        self.cluster.start(self.reactions)
        await self._topic_parts.load(self.reactions)
        begin = self._tasks.spawn
        begin(self.partitions.run_opener(), "opening")
        if self.cluster.has_peers:
            begin(watch_topics(self._topic_parts.registry, self._metadata), "topics")
        begin(self.moves.run(), "moves")
        begin(self.housekeeping.roll_up_for_ever(), "roll-up")
        begin(self.housekeeping.tidy_for_ever(), "tidy")
        begin(self.expiry.expire_for_ever(), "expiry")
        begin(self._recall_lag(), "lag")
        begin(self.housekeeping.try_to_remove(), "removal")
        begin(self._topic_parts.discovery.run(), "discovery")
        begin(self.checkpoints.write_for_ever(), "checkpoints")

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
        await asyncio.sleep(0)  # waiters for a commit are told in the loop's next round
        await self._tasks.aclose()

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
