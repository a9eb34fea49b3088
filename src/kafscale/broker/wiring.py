"""Which parts a broker is made of: the one place where adapters are chosen.

Here: configuration to objects. No behaviour. Next door: the settings (config.py), the process
(main.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafscale.broker import kafka_names, process
from kafscale.broker.config import Config
from kafscale.broker.config_sections import EtcdSection
from kafscale.engine import ownership
from kafscale.engine.appends import Appends
from kafscale.engine.claims import Claims
from kafscale.engine.engine import Engine
from kafscale.engine.expiry import Expiry, ExpiryRules
from kafscale.engine.fleet import Fleet
from kafscale.engine.groups import Groups
from kafscale.engine.health import StoreHealth
from kafscale.engine.housekeeping import Housekeeping
from kafscale.engine.lag import Lag
from kafscale.engine.logs import Logs
from kafscale.engine.lone import Lone
from kafscale.engine.membership import Membership
from kafscale.engine.offsets import Offsets
from kafscale.engine.probe import Probe
from kafscale.engine.producer_ids import ProducerIds
from kafscale.engine.reads import Reads
from kafscale.engine.topics import Topic, TopicRules, Topics
from kafscale.gateways.connection import Connection
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.call import Context
from kafscale.gateways.kafka.fetch_sessions import FetchSessions
from kafscale.gateways.kafka.session import KafkaSession
from kafscale.gateways.listener import Listener, ListenerLimits
from kafscale.groups.states import GroupRules
from kafscale.log.lane import TailMemory
from kafscale.log.log import Log, LogSettings, Observer
from kafscale.log.reader import Reader
from kafscale.log.tasks import Tasks
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import MetadataUnavailable, StoreRefused
from kafscale.model.meters import Registry
from kafscale.objects.health import HealthWindow
from kafscale.objects.instrumented import InstrumentedStore
from kafscale.objects.store import ObjectStore

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
                connect_timeout_s=s3.connect_timeout,
                request_timeout_s=s3.request_timeout,
            )
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


class _Buffered:
    """Bytes that wait in all logs together."""

    def __init__(self) -> None:
        self.size = 0

    def add(self, delta: int) -> None:
        self.size += delta


async def build(
    config: Config,
    store: ObjectStore,
    metadata: MetadataStore,
    clock: Clock,
    dice: Dice,
    *,
    is_shared: bool | None = None,
) -> Broker:
    """Put a broker together on an open store and an open metadata store.

    `is_shared`: other brokers use them, too; None: as the settings say.
    """
    probe = Probe(Registry())
    window = HealthWindow()

    def observe(operation: str, seconds: float, size: int, ok: bool) -> None:
        window.report(clock.elapsed_s(), seconds, ok)
        probe.observe_store(operation, seconds, size, ok)

    watched = InstrumentedStore(store, observe, clock)
    tasks = Tasks()
    buffered = _Buffered()
    identity = await ownership.claim(metadata, clock, dice, config.broker.id, config.broker_name)
    fleet: Membership = Lone(identity)
    if is_shared or (is_shared is None and config.etcd.endpoints):
        fleet = Fleet(metadata, identity, clock, lease_s=config.etcd.lease_ttl)
    memory = TailMemory(config.cache.tail_cache_size)
    health = StoreHealth(window, clock)

    def make_log(topic: Topic, folder: str) -> Log:
        return Log(
            watched,
            folder,
            epoch=fleet.generation,
            author=f"broker-{identity.broker_id}",
            settings=_log_settings(config, topic),
            memory=memory,
            clock=clock,
            dice=dice,
            observer=_observer(probe, topic, buffered),
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
    )
    topics = Topics(watched, metadata, rules, clock, dice)
    claims = Claims(metadata, identity, clock)
    offsets = Offsets(metadata, topics, claims, clock)
    groups = Groups(metadata, claims, _group_rules(config), clock, dice, tasks, fleet)
    lag = Lag(metadata, topics, logs)
    lag.is_ours = fleet.may_coordinate
    offsets.on_noted = lag.note
    groups.on_rebalanced = probe.group_rebalances.inc
    engine = Engine(
        fleet,
        topics,
        logs,
        Appends(
            logs,
            clock,
            health,
            largest_opened_bytes=_LARGEST_OPENED_BYTES,
            walk_records=config.storage.validation == "records",
        ),
        Reads(logs, reader, clock),
        reader,
        ProducerIds(metadata),
        offsets,
        groups,
        Expiry(metadata, groups, offsets, _expiry_rules(config), clock, fleet),
        lag,
        Housekeeping(
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
        _listener_limits(config),
        clock,
        buffered_bytes=lambda: buffered.size,
        refusals=lambda reason: probe.bad_requests.labels(reason).inc(),
    )
    _sample(probe, logs, listener, memory, reader)
    _sample_groups(probe, groups, lag)
    probe.sample_fleet(
        is_controller=lambda: fleet.is_controller,
        generation=lambda: fleet.generation,
        logs=logs.count,
        handovers=lambda: logs.handed_over,
    )
    return Broker(engine, listener, probe, tasks)


def _sample(
    probe: Probe, logs: Logs, listener: Listener, memory: TailMemory, reader: Reader
) -> None:
    """What is not counted as it happens but looked at when somebody asks."""

    def buffers() -> Iterator[tuple[Sequence[str], float]]:
        for topic, log in logs.each():
            partition = log.folder.rpartition("/")[2]
            for size in log.waiting_bytes().values():
                yield (topic.name, partition), float(size)

    probe.sample_buffers(buffers)
    probe.sample_broker(
        connections=listener.__len__,
        cache_bytes=lambda: reader.blocks.used_bytes,
        tail_bytes=lambda: memory.used_bytes,
        resident_bytes=process.resident_bytes,
        cpu_seconds=process.cpu_seconds,
    )


def _sample_groups(probe: Probe, groups: Groups, lag: Lag) -> None:
    def states() -> Iterator[tuple[Sequence[str], float]]:
        for state, count in groups.census():
            yield (state,), float(count)

    probe.sample_groups(states, groups.member_count)
    probe.sample_consumer_lag(lag.rows)
    probe.sample_untracked_lag(lambda: lag.untracked)


def _log_settings(config: Config, topic: Topic) -> LogSettings:
    storage = config.storage
    return LogSettings(
        flush_bytes=storage.flush_bytes,
        flush_messages=storage.flush_messages,
        flush_interval_s=config.flush_interval_ms / 1000,
        largest_flush_bytes=max(4 * storage.flush_bytes, 16 << 20),
        segment_bytes=topic.settings.segment_bytes,
        index_interval_bytes=topic.settings.index_interval_bytes,
        rollup_objects=storage.rollup_objects,
        grace_s=config.grace_period_s,
        wake_on_append=topic.settings.fetch_buffered,
        # Producers of a topic that was deleted and created again go on counting.
        strangers_go_on=topic.descriptor.incarnation > 1,
    )


def _group_rules(config: Config) -> GroupRules:
    consumer = config.consumer
    return GroupRules(
        shortest_session_s=consumer.min_session_timeout_ms / 1000,
        longest_session_s=consumer.max_session_timeout_ms / 1000,
        initial_delay_s=consumer.initial_rebalance_delay_ms / 1000,
        most_members=consumer.max_group_size,
    )


def _expiry_rules(config: Config) -> ExpiryRules:
    consumer = config.consumer
    return ExpiryRules(
        retention_s=consumer.offsets_retention_minutes * 60,
        interval_s=consumer.offsets_retention_check_interval_ms / 1000,
    )


def _observer(probe: Probe, topic: Topic, buffered: _Buffered) -> Observer:
    flushes = probe.flushes.labels(topic.name)
    flush_bytes = probe.flush_bytes.labels(topic.name)

    def flushed(size: int, records: int, seconds: float) -> None:
        flushes.inc()
        flush_bytes.inc(size)

    return Observer(
        flushed=flushed,
        rolled_up=lambda _objects: probe.rollups.inc(),
        buffered=buffered.add,
    )


def _listener_limits(config: Config) -> ListenerLimits:
    network = config.network
    return ListenerLimits(
        max_connections=network.max_connections,
        max_connections_per_ip=network.max_connections_per_ip,
        max_frame_bytes=network.max_request_size,
        max_held_bytes=network.max_in_flight_bytes,
        max_held_bytes_per_connection=network.max_in_flight_bytes_per_connection,
        frame_s=network.connection_timeout,
        idle_s=network.idle_timeout,
        send_buffer=network.socket_send_buffer,
        receive_buffer=network.socket_receive_buffer,
    )
