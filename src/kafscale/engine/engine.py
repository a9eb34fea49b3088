"""The engine: the verbs that every door uses.

Here: the sub-rooms' facades, and starting and stopping them. Records come and go as v2 record
batches. Everything that is not a facade is private: doors call verbs.
Next door: how the parts are put together (build.py), what happens between them (reactions.py).
Never here: which protocol a record came in by.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafscale.engine.access.acls import Acls
from kafscale.engine.access.credentials import Credentials
from kafscale.engine.access.quotas import Quotas
from kafscale.engine.access.tokens import Tokens
from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.expiry import Expiry
from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.coordinator.offsets import CommittedPartition, Offsets
from kafscale.engine.metrics.lag import ConsumerLag
from kafscale.engine.metrics.sampling import BufferedBytes
from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.engine.moves.moves import Moves
from kafscale.engine.partitions.appends import Appends
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.partitions import Partitions
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.reactions import Reactions
from kafscale.engine.subscriptions.share_starts import ShareStarts
from kafscale.engine.subscriptions.subscriptions import Subscriptions
from kafscale.engine.topics.discovery import watch_topics
from kafscale.engine.topics.topics import TopicParts
from kafscale.engine.transactions.transactions import Transactions
from kafscale.engine.upkeep.checkpoints import Checkpoints
from kafscale.engine.upkeep.compactions import Compactions
from kafscale.engine.upkeep.logs import LogUpkeep
from kafscale.engine.upkeep.removals import Removals
from kafscale.log.reader.reader import Reader
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.metadata.instrumented import InstrumentedMetadata
from kafscale.model.clock import Clock
from kafscale.model.configs.broker_configs import BrokerConfig
from kafscale.model.errors import GroupNotFound, KafscaleError
from kafscale.tasks import Tasks
from kafscale.turns import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """All parts of an engine, for the broker that wires and samples them. No door gets this."""

    acls: Acls | None
    quotas: Quotas
    cluster: Membership
    credentials: Credentials
    tokens: Tokens
    topics: TopicParts
    logs: OpenLogs
    appends: Appends
    partitions: Partitions
    groups: Groups
    offsets: Offsets
    subscriptions: Subscriptions
    share_starts: ShareStarts
    transactions: Transactions
    expiry: Expiry
    lag: ConsumerLag
    moves: Moves
    log_upkeep: LogUpkeep
    compactions: Compactions
    removals: Removals
    checkpoints: Checkpoints
    store_gate: StoreGate
    reader: Reader
    tail: TailMemory
    buffered: BufferedBytes
    metadata: InstrumentedMetadata
    metrics: BrokerMetrics
    clock: Clock
    tasks: Tasks
    turns: Turns


class Engine:
    """One broker's abilities."""

    def __init__(
        self,
        parts: EngineParts,
        *,
        auto_create: bool,
        broker_configs: Sequence[BrokerConfig] = (),
        store_name: str = "",
    ) -> None:
        """`broker_configs` and `store_name` are shown to clients; the engine does not use them."""
        self.acls = parts.acls  # None: there is no authorizer
        self.cluster = parts.cluster
        self.identity = parts.cluster.identity
        self.credentials = parts.credentials
        self.tokens = parts.tokens
        self.topics = parts.topics.topics
        self.partitions = parts.partitions
        self.groups = parts.groups
        self.offsets = parts.offsets
        self.subscriptions = parts.subscriptions
        self.share_starts = parts.share_starts
        self.transactions = parts.transactions
        self.quotas = parts.quotas
        self.metrics = parts.metrics
        self.clock = parts.clock
        self.turns = parts.turns
        self.auto_create = auto_create
        self.broker_configs = broker_configs
        self.store_name = store_name
        self._parts = parts
        self._reactions = Reactions(
            parts.cluster,
            parts.topics.lifecycle,
            parts.logs,
            parts.partitions,
            parts.groups,
            parts.subscriptions,
            parts.moves,
            parts.removals,
            parts.metrics,
            parts.tasks,
        )

    async def start(self) -> None:
        """Read the topics and begin background work."""
        parts = self._parts
        if parts.acls is not None:
            await parts.acls.load()
        self.cluster.start(self._reactions)
        await parts.credentials.rows.load()
        await parts.tokens.rows.load()
        await parts.topics.load(self._reactions)
        await parts.quotas.load()
        await parts.groups.configs.rows.load()
        begin = parts.tasks.spawn
        if parts.acls is not None:
            begin(parts.acls.run(), "acls")
        begin(parts.partitions.run_opener(), "opening")
        if self.cluster.has_peers:
            begin(parts.credentials.rows.run(), "credentials")
            begin(parts.tokens.rows.run(), "tokens")
            begin(watch_topics(parts.topics.registry, parts.metadata), "topics")
            begin(parts.quotas.run(), "quotas")
            begin(parts.groups.configs.rows.run(), "group configs")
        begin(parts.transactions.run(), "transactions")
        begin(parts.moves.run(), "moves")
        begin(parts.log_upkeep.run_roll_up(), "roll-up")
        begin(parts.log_upkeep.run(), "tidy")
        begin(parts.compactions.run(), "compaction")
        begin(parts.expiry.run(), "expiry")
        begin(parts.lag.run(), "lag")
        begin(parts.removals.try_to_remove(), "removal")
        begin(parts.topics.discovery.run(), "discovery")
        begin(parts.checkpoints.run(), "checkpoints")

    async def aclose(self, deadline_s: float) -> None:
        """Flush every log and stop."""
        parts = self._parts
        await parts.groups.aclose()
        await parts.subscriptions.aclose()
        await parts.logs.aclose(deadline_s)
        await parts.checkpoints.aclose()
        await parts.cluster.aclose()
        await asyncio.sleep(0)  # waiters for a commit are told in the loop's next round
        await parts.tasks.aclose()

    def watch_cluster(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have `wake` called whenever topics, brokers or leaders may have changed.

        Gives the function that ends it. `wake` must not wait: it marks work to be done.
        """
        watchers = self._reactions.watchers
        watchers[wake] = None
        return lambda: watchers.pop(wake, None)

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[CommittedPartition], *, goes_on: bool = False
    ) -> dict[CommittedPartition, KafscaleError]:
        """Delete committed offsets of a group; gives the error of each that could not be deleted.

        Offsets of topics that members of the group read are kept. `goes_on`: the client's request
        has deleted others before. They may have been the last that the group had, and then there
        is no such group any more.
        """
        try:
            kept = await self.groups.list_subscribed_topics(group_id)
        except GroupNotFound:
            if not goes_on:
                raise
            kept = frozenset()
        return await self.offsets.delete_unless_read(group_id, partitions, kept)
