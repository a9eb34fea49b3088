"""The table that a topic declares: its settings `table.*`, read and checked together.

Here: what the settings mean, and which of them contradict each other. A broker refuses those; the
pipeline reads the rest from the descriptor. Next door: each setting by itself (topic_configs.py),
the grammar of columns (columns.py).
Never here: whether a location or a registry may be used; the pipeline's own options say that.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final

import msgspec

from kafscale.model.configs.columns import parse_columns
from kafscale.model.configs.topic_configs import TOPIC_CONFIGS
from kafscale.model.errors import InvalidRequest, InvalidTopicConfig

# Columns that every table has; no column of a value can have such a name.
ORIGIN_COLUMNS: Final = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")
PARTITION_COLUMNS: Final = {"day": "_day", "hour": "_hour"}
RESERVED_COLUMNS: Final = frozenset(ORIGIN_COLUMNS) | frozenset(PARTITION_COLUMNS.values())

_WITH_SCHEMAS: Final = ("avro", "protobuf")


class TableSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a topic's table is to be."""

    format: str  # parquet, delta or iceberg
    location: str  # empty: below the bucket's own folder for tables
    upsert: bool  # the newest row of each key, else one row per record
    value_format: str
    value_schema: str
    value_message: str
    value_framing: str
    registry: str
    subject: str
    partition_by: str  # day, hour or none
    freshness_ms: int
    priority: int
    retention_ms: int  # -1: rows stay
    snapshot_retention_ms: int
    file_bytes: int
    allow_gaps: bool
    group: str  # tables of one group are brought to the same moment

    @staticmethod
    def of(name: str, configs: Mapping[str, str]) -> "TableSettings | None":
        """The table of a topic of this name, None where it declares none. Settings are checked."""
        if configs.get("table.format", "none") == "none":
            return None

        def text(setting: str) -> str:
            return configs.get(setting, TOPIC_CONFIGS[setting].default).strip()

        upsert = text("table.mode") == "upsert"
        partition_by = text("table.partition.by")
        if partition_by == "default":
            partition_by = "none" if upsert else "day"
        has_registry = bool(text("table.schema.registry"))
        return TableSettings(
            format=text("table.format"),
            location=text("table.location").rstrip("/").replace("{topic}", name),
            upsert=upsert,
            value_format=text("table.value.format"),
            value_schema=text("table.value.schema"),
            value_message=text("table.value.message"),
            value_framing=text("table.value.framing"),
            registry=text("table.schema.registry").rstrip("/"),
            subject=text("table.value.subject") or (f"{name}-value" if has_registry else ""),
            partition_by=partition_by,
            freshness_ms=int(text("table.freshness.ms")),
            priority=int(text("table.priority")),
            retention_ms=int(text("table.retention.ms")),
            snapshot_retention_ms=int(text("table.snapshot.retention.ms")),
            file_bytes=int(text("table.file.bytes")),
            allow_gaps=text("table.allow.gaps").lower() == "true",
            group=text("table.group"),
        )


def check_table(configs: Mapping[str, str | None]) -> None:
    """Raise InvalidTopicConfig where settings of a table contradict each other.

    Each of them is legal by itself. A topic without `table.format` has no table: the others may
    then be set one after the other.
    """
    given = {name: value for name, value in configs.items() if value is not None}
    table = TableSettings.of("", given)
    if table is None:
        return
    if table.upsert and table.format == "parquet":
        raise InvalidTopicConfig("table.mode: upsert needs table.format delta or iceberg")
    if table.upsert and table.partition_by != "none":
        raise InvalidTopicConfig("table.partition.by: an upsert table has one row per key, no days")
    if table.upsert and table.retention_ms >= 0:
        raise InvalidTopicConfig("table.retention.ms: rows of an upsert table go by tombstones")
    _check_values(table)


def _check_values(table: TableSettings) -> None:
    kind, schema = table.value_format, table.value_schema
    if table.registry and kind not in _WITH_SCHEMAS:
        raise InvalidTopicConfig(f"table.schema.registry: {kind} has none, avro and protobuf have")
    if table.registry and table.value_framing != "none":
        raise InvalidTopicConfig("table.value.framing: values that a registry knows are framed")
    if kind in ("binary", "string") and schema:
        raise InvalidTopicConfig(f"table.value.schema: {kind} has no schema")
    if kind == "json":
        _check_columns(schema)
    if kind in _WITH_SCHEMAS and not (schema or table.registry):
        raise InvalidTopicConfig(
            f"table.value.schema: {kind} needs one, or a registry (table.schema.registry)"
        )
    if kind == "avro" and schema:
        _check_avro(schema)
    if kind == "protobuf" and schema:
        protobuf_schema(schema)
        if not table.value_message and not table.registry:
            raise InvalidTopicConfig("table.value.message: protobuf needs one, such as shop.Order")


def _check_columns(schema: str) -> None:
    if not schema:
        raise InvalidTopicConfig(
            "table.value.schema: json needs one, such as 'id bigint, name string'"
        )
    try:
        columns = parse_columns(schema)
    except InvalidRequest as bad:
        raise InvalidTopicConfig(f"table.value.schema: {bad}") from bad
    for column in columns:
        if column.name in RESERVED_COLUMNS:
            raise InvalidTopicConfig(f"table.value.schema: the name {column.name!r} is taken")


def _check_avro(schema: str) -> None:
    try:
        parsed = msgspec.json.decode(schema)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as bad:
        raise InvalidTopicConfig(f"table.value.schema: not an Avro schema: {bad}") from bad
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise InvalidTopicConfig("table.value.schema: an Avro schema of a table is a record")


def protobuf_schema(text: str) -> bytes:
    """The compiled descriptors that a setting holds in base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as bad:
        raise InvalidTopicConfig(
            f"table.value.schema: protobuf takes descriptors in base64: {bad}"
        ) from bad
