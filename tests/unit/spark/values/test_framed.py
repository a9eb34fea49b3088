"""Values that name the schema they were written with, as Confluent's serializers write them."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from kafscale.model.errors import InvalidRequest
from kafscale.spark.values.decoding import Decoded
from kafscale.spark.values.formats import columns_of, decoder_of, spec_of
from tests.unit.spark.values.schema_registry import FakeSchemaRegistry
from tests.unit.spark.values.writers import AvroWriter, ProtobufWriter, avro_schema, message_class

NOON = dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)


def decode(values: list[bytes | None], *spec: str) -> tuple[list[dict[str, Any]], dict[int, str]]:
    decoder = decoder_of(spec_of(*spec))
    found: Decoded = decoder.decode(pa.array(values, pa.binary()))
    return pa.RecordBatch.from_arrays(found.columns, schema=decoder.schema).to_pylist(), found.bad


def avro(registry: FakeSchemaRegistry, schema: str = "") -> tuple[str, ...]:
    return ("avro", schema, "", "none", registry.url, "orders-value")


def protobuf(registry: FakeSchemaRegistry, message: str = "") -> tuple[str, ...]:
    return ("protobuf", "", message, "none", registry.url, "orders-value")


def test_values_of_several_schemas_become_the_columns_of_the_newest(
    schema_registry: FakeSchemaRegistry,
) -> None:
    old = AvroWriter(schema_registry, avro_schema(id="int", gone="string"))
    new = AvroWriter(schema_registry, avro_schema(id="long", name=["null", "string"]))
    values = [old(id=1, gone="x"), new(id=2, name="two"), None, old(id=3, gone="y"), new(id=4)]
    rows, bad = decode(values, *avro(schema_registry))
    assert rows == [
        {"id": 1, "name": None},
        {"id": 2, "name": "two"},
        {"id": None, "name": None},
        {"id": 3, "name": None},
        {"id": 4, "name": None},
    ]
    assert not bad


def test_a_schema_given_as_well_says_which_columns_are_wanted(
    schema_registry: FakeSchemaRegistry,
) -> None:
    write = AvroWriter(schema_registry, avro_schema(id="int", name="string"))
    rows, bad = decode([write(id=1, name="x")], *avro(schema_registry, avro_schema(id="long")))
    assert (rows, bad) == ([{"id": 1}], {})


def test_a_value_with_no_number_or_an_unknown_one_is_bad_alone(
    schema_registry: FakeSchemaRegistry,
) -> None:
    write = AvroWriter(schema_registry, avro_schema(id="long"))
    good = write(id=7)
    values: list[bytes | None] = [
        b"",
        good,
        b"\1" + good[1:],
        b"\0\0\0\0\x63zz",
        None,
        good[:-1],
        good,
    ]
    rows, bad = decode(values, *avro(schema_registry))
    assert [row["id"] for row in rows] == [7, None, 7]
    assert sorted(bad) == [0, 2, 3, 5]
    assert bad[0] == bad[2] == "no schema number"
    assert "404" in bad[3]
    assert "not Avro" in bad[5]


def test_each_schema_is_asked_for_once(schema_registry: FakeSchemaRegistry) -> None:
    write = AvroWriter(schema_registry, avro_schema(id="long", once="string"))
    values = pa.array([write(id=n, once="") for n in range(3)], pa.binary())
    spec = spec_of(*avro(schema_registry))
    for _ in range(2):
        decoder = decoder_of(spec, columns_of(spec))
        decoder.decode(values)
        decoder.decode(values)
    assert schema_registry.asked.count("/schemas/ids/1") == 1


def test_protobuf_messages_are_read_by_the_files_they_were_registered_with(
    schema_registry: FakeSchemaRegistry,
) -> None:
    write = ProtobufWriter(schema_registry, message_class("shop.Order"))
    framed = write(id=7, at=NOON, place={"city": "Bonn"})
    assert framed[5:8] == b"\x02\x02\x08", "the second message of its file, then field 1"
    item = ProtobufWriter(schema_registry, message_class("shop.Item"))(id=1)
    rows, bad = decode([framed, None, item], *protobuf(schema_registry, "shop.Order"))
    assert rows[0] == {"id": 7, "at": NOON, "place": {"city": "Bonn"}}
    assert bad == {2: "another message than shop.Order"}
    rows, bad = decode([framed, item], *protobuf(schema_registry))
    assert (rows, bad) == ([{"id": 1}], {0: "another message than shop.Item"})


def test_messages_inside_messages_have_a_place_too(schema_registry: FakeSchemaRegistry) -> None:
    write = ProtobufWriter(schema_registry, message_class("shop.Order.Line"))
    rows, bad = decode([write(count=3)], *protobuf(schema_registry, "shop.Order.Line"))
    assert (rows, bad) == ([{"count": 3}], {})


def test_a_topic_of_the_other_kind_is_bad_and_says_why(schema_registry: FakeSchemaRegistry) -> None:
    message = ProtobufWriter(schema_registry, message_class("shop.Item"), "others")(id=1)
    good = AvroWriter(schema_registry, avro_schema(id="long"))(id=2)
    rows, bad = decode([message, good], *avro(schema_registry))
    assert rows == [{"id": 2}]
    assert bad == {0: "schema 2 is protobuf, not avro"}


def test_a_registry_is_for_formats_that_have_schemas() -> None:
    with pytest.raises(InvalidRequest, match="not for json"):
        spec_of("json", "id bigint", registry="http://127.0.0.1:1")
