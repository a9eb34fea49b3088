"""What a topic is: its descriptor in the bucket and its settings, read and typed.

Here: plain frozen data, its JSON, and the check of settings.
Next door: the table of settings (configs/topic_configs.py), names and ids (names.py).
Never here: creating or finding topics (engine).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from kafscale.model.configs.table_settings import TableSettings, check_table
from kafscale.model.configs.topic_configs import TOPIC_CONFIGS, TopicConfig, magic_of
from kafscale.model.errors import CorruptObject, InvalidTopicConfig


def iso_time(unix_ms: int) -> str:
    """Write a time the way descriptors and metadata hold it: UTC, to the millisecond."""
    stamp = datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")


Layout = Literal["ordinary", "virtual", "shared"]


class LaneRange(msgspec.Struct, array_like=True, frozen=True):
    """Neighbouring partitions of a topic that are lanes of shared logs.

    Slot s of these logs is lane `s // logs` of log `s % logs`; no slot is ever given out twice.
    """

    folder: str  # below which the shared logs lie
    first: int  # the slot of the range's first partition
    count: int
    logs: int


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Where a topic is moving: the fields of its descriptor once it has arrived."""

    move_id: str  # 16 hex digits, fresh
    layout: Layout
    folder: str
    logs: int
    shared: list[LaneRange] = []
    sealing: bool = False  # the last step: the old logs take no more records
    then: tuple[Layout, int] | None = None  # layout and own logs to move to after this move


class TopicDescriptor(msgspec.Struct, frozen=True, kw_only=True):
    """What the bucket says about a topic: a reader needs nothing but the bucket.

    A reader ignores unknown fields: a newer version may have written them.
    """

    name: str
    topic_id: str  # 32 hex digits
    incarnation: int  # 1 for the first topic of this name, rising
    folder: str  # prefix of its own logs, without a slash at the end
    partitions: int
    logs: int  # of its own: none if it shares logs with others
    layout: Layout = "ordinary"  # one log per partition, fewer logs, or lanes of shared ones
    shared: list[LaneRange] = []  # where the partitions lie that share logs, in their order
    configs: dict[str, str] = {}
    created_at: str  # ISO 8601, UTC
    deleted: bool = False
    origin: str = ""  # the job that made it, for that job to recognise when it runs again
    moving: Move | None = None
    moves: int = 0  # how often it has moved

    def after_move(self) -> "TopicDescriptor":
        """The descriptor after the move; unchanged if the topic does not move."""
        if self.moving is None:
            return self
        return msgspec.structs.replace(
            self,
            layout=self.moving.layout,
            folder=self.moving.folder,
            logs=self.moving.logs,
            shared=self.moving.shared,
            moving=None,
            moves=self.moves + 1,
        )

    @property
    def table(self) -> TableSettings | None:
        """The table that the topic declares."""
        return TableSettings.of(self.name, self.configs)

    def encode(self) -> bytes:
        """Write JSON that people can read too."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    @staticmethod
    def decode(raw: bytes | memoryview) -> "TopicDescriptor":
        """Read what `encode` wrote, or raise CorruptObject."""
        try:
            return _DECODER.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as bad:
            raise CorruptObject(f"not a topic descriptor: {bad}") from bad


_DECODER: Final = msgspec.json.Decoder(TopicDescriptor)


class TopicDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's values for settings that a topic does not set."""

    retention_ms: int = 604800000
    retention_bytes: int = -1
    segment_bytes: int = 104857600
    max_message_bytes: int = 1048588
    index_interval_bytes: int = 4096
    compression_type: str = "producer"
    acks1: str = "durable"
    deduplication: bool = False
    message_format_version: str = TOPIC_CONFIGS["message.format.version"].default
    placement: str = "dedicated"

    def configs(self) -> dict[str, str]:
        """Give the value of every setting of a topic that has none of its own."""
        return {name: config.default for name, config in TOPIC_CONFIGS.items()} | {
            "retention.ms": str(self.retention_ms),
            "retention.bytes": str(self.retention_bytes),
            "segment.bytes": str(self.segment_bytes),
            "max.message.bytes": str(self.max_message_bytes),
            "index.interval.bytes": str(self.index_interval_bytes),
            "compression.type": self.compression_type,
            "kafscale.acks1": self.acks1,
            "kafscale.deduplication": str(self.deduplication).lower(),
            "message.format.version": self.message_format_version,
        }


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that have an effect, parsed."""

    retention_ms: int  # -1: forever
    retention_bytes: int  # -1: no limit
    segment_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    compression: str | None  # None: as the producer sent it; "none", "gzip", "snappy", ...
    compacted: bool  # the newest record of each key stays
    min_cleanable_dirty_ratio: float  # this and the next four: when key compaction is due
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int  # how long tombstones are kept
    segment_ms: int  # age at which the tail of a compacted topic is rolled up
    deletes: bool  # retention applies
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    offset_range: int  # how many offsets a partition has
    max_magic: int  # newest message format handed to consumers
    down_conversion: bool  # whether they are handed older ones than is stored
    deduplication: bool  # by the sequence ids of producers that are known by name
    fetch_buffered: bool
    acks1_buffered: bool
    transactions_buffered: bool

    @staticmethod
    def of(configs: Mapping[str, str], defaults: TopicDefaults) -> "TopicSettings":
        """Read checked settings; the broker's values fill the gaps."""
        value = defaults.configs() | {name: raw.strip() for name, raw in configs.items()}
        policy = {part.strip() for part in value["cleanup.policy"].split(",")}
        codec = value["compression.type"]
        return TopicSettings(
            retention_ms=int(value["retention.ms"]),
            retention_bytes=int(value["retention.bytes"]),
            segment_bytes=int(value["segment.bytes"]),
            index_interval_bytes=int(value["index.interval.bytes"]),
            max_message_bytes=int(value["max.message.bytes"]),
            compression={"producer": None, "uncompressed": "none"}.get(codec, codec),
            compacted="compact" in policy,
            min_cleanable_dirty_ratio=float(value["min.cleanable.dirty.ratio"]),
            min_compaction_lag_ms=int(value["min.compaction.lag.ms"]),
            max_compaction_lag_ms=int(value["max.compaction.lag.ms"]),
            delete_retention_ms=int(value["delete.retention.ms"]),
            segment_ms=int(value["segment.ms"]),
            deletes="delete" in policy,
            log_append_time=value["message.timestamp.type"] == "LogAppendTime",
            timestamp_before_max_ms=int(value["message.timestamp.before.max.ms"]),
            timestamp_after_max_ms=int(value["message.timestamp.after.max.ms"]),
            offset_range=int(value["offset.range"]),
            max_magic=magic_of(value["message.format.version"]) or 0,
            down_conversion=value["message.downconversion.enable"].lower() == "true",
            deduplication=value["kafscale.deduplication"].lower() == "true",
            fetch_buffered=value["kafscale.fetch.buffered"].lower() == "true",
            acks1_buffered=value["kafscale.acks1"] == "buffered",
            transactions_buffered=value["transactions.buffered"].lower() == "true",
        )


def validate_configs(configs: Mapping[str, str | None]) -> None:
    """Raise InvalidTopicConfig at the first unknown setting or illegal value.

    `configs` are all settings of a topic: some of them can contradict each other.
    """
    for name, value in configs.items():
        config = TOPIC_CONFIGS.get(name)
        if config is None:
            raise InvalidTopicConfig(f"{name}: no topic setting has this name")
        _check(config, value)
    check_table(configs)


def _check(config: TopicConfig, value: str | None) -> None:
    if value is None or not config.is_legal(value):
        found = "nothing" if value is None else repr(value)
        raise InvalidTopicConfig(f"{config.name}: expected {config.expected}, found {found}")
