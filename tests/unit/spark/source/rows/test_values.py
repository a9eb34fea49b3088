"""Values decoded in the reader: good rows, null rows, bad rows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from kafscale.spark.source.plan.options import BadOption, Shape
from kafscale.spark.source.rows import values
from kafscale.spark.source.rows.values import BadValue, ValueDecoder
from kafscale.spark.values import registry
from kafscale.spark.values.formats import Spec
from tests.unit.spark.values.schema_registry import FakeSchemaRegistry

ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
    }
)
NEWER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "extra", "type": "string"}],
    }
)


def decode(
    given: Spec, rows: list[bytes | None], bad: str = "column", target: pa.DataType = ORDER
) -> list[tuple[Any, bytes | None]]:
    batch = pa.RecordBatch.from_pydict(
        {"value": pa.array(rows, pa.binary()), "offset": pa.array(range(7, 7 + len(rows)))}
    )
    found = ValueDecoder(given, target, bad).apply(batch, ("value", "badValue"))
    found.validate(full=True)
    assert found.schema.field("value").type == target
    return [(row["value"], row["badValue"]) for row in found.to_pylist()]


def json_format() -> Spec:
    return Spec("json", b"id bigint, name string")


def test_columns_of_an_unknown_type_are_refused_by_name() -> None:
    with pytest.raises(BadOption, match="valueSchema: 'bigin' is no type"):
        values.load_spec(Shape(value_format="json", value_schema="id bigin"))
    for fine in ("id bigint", "id SMALLINT", "id bigint not null comment 'x'"):
        assert values.load_spec(Shape(value_format="json", value_schema=fine)).schema


def test_json_becomes_a_struct() -> None:
    rows: list[bytes | None] = [
        b'{"id":1,"name":"a"}',
        None,
        b' {"name":"b"} ',
        b'{"id":3,"x":[1]}',
    ]
    assert decode(json_format(), rows) == [
        ({"id": 1, "name": "a"}, None),
        (None, None),
        ({"id": None, "name": "b"}, None),
        ({"id": 3, "name": None}, None),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"5",
        b"[1]",
        b"null",
        b'{"id":"x"}',
        b'{"id":1.0}',
        b'{"id":true}',
        b'{"id":99999999999999999999}',
        b"\xff",
        b'{"id":1}{"id":2}',
        b'{"id":1}\n{}',
    ],
)
def test_bad_json_stays_where_it_is(bad: bytes) -> None:
    good = b'{"id":1,"name":"a"}'
    found = decode(json_format(), [good, bad, None, good, bad])
    fine = ({"id": 1, "name": "a"}, None)
    assert found == [fine, (None, bad), (None, None), fine, (None, bad)]


def test_a_bad_record_fails_the_query_or_is_null() -> None:
    with pytest.raises(BadValue, match="offset 8"):
        decode(json_format(), [b"{}", b"x"], "fail")


def test_text_must_be_text() -> None:
    given = Spec("string")
    assert decode(given, [b"a", b"\xff", None], target=pa.string()) == [
        ("a", None),
        (None, b"\xff"),
        (None, None),
    ]


def test_avro_by_an_inline_schema() -> None:
    given = Spec("avro", AVRO.encode())
    rows = [b"\x02\x02\x02a", b"\x02", None, b"\x04\x00"]
    assert decode(given, rows) == [
        ({"id": 1, "name": "a"}, None),
        (None, b"\x02"),
        (None, None),
        ({"id": 2, "name": None}, None),
    ]


def test_avro_by_the_number_in_front_of_each_value(schema_registry: FakeSchemaRegistry) -> None:
    assert schema_registry.register("o", AVRO) == 1
    assert schema_registry.register("o", NEWER) == 2
    assert schema_registry.register("t-value", AVRO) == 1
    given = Spec("avro", registry=schema_registry.url, subject="t-value")
    rows = [b"\0\0\0\0\2\x04\x02x", b"\0\0\0\0\1\x02\x02\x02a", b"\1", b"\0\0\0\0\x09zz"]
    assert decode(given, rows) == [
        ({"id": 2, "name": None}, None),
        ({"id": 1, "name": "a"}, None),
        (None, b"\1"),
        (None, b"\0\0\0\0\x09zz"),
    ]
    assert values.natural_type(given) == ORDER


def test_a_schema_of_another_type_makes_bad_records(schema_registry: FakeSchemaRegistry) -> None:
    schema_registry.register("t-value", AVRO.replace('"long"', '"string"'))
    given = Spec("avro", registry=schema_registry.url, subject="t-value")
    with pytest.raises(BadValue, match=r"schema 1: column 'id': no column holds both"):
        decode(given, [b"\0\0\0\0\1\x02a\x00"], "fail")


def test_a_registry_that_is_away_is_no_verdict_on_values(
    schema_registry: FakeSchemaRegistry,
) -> None:
    schema_registry.broken = True
    given = Spec("avro", registry=schema_registry.url, subject="t-value")
    with pytest.raises(registry.RegistryError, match="500"):
        decode(given, [b"\0\0\0\0\1\x02\x00"], "null")


def protobuf(folder: Path) -> Shape:
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="name", number=2, type=9, label=1)
    path = folder / "order.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return Shape(value_format="protobuf", value_schema_file=str(path), value_message="shop.Order")


def test_protobuf_by_a_descriptor_file(tmp_path: Path) -> None:
    given = values.load_spec(protobuf(tmp_path))
    assert decode(given, [b"\x08\x05\x12\x01a", b"\xff", None]) == [
        ({"id": 5, "name": "a"}, None),
        (None, b"\xff"),
        (None, None),
    ]


def test_schema_files_and_messages_must_exist(tmp_path: Path) -> None:
    shape = protobuf(tmp_path)
    with pytest.raises(BadOption, match="valueSchemaFile"):
        values.load_spec(Shape(value_format="avro", value_schema_file="/nowhere"))
    with pytest.raises(BadOption, match="which message"):
        values.load_spec(replace(shape, value_message="Missing"))
