"""From the configuration to the settings of each part.

Here: configuration in, frozen dataclasses out. Next door: who gets them (wiring.py).
"""

from kafscale.access.quota_rates import QuotaWindows
from kafscale.engine.access.acls import AclRules
from kafscale.engine.build import CacheSizes, EngineSettings
from kafscale.engine.coordinator.expiry import ExpiryRules
from kafscale.engine.topics.rules import TopicRules
from kafscale.engine.transactions.coordinator import TransactionLimits
from kafscale.engine.upkeep.build import UpkeepRules
from kafscale.gateways.connections import ConnectionLimits
from kafscale.groups.rules import GroupRules
from kafscale.log.upkeep.cleanable import CompactionLimits
from kafscale.log.writer.types import LogSettings
from kafscale.settings.config import Config


def engine_settings(
    config: Config, *, has_peers: bool | None, token_secret: bytes | None = None
) -> EngineSettings:
    """Everything that the engine goes by. `has_peers`: None means as the configuration says."""
    cache, storage, logs = config.cache, config.storage, log_settings(config)
    return EngineSettings(
        broker_id=config.broker.id,
        broker_name=config.broker_name,
        has_peers=bool(config.etcd.endpoints) if has_peers is None else has_peers,
        lease_s=config.etcd.lease_ttl,
        gather_s=config.etcd.gather_time,
        topics=topic_rules(config),
        logs=logs,
        caches=CacheSizes(
            tail_bytes=cache.tail_cache_size,
            segment_bytes=config.segment_cache_bytes,
            index_bytes=cache.index_cache_size,
            read_ahead_segments=cache.read_ahead_segments,
        ),
        groups=group_rules(config),
        expiry=expiry_rules(config),
        transactions=transaction_limits(config),
        validates_records=storage.validation == "records",
        upkeep=UpkeepRules(
            storage.housekeeping_interval,
            storage.checkpoint_interval,
            logs.grace_s,
            compaction_limits(config),
        ),
        logs_each_flush=bool(config.flush_interval_ms),
        token_secret=token_secret,
        acls=acl_rules(config),
        quota_windows=QuotaWindows(config.quota.window_num, config.quota.window_size_seconds),
    )


def acl_rules(config: Config) -> AclRules | None:
    """What counts beside access control lists; None: everyone may do everything."""
    rules = config.authorization
    if not rules.enabled:
        return None
    return AclRules(rules.super_users, allows_without_acl=rules.allow_everyone_if_no_acl_found)


def topic_rules(config: Config) -> TopicRules:
    """Limits, defaults and layouts of new topics."""
    return TopicRules(
        config.storage.namespace,
        config.topic_defaults,
        config.topics.default_partitions,
        config.topics.max_partitions,
        config.topics.max_virtual_partitions,
        config.layout_rules,
        config.storage.shared_logs,
        config.pulsar.auto_create_namespaces,
    )


def log_settings(config: Config) -> LogSettings:
    """How logs flush and how long they wait; segment sizes are those of shared logs."""
    storage = config.storage
    return LogSettings(
        flush_bytes=storage.flush_bytes,
        flush_messages=storage.flush_messages,
        flush_interval_s=config.flush_interval_ms / 1000,
        largest_flush_bytes=max(4 * storage.flush_bytes, 16 << 20),
        segment_bytes=storage.segment_bytes,
        index_interval_bytes=storage.index_interval_bytes,
        rollup_objects=storage.rollup_objects,
        grace_s=config.grace_period_s,
    )


def compaction_limits(config: Config) -> CompactionLimits:
    """What a broker spends on compacting logs by key."""
    limits = config.storage.compaction
    return CompactionLimits(limits.max_bytes, limits.memory_bytes, limits.cpu_share)


def group_rules(config: Config) -> GroupRules:
    """What groups may ask for."""
    consumer = config.consumer
    return GroupRules(
        shortest_session_s=consumer.min_session_timeout_ms / 1000,
        longest_session_s=consumer.max_session_timeout_ms / 1000,
        initial_delay_s=consumer.initial_rebalance_delay_ms / 1000,
        most_members=consumer.max_group_size,
        most_bytes_in_all=consumer.max_member_bytes,
        consumer_session_s=consumer.session_timeout_ms / 1000,
        consumer_heartbeat_s=consumer.heartbeat_interval_ms / 1000,
    )


def transaction_limits(config: Config) -> TransactionLimits:
    """How long transactions and their ids live."""
    section = config.transactions
    return TransactionLimits(
        longest_timeout_ms=section.max_timeout_ms,
        id_expiration_ms=section.id_expiration_ms,
        look_interval_s=section.look_interval_ms / 1000,
    )


def expiry_rules(config: Config) -> ExpiryRules:
    """When committed offsets of unused groups expire."""
    consumer = config.consumer
    return ExpiryRules(
        retention_s=consumer.offsets_retention_minutes * 60,
        interval_s=consumer.offsets_retention_check_interval_ms / 1000,
    )


def connection_limits(config: Config) -> ConnectionLimits:
    """How much one client may use."""
    network = config.network
    return ConnectionLimits(
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
