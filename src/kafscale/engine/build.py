"""How the parts of an engine are put together: from typed settings to objects.

Here: constructors in the order that their arguments need. No behaviour, and no configuration file:
the engine does not know where its settings come from (broker/derived.py).
Next door: the verbs (engine.py), what happens between the parts (reactions.py).
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafscale.engine.cluster.fleet import Fleet
from kafscale.engine.cluster.identity import claim_identity
from kafscale.engine.cluster.membership import Membership
from kafscale.engine.cluster.single import SingleBroker
from kafscale.engine.coordinator.expiry import Expiry, ExpiryRules
from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.coordinator.offsets import Offsets
from kafscale.engine.coordinator.records import GroupRecords, MemberDataReader
from kafscale.engine.engine import EngineParts
from kafscale.engine.metrics import sampling
from kafscale.engine.metrics.lag import ConsumerLag
from kafscale.engine.metrics.sampling import BufferedBytes
from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.engine.metrics.store_counts import StoreCounts
from kafscale.engine.moves.moves import Moves
from kafscale.engine.partitions.appends import Appends
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.partitions.partitions import Partitions
from kafscale.engine.partitions.refused import RefusedBatches
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.rules import TopicRules
from kafscale.engine.topics.topic import Topic
from kafscale.engine.topics.topics import build_topics
from kafscale.engine.upkeep import id_marks
from kafscale.engine.upkeep.checkpoints import Checkpoints
from kafscale.engine.upkeep.logs import LogUpkeep
from kafscale.engine.upkeep.removals import Removals
from kafscale.groups.states import GroupRules
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

_LARGEST_OPENED_BYTES: Final = 128 << 20


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
    topics: TopicRules
    logs: LogSettings  # of shared logs; a topic's own logs go by its settings
    caches: CacheSizes
    groups: GroupRules
    expiry: ExpiryRules
    validates_records: bool
    upkeep_interval_s: float
    checkpoint_interval_s: float
    logs_each_flush: bool  # at level info, else debug

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
    counts = StoreCounts(metrics, rules.namespace, lambda name: registry.find(name) is not None)
    window = HealthWindow()

    def observe(operation: str, key: str, seconds: float, size: int, ok: bool) -> None:
        window.report(clock.elapsed_s(), seconds, ok)
        counts.observe_store(operation, key, seconds, size, ok)

    store = InstrumentedStore(objects, observe, counts.count_requests, clock, window)
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
    producer_ids = await id_marks.begin(metadata, store, settings.namespace, clock)
    cluster = await _build_cluster(settings, metadata, clock, dice)
    topics = build_topics(registry, store, metadata, cluster, clock, dice, tasks)
    # -- partitions
    store_gate = StoreGate(stores.window, clock)
    tail = TailMemory(settings.caches.tail_bytes)
    buffered = BufferedBytes()
    refused = RefusedBatches(clock)
    make_log = _log_factory(settings, store, cluster, tail, buffered, metrics, clock, dice)
    logs = OpenLogs(make_log, cluster, refused.note)
    reader = Reader(
        store,
        cache_bytes=settings.caches.segment_bytes,
        index_cache_bytes=settings.caches.index_bytes,
        read_ahead=settings.caches.read_ahead_segments,
        tasks=tasks,
    )
    appends = Appends(
        logs,
        refused,
        clock,
        store_gate,
        largest_opened_bytes=_LARGEST_OPENED_BYTES,
        walk_records=settings.validates_records,
        on_used_up=lambda topic: metrics.offset_range_exhausted.labels(topic).inc(),
    )
    partitions = Partitions(registry, logs, appends, producer_ids, reader, cluster, clock, tasks)
    # -- groups
    lag = ConsumerLag(metadata, registry, logs, cluster)
    records = GroupRecords(member_data)
    groups = Groups(
        metadata,
        records,
        settings.groups,
        clock,
        dice,
        tasks,
        cluster,
        metrics.group_rebalances.inc,
    )
    offsets = Offsets(metadata, registry, cluster, groups.claims, clock, lag)
    expiry = Expiry(metadata, records, groups, offsets, settings.expiry, clock, cluster)
    # -- background work
    moves = Moves(
        registry,
        topics.changes,
        logs,
        cluster,
        store,
        metadata,
        clock,
        metrics.move_failures.inc,
    )
    grace_s = settings.logs.grace_s
    removals = Removals(offsets, store, metadata, cluster, clock, grace_s=grace_s)
    log_upkeep = LogUpkeep(
        registry,
        logs,
        removals,
        cluster,
        clock,
        interval_s=settings.upkeep_interval_s,
        grace_s=grace_s,
    )
    checkpoints = Checkpoints(
        metadata,
        store,
        settings.namespace,
        clock,
        dice,
        cluster_id=cluster.identity.cluster_id,
        author=_author(cluster),
        interval_s=settings.checkpoint_interval_s,
        is_responsible=lambda: cluster.is_controller,
    )
    return EngineParts(
        cluster=cluster,
        topics=topics,
        logs=logs,
        appends=appends,
        partitions=partitions,
        groups=groups,
        offsets=offsets,
        expiry=expiry,
        lag=lag,
        moves=moves,
        log_upkeep=log_upkeep,
        removals=removals,
        checkpoints=checkpoints,
        store_gate=store_gate,
        reader=reader,
        tail=tail,
        buffered=buffered,
        metadata=metadata,
        metrics=metrics,
        clock=clock,
        tasks=tasks,
    )


async def _build_cluster(
    settings: EngineSettings, metadata: MetadataStore, clock: Clock, dice: Dice
) -> Membership:
    identity = await claim_identity(metadata, clock, dice, settings.broker_id, settings.broker_name)
    if settings.has_peers:
        return Fleet(metadata, identity, clock, lease_s=settings.lease_s)
    return SingleBroker(identity)


def _log_factory(
    settings: EngineSettings,
    store: ObjectStore,
    cluster: Membership,
    tail: TailMemory,
    buffered: BufferedBytes,
    metrics: BrokerMetrics,
    clock: Clock,
    dice: Dice,
) -> Callable[[Topic | None, str], Log]:
    write_line = sampling.flush_line(is_info=settings.logs_each_flush)

    def make_log(topic: Topic | None, folder: str) -> Log:
        log_settings = settings.logs
        if topic is not None:
            log_settings = dataclasses.replace(
                log_settings,
                segment_bytes=topic.settings.segment_bytes,
                index_interval_bytes=topic.settings.index_interval_bytes,
            )
        return Log(
            store,
            folder,
            epoch=cluster.generation,
            author=_author(cluster),
            settings=log_settings,
            memory=tail,
            clock=clock,
            dice=dice,
            observer=sampling.observer_of(metrics, topic, folder, buffered.add, write_line),
            may_answer=cluster.holds,
        )

    return make_log


def _author(cluster: Membership) -> str:
    return f"broker-{cluster.identity.broker_id}"
