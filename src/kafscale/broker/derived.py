"""From the configuration to the rules of each part.

Here: settings in, plain data out. Next door: the parts that get them (wiring.py).
"""

from kafscale.engine.coordinator.expiry import ExpiryRules
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.connections import ConnectionLimits
from kafscale.groups.states import GroupRules
from kafscale.log.writer.types import LogSettings
from kafscale.settings.config import Config


def log_settings(config: Config, topic: Topic | None) -> LogSettings:
    """How a topic's logs flush and how long they wait; None: logs that many topics share."""
    storage = config.storage
    own = topic.settings if topic is not None else storage
    return LogSettings(
        flush_bytes=storage.flush_bytes,
        flush_messages=storage.flush_messages,
        flush_interval_s=config.flush_interval_ms / 1000,
        largest_flush_bytes=max(4 * storage.flush_bytes, 16 << 20),
        segment_bytes=own.segment_bytes,
        index_interval_bytes=own.index_interval_bytes,
        rollup_objects=storage.rollup_objects,
        grace_s=config.grace_period_s,
    )


def group_rules(config: Config) -> GroupRules:
    """What groups may ask for."""
    consumer = config.consumer
    return GroupRules(
        shortest_session_s=consumer.min_session_timeout_ms / 1000,
        longest_session_s=consumer.max_session_timeout_ms / 1000,
        initial_delay_s=consumer.initial_rebalance_delay_ms / 1000,
        most_members=consumer.max_group_size,
    )


def expiry_rules(config: Config) -> ExpiryRules:
    """When committed offsets of unused groups expire."""
    consumer = config.consumer
    return ExpiryRules(
        retention_s=consumer.offsets_retention_minutes * 60,
        interval_s=consumer.offsets_retention_check_interval_ms / 1000,
    )


def connection_limits(config: Config) -> ConnectionLimits:
    """What one client may take from the others."""
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
