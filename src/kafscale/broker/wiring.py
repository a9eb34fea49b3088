"""Which parts a broker is made of.

Here: configuration to objects. No behaviour. Next door: the settings (settings/config.py), what the
engine is made of (engine/build.py), which stores there are (settings/stores.py), the process
(main.py).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kafscale.admin.bucket.pairing import require_pair
from kafscale.broker import derived, kafka_names
from kafscale.broker.doors.listeners import Doors, build_doors
from kafscale.broker.doors.logins import build_authentication, prepare_credentials, token_secret
from kafscale.broker.operating import process
from kafscale.broker.operating.readiness import (
    Readiness,
    fleet_check,
    listeners_check,
    metadata_check,
    store_check,
)
from kafscale.engine.build import build_engine, instrument
from kafscale.engine.engine import Engine
from kafscale.engine.metrics import sampling
from kafscale.engine.metrics.mean_rate import MeanRate
from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.gateways.audit_log import Fields
from kafscale.gateways.kafka.groups.consumer_protocol import ConsumerProtocol
from kafscale.gateways.kafka.groups.offsets_topic import OffsetsTopic
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.model.metrics.meters import Registry
from kafscale.model.security.access import AllowAll, Authorizer
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from kafscale.tasks import Tasks


@dataclass(slots=True)
class Broker:
    """A broker's parts, ready to be started."""

    engine: Engine
    doors: Doors
    metrics: BrokerMetrics
    tasks: Tasks
    readiness: Readiness
    before_clients: Callable[[], Awaitable[None]]  # between the engine's start and the doors'


async def build(
    config: Config,
    store: ObjectStore,
    metadata: MetadataStore,
    clock: Clock,
    dice: Dice,
    *,
    has_peers: bool | None = None,
    authorizer: Authorizer | None = None,
    audit_line: Callable[[Fields], None] | None = None,
) -> Broker:
    """Put a broker together on an open store and an open metadata store.

    `has_peers`: other brokers use the same stores; None: as the settings say. `audit_line`: where
    the audit log goes; None: to the broker's log.
    """
    is_verbose = config.logging.level == "debug"
    log_received = sampling.log_received if is_verbose else None
    metrics = BrokerMetrics(Registry(), log_received=log_received)
    tasks = Tasks()
    secret = token_secret(config)
    settings = derived.engine_settings(config, has_peers=has_peers, token_secret=secret)
    stores = instrument(settings.topics, store, metadata, metrics, clock)
    await require_pair(stores.metadata, stores.objects, settings.namespace)
    parts = await build_engine(settings, stores, metrics, clock, dice, tasks, ConsumerProtocol())
    identity = parts.cluster.identity
    engine = Engine(
        parts,
        auto_create=config.topics.auto_create,
        broker_configs=kafka_names.broker_configs(config, identity.broker_id),
        store_name=kafka_names.store_name(config),
    )
    if authorizer is None:
        authorizer = parts.acls.authorizer if parts.acls is not None else AllowAll()
    doors = build_doors(
        config,
        engine,
        tasks,
        clock,
        dice,
        lambda: parts.buffered.size,
        authorizer,
        build_authentication(config, engine, clock, dice),
        audit_line,
    )
    started_s = clock.now_ms() / 1000
    left = parts.compactions.left_to_pipeline
    sampling.sample_engine(parts, parts.topics.registry, parts.checkpoints.age_s, left)
    metrics.sample_broker(
        connections=doors.connections.__len__,
        cache_bytes=lambda: parts.reader.block_cache.used_bytes,
        tail_bytes=lambda: parts.tail.used_bytes,
        resident_bytes=process.resident_bytes,
        cpu_seconds=process.cpu_seconds,
        started_s=lambda: started_s,
        produce_rate=MeanRate(clock, lambda: metrics.requests.labels("Produce").value),
    )
    readiness = Readiness()
    readiness.add("store", store_check(parts.store_gate))
    readiness.add("metadata", metadata_check(parts.metadata))
    readiness.add("listeners", listeners_check(doors.why_not_ready))
    readiness.add("fleet", fleet_check(parts.cluster))

    async def before_clients() -> None:
        await prepare_credentials(config, engine.credentials, dice)
        if config.consumer.offsets_topic:
            tasks.spawn(OffsetsTopic(engine).run(), "offsets topic")

    return Broker(engine, doors, metrics, tasks, readiness, before_clients)
