"""The options of the source, read and checked.

Here: names and defaults of Spark's Kafka source where the meaning is the same, and our own.
Unknown options are refused by name; `kafka.*` is ignored, because no broker is asked.
Never here: looking at the bucket.
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from kafscale.model.errors import KafscaleError
from kafscale.spark.source.plan.splits import SPLIT_BYTES

EARLIEST: Final = -2
LATEST: Final = -1

PartitionNumbers = dict[str, dict[int, int]]


class BadOption(KafscaleError):
    """An unknown option, or a value it cannot have."""


@dataclass(frozen=True)
class OffsetRule:
    """Where to begin or to end: an end of the log, offsets, one time, or times by partition."""

    kind: Literal["earliest", "latest", "offsets", "timestamp", "timestamps"]
    numbers: PartitionNumbers = field(default_factory=dict)
    timestamp_ms: int = 0

    def option(self, side: str) -> str:
        """The name of the option that said so."""
        names = {"timestamp": "Timestamp", "timestamps": "OffsetsByTimestamp"}
        return side + names.get(self.kind, "Offsets")


@dataclass(frozen=True)
class Shape:
    """What decides the columns: all that must be known before a query is more than a schema."""

    table: Literal["records", "batches", "segments"] = "records"
    include_headers: bool = False
    value_format: Literal["binary", "string", "json", "avro", "protobuf"] = "binary"
    value_schema: str = ""
    value_schema_file: str = ""
    value_message: str = ""
    value_framing: Literal["none", "confluent"] = "none"
    schema_registry: str = ""
    subject: str = ""
    bad_records: Literal["fail", "null", "column"] = "fail"


@dataclass(frozen=True)
class Options:
    """Everything a query may ask for."""

    store: str
    subscribe: tuple[str, ...] = ()
    pattern: str = ""
    assign: dict[str, tuple[int, ...]] = field(default_factory=dict)
    starting: OffsetRule = OffsetRule("earliest")
    ending: OffsetRule = OffsetRule("latest")
    no_match_is_latest: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int = 0
    max_records_per_partition: int = 0
    max_offsets_per_trigger: int = 0
    min_offsets_per_trigger: int = 0
    max_trigger_delay_ms: int = 15 * 60 * 1000
    as_of: str = ""
    split_bytes: int = SPLIT_BYTES
    verify_crc: bool = True
    use_table: bool = False  # read what is in the topic's own table from there
    committed: bool = True  # False: records of open and aborted transactions, too
    shape: Shape = Shape()


_OURS: Final = [
    "store",
    "path",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "table",
    "asOf",
    "useTable",
    "splitBytes",
    "verifyCrc",
    "isolation",
    "valueFormat",
    "valueSchema",
    "valueSchemaFile",
    "valueMessage",
    "valueFraming",
    "valueSubject",
    "schemaRegistry",
    "badRecords",
    "mode",
]
_KNOWN: Final = {name.lower(): name for name in _OURS}

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def read_options(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Check all options at once, before anything is read."""
    checked = _Given(given)
    if streaming and (ends := [name for name in _ENDS if checked.text(name)]):
        raise BadOption(f"{ends[0]}: a stream has no end")
    options = Options(
        store=checked.text("store") or checked.text("path"),
        subscribe=checked.topics(),
        pattern=checked.text("subscribePattern"),
        assign=_assignment(checked),
        starting=_rule(checked, "starting", "latest" if streaming else "earliest"),
        ending=_rule(checked, "ending", "latest"),
        no_match_is_latest=checked.choice("startingOffsetsByTimestampStrategy", "error", "latest")
        == "latest",
        fail_on_data_loss=checked.flag("failOnDataLoss", True),
        min_partitions=checked.number("minPartitions"),
        max_records_per_partition=checked.number("maxRecordsPerPartition"),
        max_offsets_per_trigger=checked.number("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=checked.number("minOffsetsPerTrigger"),
        max_trigger_delay_ms=_duration(checked.text("maxTriggerDelay") or "15m"),
        as_of=checked.text("asOf"),
        split_bytes=checked.number("splitBytes") or SPLIT_BYTES,
        use_table=checked.flag("useTable", False),
        verify_crc=checked.flag("verifyCrc", True),
        committed=checked.choice("isolation", "read_committed", "read_uncommitted")
        == "read_committed",
        shape=read_shape(given),
    )
    _check(options, streaming)
    return options


def read_shape(given: Mapping[str, str]) -> Shape:
    """Check the options that decide the columns."""
    checked = _Given(given)
    shape = Shape(
        table=checked.choice("table", "records", "batches", "segments"),  # type: ignore[arg-type]
        include_headers=checked.flag("includeHeaders", False),
        value_format=checked.choice(  # type: ignore[arg-type]
            "valueFormat", "binary", "string", "json", "avro", "protobuf"
        ),
        value_schema=checked.text("valueSchema"),
        value_schema_file=checked.text("valueSchemaFile"),
        value_message=checked.text("valueMessage"),
        value_framing=checked.choice("valueFraming", "none", "confluent"),  # type: ignore[arg-type]
        schema_registry=checked.text("schemaRegistry").rstrip("/"),
        subject=checked.text("valueSubject") or f"{checked.first_topic()}-value",
        bad_records=_bad_records(checked),
    )
    kind = shape.value_format
    inline, file, registry = shape.value_schema, shape.value_schema_file, shape.schema_registry
    if kind == "json" and not inline:
        raise BadOption('valueSchema: JSON needs one, such as "id bigint, name string"')
    if kind == "avro" and not (inline or file or registry):
        raise BadOption("Avro needs valueSchema, valueSchemaFile or schemaRegistry")
    if kind == "protobuf" and not (file or registry):
        raise BadOption(
            "Protobuf needs valueSchemaFile (protoc --descriptor_set_out) or schemaRegistry"
        )
    return shape


def _bad_records(checked: "_Given") -> Literal["fail", "null", "column"]:
    """Ours, or the same in the words of Spark's own readers of JSON."""
    if checked.text("mode") and checked.text("badRecords"):
        raise BadOption("mode: says the same as badRecords; give one of them")
    if checked.text("mode"):
        mode = checked.choice("mode", "PERMISSIVE", "FAILFAST")
        return "null" if mode == "PERMISSIVE" else "fail"
    return checked.choice("badRecords", "fail", "null", "column")  # type: ignore[return-value]


_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


def _check(options: Options, streaming: bool) -> None:
    if not options.store:
        raise BadOption("store: which bucket? for example s3://bucket or file:///folder")
    ways = [bool(options.subscribe), bool(options.pattern), bool(options.assign)]
    if sum(ways) != 1:
        raise BadOption("give one of subscribe, subscribePattern, assign")
    if options.pattern:
        try:
            re.compile(options.pattern)
        except re.error as bad:
            raise BadOption(f"subscribePattern: {bad}") from bad
    if not streaming:
        _refuse_end(options.starting, "startingOffsets", "latest", LATEST)
        _refuse_end(options.ending, "endingOffsets", "earliest", EARLIEST)
    elif options.as_of:
        raise BadOption("asOf: a stream follows the log, a snapshot stands still")
    elif options.use_table:
        raise BadOption("useTable: a stream reads the log")
    elif options.shape.table != "records":
        raise BadOption(f"table: {options.shape.table} cannot be streamed")


def _refuse_end(rule: OffsetRule, name: str, word: str, number: int) -> None:
    used = [n for rows in rule.numbers.values() for n in rows.values()]
    if rule.kind == word or (rule.kind == "offsets" and number in used):
        raise BadOption(f"{name}: {word} ({number}) makes no sense in a batch query")


def _rule(checked: "_Given", side: str, default: str) -> OffsetRule:
    """The most specific of the three ways counts, as in Spark's Kafka source."""
    if text := checked.text(f"{side}Timestamp"):
        return OffsetRule("timestamp", timestamp_ms=_integer(f"{side}Timestamp", text))
    if text := checked.text(f"{side}OffsetsByTimestamp"):
        return OffsetRule("timestamps", _numbers(f"{side}OffsetsByTimestamp", text))
    text = checked.text(f"{side}Offsets") or default
    if text.lower() in ("earliest", "latest"):
        return OffsetRule(text.lower())  # type: ignore[arg-type]
    return OffsetRule("offsets", _numbers(f"{side}Offsets", text))


def _numbers(name: str, text: str) -> PartitionNumbers:
    """Read `{"topic": {"0": 23}}`."""
    try:
        rows = json.loads(text)
        return {
            str(topic): {int(partition): _whole(number) for partition, number in row.items()}
            for topic, row in rows.items()
        }
    except (ValueError, AttributeError, TypeError) as bad:
        raise BadOption(f'{name}: expected {{"topic": {{"0": 23}}}}, found {text!r}') from bad


def _whole(number: object) -> int:
    """A number as JSON writes it, or in quotes; half an offset is none."""
    if isinstance(number, bool | float):
        raise ValueError(number)
    whole = int(str(number))
    if whole < EARLIEST:
        raise ValueError(number)
    return whole


def _assignment(checked: "_Given") -> dict[str, tuple[int, ...]]:
    text = checked.text("assign")
    if not text:
        return {}
    try:
        rows = json.loads(text)
        return {str(topic): tuple(map(_whole, row)) for topic, row in rows.items()}
    except (ValueError, AttributeError, TypeError) as bad:
        raise BadOption(f'assign: expected {{"topic": [0, 1]}}, found {text!r}') from bad


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadOption(f"{name}: expected a number, found {text!r}") from None


def _duration(text: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if not match or (match[2] or "ms") not in _UNITS_MS:
        raise BadOption(f"maxTriggerDelay: expected a time like 15m or 30s, found {text!r}")
    return int(match[1]) * _UNITS_MS[match[2] or "ms"]


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), _KNOWN, 1)
    return f" (do you mean {_KNOWN[close[0]]}?)" if close else ""


class _Given:
    """Options by name, in whatever case they were written."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._texts = {name.lower(): str(value) for name, value in given.items()}
        for name in given:
            if name.lower() not in _KNOWN and not name.lower().startswith("kafka."):
                raise BadOption(f"{name}: no option of this source has this name{_meant(name)}")

    def text(self, name: str) -> str:
        return self._texts.get(name.lower(), "").strip()

    def first_topic(self) -> str:
        """The topic whose schemas a registry is asked for, if the query names any."""
        return next(iter(self.topics() or _assignment(self)), "")

    def topics(self) -> tuple[str, ...]:
        """The names in `subscribe`, however many blanks and commas are between them."""
        return tuple(name for name in map(str.strip, self.text("subscribe").split(",")) if name)

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name).lower()
        if text in ("", "true", "false"):
            return text == "true" if text else default
        raise BadOption(f"{name}: expected true or false, found {text!r}")

    def number(self, name: str) -> int:
        text = self.text(name)
        number = _integer(name, text) if text else 0
        if text and number < 1:
            raise BadOption(f"{name}: expected a number above 0, found {text!r}")
        return number

    def choice(self, name: str, *choices: str) -> str:
        text = self.text(name) or choices[0]
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise BadOption(f"{name}: expected one of {', '.join(choices)}, found {text!r}")
