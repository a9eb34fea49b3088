"""The broker's configuration under the names that Kafka's tools look for.

Here: Kafka's names and the settings behind them. Next door: the settings (settings/sections.py).
Never here: code that uses a setting.
"""

from pathlib import Path

from kafscale import __version__
from kafscale.engine.coordinator.offsets import LARGEST_METADATA_BYTES
from kafscale.model.configs.broker_configs import (
    FEATURES,
    METRICS_ADDRESS,
    METRICS_PORT,
    METRICS_TLS,
    VERSION,
    BrokerConfig,
)
from kafscale.model.configs.topic_configs import ConfigType
from kafscale.settings.config import Config
from kafscale.settings.listeners import is_sasl, is_unspecified

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _LIST = ConfigType.LONG, ConfigType.LIST

_Row = tuple[str, ConfigType, object, str]


def store_name(config: Config) -> str:
    """Name the place of the objects for people."""
    if config.store_kind == "memory":
        return "memory"
    if config.store_kind == "s3":
        return f"{config.s3.url}/{config.storage.namespace}"
    return str((Path(config.broker.data_dir) / "objects").absolute())


def metrics_address(config: Config) -> str:
    """The URL of the page for operators, without a path; empty if its port is not known before."""
    broker = config.broker
    if not broker.metrics_port:
        return ""
    host = broker.host
    if is_unspecified(host):
        first = config.all_listeners[0]
        host = first.advertised_host or first.host
    scheme = "https" if config.tls.metrics else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{broker.metrics_port}"


def features(config: Config) -> list[str]:
    """What tools may show: parts of the platform that this broker has."""
    has_users = any(is_sasl(row.protocol) for row in config.all_listeners)
    having = {
        "acls": config.authorization.enabled,
        "users": has_users,
        "quotas": True,
        "transactions": True,
        "pulsar": config.pulsar.enabled,
        "fluvio": config.fluvio.enabled,
    }
    return [name for name, is_there in having.items() if is_there]


def broker_configs(config: Config, broker_id: int) -> tuple[BrokerConfig, ...]:
    """List every setting that has a name in Kafka, and whether it has its default."""
    usual = {
        row[0]: row[2]
        for row in _rows(Config(use_memory_s3=config.use_memory_s3, s3=config.s3), -1)
    }
    return tuple(
        BrokerConfig(name, kind, _text(value), value == usual[name], doc)
        for name, kind, value, doc in sorted(_rows(config, broker_id))
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(config: Config, broker_id: int) -> list[_Row]:
    return [
        *_of_topics(config),
        *_of_groups(config),
        *_of_network(config),
        *_of_storage(config, broker_id),
        *_of_access(config),
    ]


def _of_access(config: Config) -> list[_Row]:
    authorization, sasl = config.authorization, config.sasl
    return [
        (
            "connections.max.reauth.ms",
            _LONG,
            int((sasl.session_lifetime or 0) * 1000),
            "sasl.sessionLifetime",
        ),
        (
            "allow.everyone.if.no.acl.found",
            _BOOLEAN,
            authorization.allow_everyone_if_no_acl_found,
            "authorization.allowEveryoneIfNoAclFound",
        ),
        (
            "super.users",
            _STRING,
            ";".join(map(str, authorization.super_users)),
            "authorization.superUsers",
        ),
    ]


def _of_topics(config: Config) -> list[_Row]:
    topics, storage = config.topics, config.storage
    return [
        ("auto.create.topics.enable", _BOOLEAN, topics.auto_create, "topics.autoCreate"),
        ("compression.type", _STRING, config.compression.type, "compression.type"),
        ("default.replication.factor", _INT, 1, "Fixed: the bucket replicates."),
        ("delete.topic.enable", _BOOLEAN, True, "Fixed: topics can be deleted."),
        ("kafscale.acks1", _STRING, storage.acks1, "storage.acks1"),
        (
            "kafscale.deduplication",
            _BOOLEAN,
            config.pulsar.deduplication,
            "pulsar.deduplication",
        ),
        ("log.cleanup.policy", _LIST, "delete", "Fixed: topics may have another."),
        (
            "log.message.format.version",
            _STRING,
            str(topics.message_format_version),
            "topics.messageFormatVersion",
        ),
        ("log.retention.bytes", _LONG, int(topics.retention_bytes), "topics.retentionBytes"),
        ("log.retention.ms", _LONG, topics.retention_ms, "topics.retentionMs"),
        ("message.max.bytes", _INT, int(topics.max_message_bytes), "topics.maxMessageBytes"),
        ("min.insync.replicas", _INT, 1, "Fixed: the bucket replicates."),
        ("num.partitions", _INT, topics.default_partitions, "topics.defaultPartitions"),
        ("unclean.leader.election.enable", _BOOLEAN, False, "Fixed: there are no replicas."),
    ]


def _of_groups(config: Config) -> list[_Row]:
    consumer = config.consumer
    return [
        (
            "group.initial.rebalance.delay.ms",
            _INT,
            consumer.initial_rebalance_delay_ms,
            "consumer.initialRebalanceDelayMs",
        ),
        (
            "group.max.session.timeout.ms",
            _INT,
            consumer.max_session_timeout_ms,
            "consumer.maxSessionTimeoutMs",
        ),
        ("group.max.size", _INT, consumer.max_group_size, "consumer.maxGroupSize"),
        (
            "group.min.session.timeout.ms",
            _INT,
            consumer.min_session_timeout_ms,
            "consumer.minSessionTimeoutMs",
        ),
        ("offset.metadata.max.bytes", _INT, LARGEST_METADATA_BYTES, "Fixed."),
        (
            "offsets.retention.check.interval.ms",
            _LONG,
            consumer.offsets_retention_check_interval_ms,
            "consumer.offsetsRetentionCheckIntervalMs",
        ),
        (
            "offsets.retention.minutes",
            _INT,
            consumer.offsets_retention_minutes,
            "consumer.offsetsRetentionMinutes",
        ),
    ]


def _of_network(config: Config) -> list[_Row]:
    network = config.network
    idle_ms = int(network.idle_timeout * 1000)
    return [
        ("connections.max.idle.ms", _LONG, idle_ms, "network.idleTimeout"),
        ("max.connections", _INT, network.max_connections, "network.maxConnections"),
        (
            "max.connections.per.ip",
            _INT,
            network.max_connections_per_ip or 2**31 - 1,
            "network.maxConnectionsPerIp",
        ),
        (
            "socket.request.max.bytes",
            _INT,
            int(network.max_request_size),
            "network.maxRequestSize",
        ),
    ]


def _of_storage(config: Config, broker_id: int) -> list[_Row]:
    storage = config.storage
    index_bytes = int(storage.index_interval_bytes)
    return [
        ("broker.id", _INT, broker_id, "broker.id"),
        (
            METRICS_PORT,
            _INT,
            config.broker.metrics_port,
            "broker.metricsPort",
        ),
        (METRICS_TLS, _BOOLEAN, config.tls.metrics, "tls.metrics"),
        (METRICS_ADDRESS, _STRING, metrics_address(config), "Where metrics and health are."),
        (VERSION, _STRING, __version__, "The broker's version."),
        (FEATURES, _LIST, ",".join(features(config)), "What this broker has."),
        ("quota.window.num", _INT, config.quota.window_num, "quota.windowNum"),
        (
            "quota.window.size.seconds",
            _INT,
            config.quota.window_size_seconds,
            "quota.windowSizeSeconds",
        ),
        ("log.dirs", _LIST, store_name(config), "Where the objects are."),
        (
            "log.flush.interval.messages",
            _LONG,
            storage.flush_messages or 2**63 - 1,
            "storage.flushMessages",
        ),
        ("log.flush.interval.ms", _LONG, config.flush_interval_ms, "storage.flushIntervalMs"),
        ("log.index.interval.bytes", _INT, index_bytes, "storage.indexIntervalBytes"),
        ("log.segment.bytes", _INT, int(storage.segment_bytes), "storage.segmentBytes"),
        ("node.id", _INT, broker_id, "broker.id"),
    ]
