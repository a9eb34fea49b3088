"""Values of every format, good ones and bad ones."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyruhvro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import InvalidRequest
from kafscale.spark.values.decoding import Decoded
from kafscale.spark.values.formats import BINARY, decoder_of, spec_of

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
)


def decode(values: list[bytes | None], *spec: str) -> Decoded:
    return decoder_of(spec_of(*spec)).decode(pa.array(values, pa.binary()))


def rows(found: Decoded, *names: str) -> list[dict[str, Any]]:
    return pa.RecordBatch.from_arrays(found.columns, names=list(names)).to_pylist()


def test_raw_values_are_passed_through() -> None:
    values = pa.array([b"x", None], pa.binary())
    found = decoder_of(BINARY).decode(values)
    assert found.columns[0] is values
    assert not found.bad


def test_text_must_be_utf_8() -> None:
    found = decode([b"a", b"\xff", None, "ä".encode()], "string")
    assert found.columns[0].to_pylist() == ["a", None, "ä"]
    assert list(found.bad) == [1]
    assert "not UTF-8" in found.bad[1]


def test_json_fields_are_columns_missing_ones_null_unknown_ones_nothing() -> None:
    found = decode(
        [b'{"id":1,"name":"x","more":[1]}', b"{}", None], "json", "id bigint, name string"
    )
    assert rows(found, "id", "name") == [
        {"id": 1, "name": "x"},
        {"id": None, "name": None},
        {"id": None, "name": None},
    ]
    assert not found.bad


def test_json_of_all_types() -> None:
    schema = (
        "b boolean, d double, raw binary, day date, at timestamp, n decimal(5,2), "
        "tags array<string>, m map<string,struct<x:int>>, s struct<x:int,y:array<struct<z:int>>>"
    )
    value = (
        b'{"b":true,"d":1,"raw":"AQI=","day":"2026-01-02","at":"2026-01-02T03:04:05+01:00",'
        b'"n":1.25,"tags":["a",null],"m":{"k":{"x":1},"l":null},"s":{"x":2,"y":[{"z":3},null]}}'
    )
    found = decode([value], "json", schema)
    (row,) = rows(found, "b", "d", "raw", "day", "at", "n", "tags", "m", "s")
    assert row == {
        "b": True,
        "d": 1.0,
        "raw": b"\1\2",
        "day": dt.date(2026, 1, 2),
        "at": dt.datetime(2026, 1, 2, 2, 4, 5, tzinfo=dt.UTC),
        "n": Decimal("1.25"),
        "tags": ["a", None],
        "m": [("k", {"x": 1}), ("l", None)],
        "s": {"x": 2, "y": [{"z": 3}, None]},
    }


@pytest.mark.parametrize(
    "value",
    [
        b'{"id":1.5}',
        b'{"id":"1"}',
        b'{"id":true}',
        b'{"id":99999999999999999999}',
        b'{"id":1',
        b'{"id":1}{"id":2}',
        b'{"id":1},{"id":2}',
        b"[1]",
        b"null",
        b"",
        b"\xff",
        b'{"n":1.234}',
        b'{"small":3000000000}',
        b"[" * 100_000,
    ],
)
def test_json_that_is_not_what_was_declared_costs_itself_alone(value: bytes) -> None:
    """Nothing is rounded, cut or shifted to its neighbours."""
    found = decode(
        [b'{"id":1}', value, b'{"id":3}'], "json", "id bigint, n decimal(5,2), small int"
    )
    assert found.columns[0].to_pylist() == [1, 3]
    assert list(found.bad) == [1]
    assert found.bad[1]


@given(st.lists(st.sampled_from([b'{"id":7}', b"x", None, b'{"id":0.5}']), max_size=40))
def test_good_and_bad_values_stay_in_their_places(values: list[bytes | None]) -> None:
    found = decode(values, "json", "id bigint")
    assert sorted(found.bad) == [at for at, v in enumerate(values) if v in (b"x", b'{"id":0.5}')]
    kept = [v for at, v in enumerate(values) if at not in found.bad]
    assert found.columns[0].to_pylist() == [None if v is None else 7 for v in kept]


def avro_values(count: int) -> list[bytes]:
    schema = pyruhvro.avro_to_arrow_schema(AVRO)
    batch = pa.RecordBatch.from_pylist(
        [{"id": n, "name": None if n % 2 else f"n{n}", "at": n} for n in range(count)], schema
    )
    return [bytes(raw) for raw in pyruhvro.serialize_record_batch(batch, AVRO, 1)[0].to_pylist()]


def test_avro_becomes_columns_and_bad_bytes_stand_alone(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(AVRO)
    good = avro_values(5)
    found = decode([*good[:2], b"\xff", None, *good[2:]], "avro", str(file))
    assert found.columns[0].to_pylist() == [0, 1, None, 2, 3, 4]
    assert found.columns[1].to_pylist() == ["n0", None, None, "n2", None, "n4"]
    assert found.columns[2].type == pa.timestamp("us", tz="UTC")
    assert list(found.bad) == [2]


def test_values_framed_by_a_schema_registry_are_unwrapped() -> None:
    good = [b"\0\0\0\0\x07" + raw for raw in avro_values(2)]
    found = decode(
        [good[0], avro_values(2)[1], None, good[1], b"\0\0"], "avro", AVRO, "", "confluent"
    )
    assert found.columns[0].to_pylist() == [0, None, 1]
    assert found.bad == {1: "no schema number", 4: "no schema number"}


def descriptors() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    for name in ("Order", "Item"):
        message = file.message_type.add(name=name)
        message.field.add(name="id", number=1, type=3, label=1)
        message.field.add(name="tags", number=2, type=9, label=3)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def test_protobuf_messages_become_columns(tmp_path: Path) -> None:
    file = tmp_path / "shop.pb"
    file.write_bytes(descriptors())
    pool = descriptor_pool.DescriptorPool()
    for one in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(one)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    good = order(id=7, tags=["a", "b"]).SerializeToString()
    found = decode([good, b"\x08", None], "protobuf", str(file), "shop.Order")
    assert rows(found, "id", "tags") == [{"id": 7, "tags": ["a", "b"]}, {"id": None, "tags": None}]
    assert list(found.bad) == [1]
    framed = decode(
        [b"\0\0\0\0\1\0" + good, good], "protobuf", str(file), "shop.Order", "confluent"
    )
    assert framed.columns[0].to_pylist() == [7]
    assert list(framed.bad) == [1]
    with pytest.raises(InvalidRequest, match="which message"):
        spec_of("protobuf", str(file))


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (("json",), "need a schema"),
        (("string", "id bigint"), "have no schema"),
        (("xml",), "a value is"),
        (("avro", '{"type":"int"}'), "not an Avro record schema"),
        (("json", "id what"), "is no type"),
        (("protobuf", "nonsense"), "not a descriptor set"),
    ],
)
def test_what_cannot_be_read_is_refused_before_any_work(
    spec: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        spec_of(*spec)


def test_equal_specs_have_equal_digests_and_others_others() -> None:
    one = spec_of("json", "id bigint")
    assert one.digest == spec_of("json", "id bigint").digest
    assert one.digest != spec_of("json", "id string").digest


@pytest.mark.parametrize(
    "kind",
    [["null", "string", "long"], {"type": "long", "logicalType": "local-timestamp-micros"}],
    ids=["several types", "not known to the library"],
)
def test_an_avro_schema_that_no_table_can_have_is_refused(kind: object) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "x", "type": kind}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    with pytest.raises(InvalidRequest, match=r"several types|not supported"):
        spec_of("avro", schema)
