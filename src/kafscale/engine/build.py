"""How the parts of an engine are put together: from typed settings to objects.

Here: constructors in the order that their arguments need. No behaviour, and no configuration file:
the engine does not know where its settings come from (broker/derived.py).
Next door: the verbs (engine.py), what happens between the parts (reactions.py).
"""

import dataclasses
from dataclasses import dataclass

from kafscale.access.quota_rates import QuotaWindows
from kafscale.engine.access.acls import AclRules, Acls
from kafscale.engine.access.credentials import Credentials
from kafscale.engine.access.quotas import Quotas
from kafscale.engine.access.tokens import Tokens
from kafscale.engine.cluster.fleet import Fleet
from kafscale.engine.cluster.identity import claim_identity
from kafscale.engine.cluster.membership import Membership
from kafscale.engine.cluster.single import SingleBroker
from kafscale.engine.coordinator.build import CoordinatorParts, build_coordinator
from kafscale.engine.coordinator.expiry import ExpiryRules
from kafscale.engine.coordinator.offsets import OffsetEvents
from kafscale.engine.coordinator.records import MemberDataReader
from kafscale.engine.engine import EngineParts
from kafscale.engine.metrics import sampling
from kafscale.engine.metrics.lag import ConsumerLag
from kafscale.engine.metrics.sampling import BufferedBytes
from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.engine.metrics.store_counts import StoreCounts
from kafscale.engine.moves.moves import Moves
from kafscale.engine.partitions.build import LogFactory, PartitionParts, build_partitions
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.producer_ids import ProducerIds
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.subscriptions.cursors import Cursors
from kafscale.engine.subscriptions.serving import Surroundings
from kafscale.engine.subscriptions.share_starts import ShareStarts
from kafscale.engine.subscriptions.subscriptions import Subscriptions
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.rules import TopicRules
from kafscale.engine.topics.topic import Topic
from kafscale.engine.topics.topics import TopicParts, build_topics
from kafscale.engine.transactions.coordinator import TransactionLimits
from kafscale.engine.transactions.transactions import TransactionEvents, Transactions
from kafscale.engine.upkeep import id_marks
from kafscale.engine.upkeep.build import UpkeepRules, build_upkeep
from kafscale.groups.rules import GroupRules
from kafscale.log.reader.reader import Reader
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings
from kafscale.metadata.instrumented import InstrumentedMetadata
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.objects.health import HealthWindow
from kafscale.objects.instrumented import InstrumentedStore
from kafscale.objects.store import ObjectStore
from kafscale.tasks import Tasks
from kafscale.turns import Turns


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """How much an engine keeps in memory."""

    tail_bytes: int
    segment_bytes: int
    index_bytes: int
    read_ahead_segments: int


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the configuration says to an engine."""

    broker_id: int | None
    broker_name: str | None
    has_peers: bool
    lease_s: float
    gather_s: float
    topics: TopicRules
    logs: LogSettings  # of shared logs; a topic's own logs go by its settings
    caches: CacheSizes
    groups: GroupRules
    expiry: ExpiryRules
    upkeep: UpkeepRules
    validates_records: bool
    logs_each_flush: bool  # at level info, else debug
    acls: AclRules | None  # None: everyone may do everything
    quota_windows: QuotaWindows
    transactions: TransactionLimits
    token_secret: bytes | None = None  # of delegation tokens; None: there are none

    @property
    def namespace(self) -> str:
        """The part of the bucket that is this cluster's."""
        return self.topics.namespace


@dataclass(frozen=True, slots=True)
class Stores:
    """Object store and metadata store, with all requests counted."""

    objects: InstrumentedStore
    metadata: InstrumentedMetadata
    window: HealthWindow
    registry: TopicRegistry  # says which names in object keys are topics


def instrument(
    rules: TopicRules,
    objects: ObjectStore,
    plain_metadata: MetadataStore,
    metrics: BrokerMetrics,
    clock: Clock,
) -> Stores:
    """Count the requests to both stores, by topic, and judge the object store's health by them."""
    metadata = InstrumentedMetadata(plain_metadata, metrics.observe_metadata, clock)
    registry = TopicRegistry(metadata, rules)
    counts = StoreCounts(
        metrics,
        rules.namespace,
        lambda name: registry.find(name) is not None,
        lambda: registry.revision,
    )
    window = HealthWindow()
    store = InstrumentedStore(objects, counts.observe_store, counts.count_requests, clock, window)
    return Stores(store, metadata, window, registry)


async def build_engine(
    settings: EngineSettings,
    stores: Stores,
    metrics: BrokerMetrics,
    clock: Clock,
    dice: Dice,
    tasks: Tasks,
    member_data: MemberDataReader,
) -> EngineParts:
    """Put an engine together on open stores."""
    store, metadata, registry = stores.objects, stores.metadata, stores.registry
    turns = Turns(clock)
    builder = _Builder(settings, stores, metrics, clock, dice, tasks, turns)
    producer_ids = await id_marks.begin(metadata, store, settings.namespace, clock)
    cluster = await builder.build_cluster()
    topics = build_topics(registry, store, metadata, cluster, clock, dice, tasks)
    store_gate = StoreGate(stores.window, clock)
    tail, buffered = TailMemory(settings.caches.tail_bytes), BufferedBytes()
    make_log = builder.log_factory(cluster, tail, buffered)
    reader = builder.build_reader()
    serving = builder.build_partitions(cluster, make_log, reader, store_gate, producer_ids)
    logs = serving.logs
    lag = ConsumerLag(metadata, registry, logs, cluster)
    coordinator = builder.build_coordinator(cluster, member_data, lag)
    cursors = Cursors(metadata, cluster.identity, clock, tasks, lag)
    around = Surroundings(serving.partitions, cursors, clock, tasks, turns)
    share_starts = ShareStarts(metadata, registry, cursors, serving.partitions)
    transactions = builder.build_transactions(cluster, logs, producer_ids, lag)
    moves = builder.build_moves(cluster, topics, logs)
    upkeep = build_upkeep(
        settings.upkeep,
        store,
        metadata,
        registry,
        logs,
        coordinator.offsets,
        cursors,
        cluster,
        clock,
        dice,
        metrics.compacted,
        topics.discovery.search_soon,
    )
    return EngineParts(
        acls=Acls(metadata, settings.acls) if settings.acls is not None else None,
        quotas=Quotas(metadata, clock, settings.quota_windows),
        cluster=cluster,
        credentials=Credentials(metadata),
        tokens=Tokens(metadata, clock, dice, settings.token_secret),
        topics=topics,
        logs=logs,
        appends=serving.appends,
        partitions=serving.partitions,
        groups=coordinator.groups,
        offsets=coordinator.offsets,
        subscriptions=Subscriptions(around, cluster),
        share_starts=share_starts,
        transactions=transactions,
        expiry=coordinator.expiry,
        lag=lag,
        moves=moves,
        log_upkeep=upkeep.log_upkeep,
        compactions=upkeep.compactions,
        removals=upkeep.removals,
        checkpoints=upkeep.checkpoints,
        store_gate=store_gate,
        reader=reader,
        tail=tail,
        buffered=buffered,
        metadata=metadata,
        metrics=metrics,
        clock=clock,
        tasks=tasks,
        turns=turns,
    )


@dataclass(frozen=True, slots=True)
class _Builder:
    """What almost every part needs, and one method for each sub-room."""

    settings: EngineSettings
    stores: Stores
    metrics: BrokerMetrics
    clock: Clock
    dice: Dice
    tasks: Tasks
    turns: Turns

    async def build_cluster(self) -> Membership:
        settings, metadata = self.settings, self.stores.metadata
        identity = await claim_identity(
            metadata, self.clock, self.dice, settings.broker_id, settings.broker_name
        )
        if settings.has_peers:
            return Fleet(
                metadata,
                identity,
                self.clock,
                lease_s=settings.lease_s,
                gather_s=settings.gather_s,
            )
        return SingleBroker(identity)

    def build_reader(self) -> Reader:
        caches = self.settings.caches
        return Reader(
            self.stores.objects,
            cache_bytes=caches.segment_bytes,
            index_cache_bytes=caches.index_bytes,
            read_ahead=caches.read_ahead_segments,
            tasks=self.tasks,
            turns=self.turns,
        )

    def build_partitions(
        self,
        cluster: Membership,
        make_log: LogFactory,
        reader: Reader,
        store_gate: StoreGate,
        producer_ids: ProducerIds,
    ) -> PartitionParts:
        used_up = self.metrics.offset_range_exhausted
        return build_partitions(
            self.stores.registry,
            make_log,
            reader,
            store_gate,
            producer_ids,
            cluster,
            self.clock,
            self.tasks,
            walk_records=self.settings.validates_records,
            on_used_up=lambda topic: used_up.labels(topic).inc(),
        )

    def build_coordinator(
        self, cluster: Membership, member_data: MemberDataReader, events: OffsetEvents
    ) -> CoordinatorParts:
        return build_coordinator(
            self.settings.groups,
            self.settings.expiry,
            self.stores.metadata,
            self.stores.registry,
            cluster,
            member_data,
            events,
            self.clock,
            self.dice,
            self.tasks,
            on_rebalanced=self.metrics.group_rebalances.inc,
        )

    def build_transactions(
        self,
        cluster: Membership,
        logs: OpenLogs,
        producer_ids: ProducerIds,
        offset_events: OffsetEvents,
    ) -> Transactions:
        return Transactions(
            self.stores.metadata,
            self.stores.registry,
            logs,
            cluster,
            producer_ids,
            offset_events,
            self.settings.transactions,
            self.clock,
            self.dice,
            self.tasks,
            TransactionEvents(
                decided=lambda how: self.metrics.transactions_decided.labels(how).inc(),
                presumed=self.metrics.transactions_presumed_aborted.inc,
            ),
        )

    def build_moves(self, cluster: Membership, topics: TopicParts, logs: OpenLogs) -> Moves:
        return Moves(
            self.stores.registry,
            topics.changes,
            logs,
            cluster,
            self.stores.objects,
            self.stores.metadata,
            self.clock,
            self.metrics.move_failures.inc,
        )

    def log_factory(
        self, cluster: Membership, tail: TailMemory, buffered: BufferedBytes
    ) -> LogFactory:
        """The function that makes a log, not open yet; a shared one has no topic."""
        write_line = sampling.flush_line(is_info=self.settings.logs_each_flush)

        def make_log(topic: Topic | None, folder: str) -> Log:
            log_settings = self.settings.logs
            if topic is not None:
                log_settings = dataclasses.replace(
                    log_settings,
                    segment_bytes=topic.settings.segment_bytes,
                    index_interval_bytes=topic.settings.index_interval_bytes,
                )
            return Log(
                self.stores.objects,
                folder,
                epoch=cluster.generation,
                author=cluster.identity.author,
                settings=log_settings,
                memory=tail,
                clock=self.clock,
                dice=self.dice,
                observer=sampling.observer_of(
                    self.metrics, topic, folder, buffered.add, write_line
                ),
                may_answer=cluster.holds,
                turns=self.turns,
            )

        return make_log
