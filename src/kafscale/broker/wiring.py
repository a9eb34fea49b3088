"""Which parts a broker is made of.

Here: configuration to objects. No behaviour. Next door: the settings (settings/config.py), which
stores there are (settings/stores.py), the process (main.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafscale.admin.pairing import require_pair
from kafscale.broker import derived, kafka_names, sampling
from kafscale.broker.doors import Doors, build_doors
from kafscale.broker.readiness import (
    Readiness,
    fleet_check,
    listeners_check,
    metadata_check,
    store_check,
)
from kafscale.engine.cluster.fleet import Fleet
from kafscale.engine.cluster.identity import claim_identity
from kafscale.engine.cluster.membership import Membership
from kafscale.engine.cluster.single import SingleBroker
from kafscale.engine.coordinator.claims import Claims
from kafscale.engine.coordinator.expiry import Expiry
from kafscale.engine.coordinator.groups import Groups
from kafscale.engine.coordinator.offsets import Offsets
from kafscale.engine.engine import Engine
from kafscale.engine.metrics.lag import Lag
from kafscale.engine.metrics.log_gauges import Census
from kafscale.engine.metrics.series import Probe
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
from kafscale.engine.upkeep.housekeeping import Housekeeping
from kafscale.gateways.connections import Connections
from kafscale.log.reader.reader import Reader
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.metadata.instrumented import InstrumentedMetadata
from kafscale.metadata.store import MetadataStore
from kafscale.model.access import AllowAll, Authorizer
from kafscale.model.clock import Clock, Dice
from kafscale.model.meters import Registry
from kafscale.objects.health import HealthWindow
from kafscale.objects.instrumented import InstrumentedStore
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from kafscale.tasks import Tasks

_LARGEST_OPENED_BYTES = 128 << 20


@dataclass(slots=True)
class Broker:
    """A broker's parts, ready to be started."""

    engine: Engine
    doors: Doors
    probe: Probe
    tasks: Tasks
    readiness: Readiness


class _Buffered:
    """Bytes that wait in all logs together."""

    def __init__(self) -> None:
        self.size = 0

    def add(self, delta: int) -> None:
        self.size += delta


async def build(
    config: Config,
    store: ObjectStore,
    plain_metadata: MetadataStore,
    clock: Clock,
    dice: Dice,
    *,
    is_shared: bool | None = None,
    authorizer: Authorizer | None = None,
) -> Broker:
    """Put a broker together on an open store and an open metadata store.

    `is_shared`: other brokers use them, too; None: as the settings say.
    """
    probe = Probe(Registry(), config.storage.namespace)
    metadata = InstrumentedMetadata(plain_metadata, probe.observe_metadata, clock)
    window = HealthWindow()

    def observe(operation: str, key: str, seconds: float, size: int, ok: bool) -> None:
        window.report(clock.elapsed_s(), seconds, ok)
        probe.observe_store(operation, key, seconds, size, ok)

    watched = InstrumentedStore(store, observe, probe.count_requests, clock, window)
    tasks = Tasks()
    buffered = _Buffered()
    await require_pair(metadata, watched, config.storage.namespace)
    producer_ids = await id_marks.begin(metadata, watched, config.storage.namespace, clock)
    identity = await claim_identity(metadata, clock, dice, config.broker.id, config.broker_name)
    fleet: Membership = SingleBroker(identity)
    if is_shared or (is_shared is None and config.etcd.endpoints):
        fleet = Fleet(metadata, identity, clock, lease_s=config.etcd.lease_ttl)
    memory = TailMemory(config.cache.tail_cache_size)
    health = StoreGate(window, clock)
    tell = sampling.teller(config.flush_interval_ms)
    if config.logging.level == "debug":
        probe.tell_received = sampling.tell_received

    def make_log(topic: Topic | None, folder: str) -> Log:
        return Log(
            watched,
            folder,
            epoch=fleet.generation,
            author=f"broker-{identity.broker_id}",
            settings=derived.log_settings(config, topic),
            memory=memory,
            clock=clock,
            dice=dice,
            observer=sampling.observer_of(probe, topic, folder, buffered.add, tell),
            may_answer=fleet.holds,
        )

    refused = RefusedBatches(clock)
    logs = OpenLogs(make_log, fleet, refused.note)
    reader = Reader(
        watched,
        cache_bytes=config.segment_cache_bytes,
        index_cache_bytes=config.cache.index_cache_size,
        read_ahead=config.cache.read_ahead_segments,
        tasks=tasks,
    )
    rules = TopicRules(
        config.storage.namespace,
        config.topic_defaults,
        config.topics.default_partitions,
        config.topics.max_partitions,
        config.topics.max_virtual_partitions,
        config.layout_rules,
        config.storage.shared_logs,
    )
    topics = build_topics(watched, metadata, rules, fleet, clock, dice, tasks)
    registry = topics.registry
    probe.is_topic = lambda name: registry.find(name) is not None
    claims = Claims(metadata, identity, clock)
    offsets = Offsets(metadata, registry, fleet, claims, clock)
    groups = Groups(metadata, claims, derived.group_rules(config), clock, dice, tasks, fleet)
    lag = Lag(metadata, registry, logs)
    lag.is_ours = fleet.may_coordinate
    offsets.on_noted = lag.note
    groups.on_rebalanced = probe.group_rebalances.inc
    appends = Appends(
        logs,
        refused,
        clock,
        health,
        largest_opened_bytes=_LARGEST_OPENED_BYTES,
        walk_records=config.storage.validation == "records",
        on_used_up=lambda topic: probe.offset_range_exhausted.labels(topic).inc(),
    )
    engine = Engine(
        fleet,
        topics,
        logs,
        Partitions(topics.registry, logs, appends, producer_ids, reader, fleet, clock, tasks),
        offsets,
        groups,
        Expiry(metadata, groups, offsets, derived.expiry_rules(config), clock, fleet),
        lag,
        Housekeeping(
            registry,
            logs,
            offsets,
            watched,
            metadata,
            clock,
            fleet,
            interval_s=config.storage.housekeeping_interval,
            grace_s=config.grace_period_s,
        ),
        health,
        tasks,
        probe,
        clock,
        Moves(registry, topics.changes, logs, fleet, watched, metadata, clock),
        metadata,
        checkpoints=Checkpoints(
            metadata,
            watched,
            config.storage.namespace,
            clock,
            dice,
            cluster_id=identity.cluster_id,
            author=f"broker-{identity.broker_id}",
            interval_s=config.storage.checkpoint_interval,
        ),
        auto_create=config.topics.auto_create,
        broker_configs=kafka_names.broker_configs(config, identity.broker_id),
        store_name=kafka_names.store_name(config),
    )
    doors = build_doors(
        config, engine, tasks, clock, dice, lambda: buffered.size, authorizer or AllowAll()
    )
    _sample(probe, clock.now_ms() / 1000, health, registry, logs, doors.connections, memory, reader)
    _sample_groups(probe, groups, lag)
    probe.sample_fleet(
        is_controller=lambda: fleet.is_controller,
        generation=lambda: fleet.generation,
        logs=logs.count,
        stopped=logs.stopped,
        handovers=lambda: logs.handed_over,
    )
    readiness = Readiness()
    readiness.add("store", store_check(health))
    readiness.add("metadata", metadata_check(metadata))
    readiness.add("listeners", listeners_check(doors.why_not_ready))
    readiness.add("fleet", fleet_check(fleet))
    return Broker(engine, doors, probe, tasks, readiness)


def _sample(
    probe: Probe,
    started_s: float,
    health: StoreGate,
    topics: TopicRegistry,
    logs: OpenLogs,
    connections: Connections,
    memory: TailMemory,
    reader: Reader,
) -> None:
    """Register the series that are read when the metrics page is asked for."""

    def buffers() -> Iterator[tuple[Sequence[str], float]]:
        for topic, log in logs.each():
            waiting = log.pending_bytes()
            if topic is not None:
                partition = log.folder.rpartition("/")[2]
                yield (topic.name, partition), float(sum(waiting.values()))
                continue
            residents = topics.residents(log.folder)
            for lane, size in waiting.items():
                if lane in residents:
                    owner, number = residents[lane]
                    yield (owner.name, str(number)), float(size)

    probe.sample_buffers(buffers)
    probe.sample_logs(Census(logs.each, topics.residents, lambda: topics.revision))
    probe.sample_store_health(sampling.states_of(health))
    probe.sample_broker(
        connections=connections.__len__,
        cache_bytes=lambda: reader.block_cache.used_bytes,
        tail_bytes=lambda: memory.used_bytes,
        resident_bytes=sampling.resident_bytes,
        cpu_seconds=sampling.cpu_seconds,
        started_s=lambda: started_s,
    )


def _sample_groups(probe: Probe, groups: Groups, lag: Lag) -> None:
    def states() -> Iterator[tuple[Sequence[str], float]]:
        for state, count in groups.census():
            yield (state,), float(count)

    probe.sample_groups(states, groups.member_count)
    probe.sample_consumer_lag(lag.rows)
    probe.sample_untracked_lag(lambda: lag.untracked)
