"""The topic settings that exist: every one that Apache Kafka knows or once knew, and our own.

Here: name, type, default, legal values, and whether it changes anything here.
Next door: checking and reading them (model/topics.py).

Settings about local disks and replication have no meaning on a bucket. They are accepted, shown
and inert, so that tools which set them go on working; `honoured` says which is which.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final


class ConfigType(Enum):
    """Types by the number the Kafka protocol gives them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One setting."""

    name: str
    type: ConfigType
    default: str
    expected: str  # in words, after "expected"
    is_legal: Callable[[str], bool]
    honoured: bool
    doc: str


INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
LONGEST_SCHEMA: Final = 256 << 10
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_RELEASE: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.[0-9]+){0,2}(?:-IV[0-9]+)?")
_REPLICAS: Final = re.compile(r"\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*")


def _text(
    name: str, default: str, doc: str, *, one_of: tuple[str, ...], honoured: bool = False
) -> TopicConfig:
    expected = "one of " + ", ".join(one_of)
    return TopicConfig(
        name, ConfigType.STRING, default, expected, one_of.__contains__, honoured, doc
    )


def _free(name: str, doc: str, expected: str, is_legal: Callable[[str], bool]) -> TopicConfig:
    """Text that may be empty."""

    def is_empty_or_legal(value: str) -> bool:
        return not value.strip() or is_legal(value)

    return TopicConfig(name, ConfigType.STRING, "", expected, is_empty_or_legal, True, doc)


def _flag(name: str, doc: str, *, default: str = "false", honoured: bool = False) -> TopicConfig:
    words = ("true", "false")

    def is_legal(value: str) -> bool:
        return value.strip().lower() in words

    return TopicConfig(name, ConfigType.BOOLEAN, default, "true or false", is_legal, honoured, doc)


def _int(
    name: str, default: int, doc: str, *, low: int, high: int = INT_MAX, honoured: bool = False
) -> TopicConfig:
    return _whole(ConfigType.INT, name, default, doc, low, high, honoured)


def _long(
    name: str, default: int, doc: str, *, low: int, high: int = LONG_MAX, honoured: bool = False
) -> TopicConfig:
    return _whole(ConfigType.LONG, name, default, doc, low, high, honoured)


def _whole(
    kind: ConfigType, name: str, default: int, doc: str, low: int, high: int, honoured: bool
) -> TopicConfig:
    def is_legal(value: str) -> bool:
        return bool(_INTEGER.fullmatch(value.strip())) and low <= int(value) <= high

    expected = f"an integer from {low} to {high}"
    return TopicConfig(name, kind, str(default), expected, is_legal, honoured, doc)


def _list(
    name: str, default: str, expected: str, is_legal: Callable[[str], bool], doc: str
) -> TopicConfig:
    honoured = name == "cleanup.policy"
    return TopicConfig(name, ConfigType.LIST, default, expected, is_legal, honoured, doc)


def _is_policy(value: str) -> bool:
    if not value.strip():
        return True  # nothing goes
    parts = [part.strip() for part in value.split(",")]
    return len(set(parts)) == len(parts) and set(parts) <= {"delete", "compact"}


def _is_replicas(value: str) -> bool:
    return not value or _REPLICAS.fullmatch(value) is not None


def _is_location(value: str) -> bool:
    """A folder: s3://bucket/path, file:///path or an absolute path; {topic} in it is replaced."""
    text = value.strip()
    if len(text) > 1024 or not text.isprintable() or any(sign in text for sign in "?#@ "):
        return False
    is_bucket = re.fullmatch(r"s3://[^/]+/.*[^/].*", text) is not None
    path = text.removeprefix("file://")
    return is_bucket or (path.startswith("/") and path.strip("/") != "" and ".." not in path)


def _is_address(value: str) -> bool:
    text = value.strip()
    return len(text) <= 1024 and re.fullmatch(r"https?://[^\s@?#]+", text) is not None


def _is_word(value: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9._/-]{1,249}", value.strip()) is not None


def _is_schema(value: str) -> bool:
    return len(value) <= LONGEST_SCHEMA


def _is_log_count(value: str) -> bool:
    text = value.strip()
    return text == "-1" or (bool(_INTEGER.fullmatch(text)) and 1 <= int(text) <= INT_MAX)


def _is_ratio(value: str) -> bool:
    return re.fullmatch(r"0(\.[0-9]+)?|1(\.0+)?|\.[0-9]+", value.strip()) is not None


def magic_of(format_version: str) -> int | None:
    """The newest message format a `message.format.version` allows; None if it is no version.

    Releases before 0.10 know format 0, 0.10 knows 1, everything since 0.11 knows 2. The number
    of the format itself is understood as well.
    """
    if format_version in {"0", "1", "2"}:
        return int(format_version)
    release = _RELEASE.fullmatch(format_version)
    if release is None:
        return None
    number = (int(release[1]), int(release[2]))
    if number < (0, 8):
        return None
    return 0 if number < (0, 10) else 1 if number < (0, 11) else 2


FIXED_AT_CREATION: Final = ("offset.range",)
# How the bytes of a value are read; the pipeline's own list is the same one.
VALUE_FORMATS: Final = ("binary", "string", "json", "avro", "protobuf")
VALUE_FRAMINGS: Final = ("none", "confluent")
# What a topic is made of: changing it moves every record.
WHERE_IT_LIES: Final = ("physical.partitions", "storage.placement")

_REPLICA_LIST: Final = "nothing, * or partition:broker pairs such as 0:1,1:2"

TOPIC_CONFIGS: Final[dict[str, TopicConfig]] = {
    config.name: config
    for config in (
        # What we honour.
        _list("cleanup.policy", "delete", "delete, compact, both or nothing", _is_policy,
              "delete: old records go; compact: the newest record of each key stays."),
        _text("compression.type", "producer",
              "producer: batches are kept as they came; else they are stored in this codec.",
              one_of=("producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd"),
              honoured=True),
        _long("delete.retention.ms", 86400000,
              "How long key compaction keeps tombstones.", low=0, honoured=True),
        _int("index.interval.bytes", 4096, "Bytes between two entries of a segment's index.",
             low=0, honoured=True),
        _text("kafscale.acks1", "durable",
              "What acks=1 waits for: the object, or the broker's memory.",
              one_of=("durable", "buffered"), honoured=True),
        _flag("kafscale.deduplication",
              "Store no message of a Pulsar producer whose sequence id is not above its last one.",
              honoured=True),
        _flag("kafscale.fetch.buffered",
              "Let consumers see records before they are committed.", honoured=True),
        _long("max.compaction.lag.ms", LONG_MAX,
              "Age of a record from which key compaction is due in any case.",
              low=1, honoured=True),
        _int("max.message.bytes", 1048588, "Largest batch, as it arrives.", low=0, honoured=True),
        _flag("message.downconversion.enable",
              "Whether consumers that read only older formats are converted for.",
              default="true", honoured=True),
        TopicConfig("message.format.version", ConfigType.STRING, "3.0-IV1",
                    "a release such as 0.10.2, or a format: 0, 1, 2",
                    lambda value: magic_of(value) is not None, True,
                    "Newest format that consumers are handed; the log always holds format 2."),
        _long("message.timestamp.after.max.ms", 3600000,
              "How far ahead of the broker's clock a record may be.", low=0, honoured=True),
        _long("message.timestamp.before.max.ms", LONG_MAX,
              "How far behind the broker's clock a record may be.", low=0, honoured=True),
        _text("message.timestamp.type", "CreateTime",
              "Whose clock stamps records: the producer's or the broker's.",
              one_of=("CreateTime", "LogAppendTime"), honoured=True),
        TopicConfig("min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5", "a number from 0 to 1",
                    _is_ratio, True, "Share of new bytes from which key compaction is due."),
        _long("min.compaction.lag.ms", 0,
              "Age below which key compaction leaves a record alone.", low=0, honoured=True),
        _long("offset.range", 1 << 40, "How many offsets a partition has; set at creation only.",
              low=1 << 20, high=1 << 40, honoured=True),
        TopicConfig("physical.partitions", ConfigType.INT, "-1",
                    f"-1 or an integer from 1 to {INT_MAX}", _is_log_count, True,
                    "On how many logs the partitions lie, -1: one each; a change moves the topic."),
        _long("retention.bytes", -1, "Size of a partition beyond which old records go.",
              low=-1, honoured=True),
        _long("retention.ms", 604800000, "Age at which records go.", low=-1, honoured=True),
        _int("segment.bytes", 104857600, "Size that small objects are rolled up to.",
             low=14, honoured=True),
        _long("segment.ms", 604800000,
              "Age from which the newest records of a compacted topic are compacted as well.",
              low=1, honoured=True),
        _text("storage.placement", "dedicated",
              "dedicated: own logs; shared: lanes of many topics' logs; a change moves the topic.",
              one_of=("dedicated", "shared"), honoured=True),
        _flag("transactions.buffered",
              "Hold the records of a transaction in memory, and write them with its commit.",
              honoured=True),
        # What table the pipeline keeps of the topic.
        _text("table.format", "none", "The table that the pipeline keeps of this topic.",
              one_of=("none", "parquet", "delta", "iceberg"), honoured=True),
        _free("table.location", "Where the table lies; empty: in the bucket, below @tables.",
              "s3://bucket/path, file:///path or an absolute path", _is_location),
        _text("table.mode", "append",
              "append: a row per record; upsert: the newest row of each key.",
              one_of=("append", "upsert"), honoured=True),
        _text("table.value.format", "binary", "How values become columns.",
              one_of=VALUE_FORMATS, honoured=True),
        _free("table.value.schema",
              "json: 'id bigint, name string'; avro: the schema; protobuf: descriptors in base64.",
              f"at most {LONGEST_SCHEMA} characters", _is_schema),
        _free("table.value.message", "protobuf: which message.", "a name such as shop.Order",
              _is_word),
        _text("table.value.framing", "none",
              "confluent: values begin with the number of a schema, which is passed over.",
              one_of=VALUE_FRAMINGS, honoured=True),
        _free("table.schema.registry", "Where the schemas are that values name.",
              "http://host:port without credentials", _is_address),
        _free("table.value.subject", "Subject in the registry; empty: TOPIC-value.",
              "a name of letters, digits, dots, dashes and slashes", _is_word),
        _text("table.partition.by", "default",
              "Folders by event time; default: day, none where mode is upsert.",
              one_of=("default", "day", "hour", "none"), honoured=True),
        _long("table.freshness.ms", 60000, "How old a committed record may be that is no row yet.",
              low=1000, honoured=True),
        _int("table.priority", 0, "Which of several late tables is served first: the highest.",
             low=-100, high=100, honoured=True),
        _long("table.retention.ms", -1, "Age at which rows leave the table; -1: never.",
              low=-1, honoured=True),
        _long("table.snapshot.retention.ms", 604800000,
              "How long older versions of the table can be read.", low=3600000, honoured=True),
        _int("table.file.bytes", 134217728, "Size that small files of the table are joined to.",
             low=1 << 20, honoured=True),
        _flag("table.allow.gaps",
              "Go on where records expired before they became rows; else that is an error.",
              honoured=True),
        _free("table.group", "Tables of one group are brought to the same moment together.",
              "a name of letters, digits, dots, dashes and slashes", _is_word),
        # What Kafka knows and a bucket has no use for.
        _int("compression.gzip.level", -1, "Inert: codecs use their usual level.", low=-1, high=9),
        _int("compression.lz4.level", 9, "Inert: codecs use their usual level.", low=1, high=17),
        _int("compression.zstd.level", 3, "Inert: codecs use their usual level.",
             low=-131072, high=22),
        _long("file.delete.delay.ms", 60000, "Inert: see the broker's grace period.", low=0),
        _long("flush.messages", LONG_MAX, "Inert: see the broker's flush settings.", low=1),
        _long("flush.ms", LONG_MAX, "Inert: see the broker's flush settings.", low=0),
        _list("follower.replication.throttled.replicas", "", _REPLICA_LIST, _is_replicas,
              "Inert: the bucket replicates."),
        _list("leader.replication.throttled.replicas", "", _REPLICA_LIST, _is_replicas,
              "Inert: the bucket replicates."),
        _long("local.retention.bytes", -2, "Inert: there is no local tier.", low=-2),
        _long("local.retention.ms", -2, "Inert: there is no local tier.", low=-2),
        _long("message.timestamp.difference.max.ms", LONG_MAX,
              "Inert: see message.timestamp.before.max.ms and message.timestamp.after.max.ms.",
              low=0),
        _int("min.insync.replicas", 1, "Inert: the bucket replicates.", low=1),
        _flag("preallocate", "Inert: objects are written whole."),
        _flag("remote.log.copy.disable", "Inert: every record is in the bucket."),
        _flag("remote.log.delete.on.disable", "Inert: every record is in the bucket."),
        _flag("remote.storage.enable", "Inert: every record is in the bucket."),
        _int("segment.index.bytes", 10485760, "Inert: indexes are as large as they need be.",
             low=4),
        _long("segment.jitter.ms", 0, "Inert: segments do not roll by time.", low=0),
        _flag("unclean.leader.election.enable", "Inert: there are no replicas to elect."),
    )
}  # fmt: skip
