"""The table that a topic declares: what is refused, and what the rest means."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.configs.columns import parse_columns
from kafscale.model.configs.table_settings import TableSettings, check_table
from kafscale.model.errors import InvalidRequest, InvalidTopicConfig
from kafscale.model.topics import validate_configs

AVRO = json.dumps({"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}]})


def test_a_topic_without_a_format_has_no_table() -> None:
    assert TableSettings.of("orders", {}) is None
    assert TableSettings.of("orders", {"table.format": "none", "table.mode": "upsert"}) is None


def test_what_is_not_set_has_its_default() -> None:
    table = TableSettings.of("orders", {"table.format": "delta"})
    assert table is not None
    assert (table.partition_by, table.freshness_ms, table.retention_ms) == ("day", 60_000, -1)
    assert (table.upsert, table.location, table.value_format) == (False, "", "binary")


def test_names_of_the_topic_are_filled_in() -> None:
    table = TableSettings.of(
        "orders",
        {
            "table.format": "delta",
            "table.location": "s3://lake/raw/{topic}/",
            "table.value.format": "avro",
            "table.schema.registry": "http://registry:8081/",
        },
    )
    assert table is not None
    assert table.location == "s3://lake/raw/orders"
    assert (table.registry, table.subject) == ("http://registry:8081", "orders-value")


def test_upsert_tables_are_not_cut_by_day() -> None:
    table = TableSettings.of("orders", {"table.format": "delta", "table.mode": "upsert"})
    assert table is not None
    assert (table.upsert, table.partition_by) == (True, "none")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"table.value.format": "string"},
        {"table.value.format": "json", "table.value.schema": "id bigint, tags array<string>"},
        {"table.value.format": "avro", "table.value.schema": AVRO},
        {"table.value.format": "avro", "table.schema.registry": "http://r:8081"},
        {
            "table.value.format": "protobuf",
            "table.value.schema": base64.b64encode(b"compiled").decode(),
            "table.value.message": "shop.Order",
        },
        {"table.mode": "upsert"},
        {"table.location": "/var/lake/orders"},
        {"table.location": "file:///var/lake/{topic}"},
        {"table.group": "shop"},
    ],
)
def test_tables_that_make_sense_pass(more: dict[str, str]) -> None:
    validate_configs({"table.format": "delta", **more})


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"table.format": "hudi"}, "table.format: expected one of none, parquet, delta, iceberg"),
        (
            {"table.format": "parquet", "table.mode": "upsert"},
            "table.mode: upsert needs table.format delta or iceberg",
        ),
        (
            {"table.format": "delta", "table.mode": "upsert", "table.partition.by": "day"},
            "table.partition.by: an upsert table",
        ),
        (
            {"table.format": "delta", "table.mode": "upsert", "table.retention.ms": "1"},
            "table.retention.ms: rows of an upsert table",
        ),
        (
            {"table.format": "delta", "table.value.format": "json"},
            "table.value.schema: json needs one",
        ),
        (
            {
                "table.format": "delta",
                "table.value.format": "json",
                "table.value.schema": "id bigintt",
            },
            "table.value.schema: 'bigintt' is no type",
        ),
        (
            {
                "table.format": "delta",
                "table.value.format": "json",
                "table.value.schema": "_offset bigint",
            },
            "table.value.schema: the name '_offset' is taken",
        ),
        (
            {"table.format": "delta", "table.value.schema": "id bigint"},
            "table.value.schema: binary has no schema",
        ),
        (
            {"table.format": "delta", "table.value.format": "avro"},
            "table.value.schema: avro needs one",
        ),
        (
            {"table.format": "delta", "table.value.format": "avro", "table.value.schema": "{"},
            "table.value.schema: not an Avro schema",
        ),
        (
            {"table.format": "delta", "table.value.format": "avro", "table.value.schema": '"int"'},
            "table.value.schema: an Avro schema of a table is a record",
        ),
        (
            {"table.format": "delta", "table.value.format": "protobuf", "table.value.schema": "§"},
            "table.value.schema: protobuf takes descriptors in base64",
        ),
        (
            {"table.format": "delta", "table.schema.registry": "http://r:8081"},
            "table.schema.registry: binary has none",
        ),
        ({"table.schema.registry": "http://me:secret@r"}, "table.schema.registry: expected http"),
        ({"table.location": "lake/orders"}, "table.location: expected s3://bucket/path"),
        ({"table.location": "s3://bucket"}, "table.location: expected s3://bucket/path"),
        ({"table.location": "/a/../etc"}, "table.location: expected s3://bucket/path"),
        ({"table.location": "gs://bucket/path"}, "table.location: expected s3://bucket/path"),
        ({"table.freshness.ms": "10"}, "table.freshness.ms: expected an integer from 1000"),
        ({"table.group": "a b"}, "table.group: expected a name"),
    ],
)
def test_tables_that_make_none_are_refused_with_the_reason(
    configs: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidTopicConfig) as refused:
        validate_configs(configs)
    assert words in str(refused.value)


def test_settings_may_be_given_before_the_format_is() -> None:
    validate_configs({"table.mode": "upsert", "table.value.format": "json"})


def test_a_schema_is_bounded_in_depth() -> None:
    with pytest.raises(InvalidRequest, match="32 types deep"):
        parse_columns("a " + "array<" * 10_000 + "int" + ">" * 10_000)


@given(st.text(max_size=60))
def test_no_schema_makes_the_check_fail_otherwise(text: str) -> None:
    configs = {
        "table.format": "delta",
        "table.value.format": "json",
        "table.value.schema": text,
    }
    try:
        check_table(configs)
    except InvalidTopicConfig:
        return
    assert parse_columns(text)
