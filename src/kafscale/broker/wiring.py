"""Which parts a broker is made of: the one place where adapters are chosen.

Here: configuration to objects. No behaviour. Next door: the settings (config.py), the process
(main.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafscale.broker import derived, kafka_names, process, sampling
from kafscale.broker.readiness import Readiness, fleet_check, metadata_check, store_check
from kafscale.engine.cluster.fleet import Fleet
from kafscale.engine.cluster.identity import claim_identity
from kafscale.engine.cluster.membership import Membership
from kafscale.engine.cluster.single import Lone
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
from kafscale.engine.partitions.open_logs import Logs
from kafscale.engine.partitions.reads import Reads
from kafscale.engine.partitions.store_gate import StoreHealth
from kafscale.engine.topics.registry import Topics
from kafscale.engine.topics.rules import TopicRules
from kafscale.engine.topics.topic import Topic
from kafscale.engine.upkeep import id_marks
from kafscale.engine.upkeep.checkpoints import Checkpoints
from kafscale.engine.upkeep.housekeeping import Housekeeping
from kafscale.engine.upkeep.recovery import require_whole
from kafscale.gateways.connection import Connection
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.call import Context
from kafscale.gateways.kafka.fetch_sessions import FetchSessions
from kafscale.gateways.kafka.session import KafkaSession
from kafscale.gateways.listener import Listener
from kafscale.log.formats import keys
from kafscale.log.reader.reader import Reader
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.metadata.instrumented import InstrumentedMetadata
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import MetadataUnavailable, StoreRefused
from kafscale.model.meters import Registry
from kafscale.objects.health import HealthWindow
from kafscale.objects.instrumented import InstrumentedStore
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from kafscale.settings.sections import EtcdSection
from kafscale.tasks import Tasks

_LARGEST_OPENED_BYTES = 128 << 20


def open_store(config: Config) -> ObjectStore:
    """The object store the settings choose. Imports only that one's library."""
    if config.store_kind == "memory":
        from kafscale.objects.memory import MemoryObjectStore

        return MemoryObjectStore()
    if config.store_kind == "s3":
        from kafscale.objects.s3 import S3ObjectStore, S3Settings

        s3 = config.s3
        return S3ObjectStore(
            S3Settings(
                bucket=s3.bucket or "",
                region=s3.region,
                endpoint=s3.endpoint or "",
                path_style=s3.path_style,
                access_key=s3.access_key or "",
                secret_key=s3.secret_key or "",
                session_token=s3.session_token or "",
                max_retries=s3.max_retries,
                concurrency=s3.concurrency,
                part_size=s3.part_size,
                max_idle=s3.idle_connections,
                idle_timeout_s=s3.idle_conn_timeout,
                connect_timeout_s=s3.connect_timeout,
                request_timeout_s=s3.request_timeout,
                storage_class=s3.storage_class or "",
                encryption=s3.server_side_encryption or "",
                kms_key=s3.kms_key_id or "",
            ),
            is_unique=keys.is_rewritten,
        )
    from kafscale.objects.files import FileObjectStore

    return FileObjectStore(_made(Path(config.broker.data_dir) / "objects"), config.storage.fsync)


def open_metadata(config: Config, clock: Clock) -> MetadataStore:
    """The metadata store the settings choose. Imports only that one's library."""
    if config.etcd.endpoints:
        return _open_etcd(config.etcd, clock)
    from kafscale.metadata.embedded import EmbeddedMetadataStore

    folder = _made(Path(config.broker.data_dir))
    return EmbeddedMetadataStore(folder / "metadata.db", config.storage.sqlite_synchronous, clock)


def _open_etcd(etcd: EtcdSection, clock: Clock) -> MetadataStore:
    try:
        from kafscale.metadata.etcd.client import EtcdSettings
        from kafscale.metadata.etcd.store import EtcdMetadataStore
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        raise MetadataUnavailable(
            f"etcd.endpoints is set and {missing.name} is not installed: "
            "pip install 'kafscale[etcd]'"
        ) from missing
    return EtcdMetadataStore(
        EtcdSettings(
            etcd.targets(),
            dial_timeout_s=etcd.dial_timeout,
            request_timeout_s=etcd.request_timeout,
            username=etcd.username or "",
            password=etcd.password or "",
            tls=etcd.is_encrypted(),
            ca_file=etcd.tls.ca_file or "",
            cert_file=etcd.tls.cert_file or "",
            key_file=etcd.tls.key_file or "",
        ),
        clock,
    )


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StoreRefused(f"cannot use {folder}: {problem.strerror}") from problem
    return folder


@dataclass(slots=True)
class Broker:
    """A broker's parts, ready to be started."""

    engine: Engine
    listener: Listener
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
    await require_whole(metadata, watched, config.storage.namespace)
    producer_ids = await id_marks.begin(metadata, watched, config.storage.namespace, clock)
    identity = await claim_identity(metadata, clock, dice, config.broker.id, config.broker_name)
    fleet: Membership = Lone(identity)
    if is_shared or (is_shared is None and config.etcd.endpoints):
        fleet = Fleet(metadata, identity, clock, lease_s=config.etcd.lease_ttl)
    memory = TailMemory(config.cache.tail_cache_size)
    health = StoreHealth(window, clock)
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

    logs = Logs(make_log, fleet)
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
    topics = Topics(watched, metadata, rules, clock, dice)
    topics.broker_count = lambda: max(1, len(fleet.nodes()))
    probe.is_topic = lambda name: topics.find(name) is not None
    claims = Claims(metadata, identity, clock)
    offsets = Offsets(metadata, topics, claims, clock)
    groups = Groups(metadata, claims, derived.group_rules(config), clock, dice, tasks, fleet)
    lag = Lag(metadata, topics, logs)
    lag.is_ours = fleet.may_coordinate
    offsets.on_noted = lag.note
    groups.on_rebalanced = probe.group_rebalances.inc
    appends = Appends(
        logs,
        clock,
        health,
        largest_opened_bytes=_LARGEST_OPENED_BYTES,
        walk_records=config.storage.validation == "records",
    )
    appends.on_used_up = lambda topic: probe.offset_range_exhausted.labels(topic).inc()
    engine = Engine(
        fleet,
        topics,
        logs,
        appends,
        Reads(logs, reader, clock),
        reader,
        producer_ids,
        offsets,
        groups,
        Expiry(metadata, groups, offsets, derived.expiry_rules(config), clock, fleet),
        lag,
        Housekeeping(
            topics,
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
        dice,
        Moves(topics, logs, fleet, watched, metadata, clock, dice),
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
    if isinstance(fleet, Fleet):
        fleet.on_change, fleet.on_lost = engine.hand_over, engine.drop_all
    context = Context(engine, FetchSessions(dice), config.network.request_timeout, router.OFFERED)

    def make_session(connection: Connection) -> KafkaSession:
        return KafkaSession(connection, context, tasks)

    listener = Listener(
        "kafka",
        make_session,
        derived.listener_limits(config),
        clock,
        buffered_bytes=lambda: buffered.size,
        refusals=lambda reason: probe.bad_requests.labels(reason).inc(),
    )
    _sample(probe, clock.now_ms() / 1000, health, topics, logs, listener, memory, reader)
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
    readiness.add("fleet", fleet_check(fleet))
    return Broker(engine, listener, probe, tasks, readiness)


def _sample(
    probe: Probe,
    started_s: float,
    health: StoreHealth,
    topics: Topics,
    logs: Logs,
    listener: Listener,
    memory: TailMemory,
    reader: Reader,
) -> None:
    """What is not counted as it happens but looked at when somebody asks."""

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
        connections=listener.__len__,
        cache_bytes=lambda: reader.block_cache.used_bytes,
        tail_bytes=lambda: memory.used_bytes,
        resident_bytes=process.resident_bytes,
        cpu_seconds=process.cpu_seconds,
        started_s=lambda: started_s,
    )


def _sample_groups(probe: Probe, groups: Groups, lag: Lag) -> None:
    def states() -> Iterator[tuple[Sequence[str], float]]:
        for state, count in groups.census():
            yield (state,), float(count)

    probe.sample_groups(states, groups.member_count)
    probe.sample_consumer_lag(lag.rows)
    probe.sample_untracked_lag(lambda: lag.untracked)
