"""Records that name their schema by its number: Avro and Protobuf, bounded and closed."""

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from kafscale.admin.records.scanning import ScannedRecord
from kafscale.console.records.avro import AvroSchema, BadAvro
from kafscale.console.records.decoders import decode, scope_of
from kafscale.console.records.filters import compile_filter
from kafscale.console.records.schemas import FoundSchema, Schemas, SchemaUnusable
from kafscale.spark.values.protobuf_json import message_reader
from kafscale.testing.clock import ManualClock

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal",
                                    "precision": 9, "scale": 2}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [
                {"name": "sku", "type": "string"}, {"name": "state", "type": "State"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "double"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "parent", "type": ["null", "Order"]},
        {"name": "paid", "type": "boolean"},
    ],
}  # fmt: skip
BIG = 2**63 - 1
VALUE: dict[str, Any] = {
    "id": BIG,
    "amount": Decimal("-12.34"),
    "note": "ü",
    "state": "PAID",
    "lines": [{"sku": "A", "state": "NEW"}, {"sku": "B", "state": "PAID"}],
    "tags": {"a": 1.5},
    "hash": b"\x01\xff",
    "parent": None,
    "paid": True,
}


def written(value: Any, schema: Any = ORDER) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


class FakeRegistry:
    """Gives what it was given, and counts the questions."""

    def __init__(self, **found: FoundSchema) -> None:
        self._found = found
        self.asked = 0

    def find(self, number: int) -> FoundSchema:
        self.asked += 1
        if f"n{number}" not in self._found:
            raise SchemaUnusable("404")
        return self._found[f"n{number}"]


def shop() -> tuple[Schemas, FakeRegistry, ManualClock]:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    for name in ("Other", "Order"):
        message = file.message_type.add(name=name)
        field = message.field.add(name="id", number=1)
        field.type = descriptor_pb2.FieldDescriptorProto.TYPE_INT64
        field.label = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    descriptors = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    registry = FakeRegistry(
        n7=FoundSchema("avro", json.dumps(ORDER).encode()),
        n8=FoundSchema("protobuf", read=message_reader(descriptors)),
    )
    clock = ManualClock()
    return Schemas(registry, clock), registry, clock


def test_avro_is_shown_by_its_schema_and_64_bits_stay_exact() -> None:
    schemas, registry, _ = shop()
    data = framed(7, written(VALUE))
    for wanted in ("auto", "registry", "avro"):
        found = decode(data, wanted, schemas=schemas)
        assert (found.decoder, found.note, found.bytes) == ("avro", None, len(data))
        assert f'"id":{BIG}' in (found.text or "")
        assert json.loads(found.text or "") == VALUE | {"amount": "-12.34", "hash": "01ff"}
    assert registry.asked == 1
    assert decode(data, "hex", schemas=schemas).decoder == "hex"


def test_protobuf_is_shown_by_its_schema() -> None:
    schemas, _, _ = shop()
    body = b"\x08" + b"\xff" * 8 + b"\x7f"
    found = decode(framed(8, b"\x02\x02" + body), "auto", schemas=schemas)  # the second message
    assert (found.decoder, found.text) == ("protobuf", f'{{"id":"{BIG}"}}')
    found = decode(framed(8, b"\0" + body), "protobuf", schemas=schemas)  # the first, in short
    assert found.text == f'{{"id":"{BIG}"}}'
    broken = decode(framed(8, b"\x40" + body), "registry", schemas=schemas)
    assert broken.decoder == "registry"
    assert broken.note is not None


def test_a_schema_that_cannot_be_had_is_not_asked_for_with_each_record() -> None:
    schemas, registry, clock = shop()
    for _ in range(50):
        found = decode(framed(9, b"\xff"), "auto", schemas=schemas)
        assert (found.decoder, found.text) == ("registry", "schema 9: ff")
        assert "404" in (found.note or "")
    assert registry.asked == 1
    clock.advance_ms(31_000)
    decode(framed(9, b"x"), "auto", schemas=schemas)
    assert registry.asked == 2


def test_filters_see_the_fields_of_values_with_a_schema() -> None:
    schemas, _, _ = shop()
    record = ScannedRecord(0, 1, 2, False, None, framed(7, written(VALUE)), [])
    wanted = compile_filter(f'value.id == {BIG} && value.lines[0].sku == "A"')
    assert wanted.matches(scope_of(record, schemas))
    unknown = ScannedRecord(0, 1, 2, False, None, framed(9, b"x"), [])
    assert scope_of(unknown, schemas)["value"] is None


@pytest.mark.parametrize(
    "schema",
    [
        b"{",
        b'{"type":"record","name":"R"}',
        b'"nope"',
        b'{"type":"array","items":"nope"}',
        b'{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}',  # without an end
        b'{"type":"array","items":"null"}',  # many items that take no bytes
        b"[" * 100 + b"]" * 100,
        b'{"type":"fixed","name":"F","size":-1}',
        b"[]",
        b"5",
    ],
)
def test_strange_schemas_are_refused_and_end(schema: bytes) -> None:
    with pytest.raises(BadAvro):
        AvroSchema(schema).read(b"\xfe\xff\xff\xff\x0f" * 40)


@given(data=st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    try:
        AvroSchema(json.dumps(ORDER).encode()).read(data)
    except BadAvro:
        pass


@given(number=st.integers(-(2**63), 2**63 - 1), text=st.text(), rows=st.lists(st.floats()))
def test_what_was_written_is_read(number: int, text: str, rows: list[float]) -> None:
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "n", "type": "long"}, {"name": "t", "type": "string"},
        {"name": "r", "type": {"type": "array", "items": "double"}}]}  # fmt: skip
    found = AvroSchema(json.dumps(schema).encode()).read(
        written({"n": number, "t": text, "r": rows}, schema)
    )
    assert (found["n"], found["t"]) == (number, text)
    assert [str(one) for one in found["r"]] == [str(one) for one in rows]
