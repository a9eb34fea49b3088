"""Values decoded in the reader: good rows, null rows, bad rows."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from kafscale.spark.source import registry, values
from kafscale.spark.source.options import BadOption, Shape
from kafscale.spark.source.values import BadValue, Format, ValueDecoder

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
    given: Format, rows: list[bytes | None], bad: str = "column", target: pa.DataType = ORDER
) -> list[tuple[Any, bytes | None]]:
    batch = pa.RecordBatch.from_pydict(
        {"value": pa.array(rows, pa.binary()), "offset": pa.array(range(7, 7 + len(rows)))}
    )
    found = ValueDecoder(given, target, bad).apply(batch, ("value", "badValue"))
    found.validate(full=True)
    assert found.schema.field("value").type == target
    return [(row["value"], row["badValue"]) for row in found.to_pylist()]


def json_format() -> Format:
    return Format("json", b"id bigint, name string", "", "", "")


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
    given = Format("string", b"", "", "", "")
    assert decode(given, [b"a", b"\xff", None], target=pa.string()) == [
        ("a", None),
        (None, b"\xff"),
        (None, None),
    ]


def test_avro_by_an_inline_schema() -> None:
    given = Format("avro", AVRO.encode(), "", "", "")
    rows = [b"\x02\x02\x02a", b"\x02", None, b"\x04\x00"]
    assert decode(given, rows) == [
        ({"id": 1, "name": "a"}, None),
        (None, b"\x02"),
        (None, None),
        ({"id": 2, "name": None}, None),
    ]


@pytest.fixture
def schemas() -> Iterator[str]:
    """A registry that knows two schemas."""
    answers = {
        "/schemas/ids/1": AVRO,
        "/schemas/ids/2": NEWER,
        "/subjects/t-value/versions/latest": AVRO,
    }

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = answers.get(self.path)
            body = json.dumps({"schema": known} if known else {"error_code": 40403}).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_avro_by_the_number_in_front_of_each_value(schemas: str) -> None:
    given = Format("avro", b"", "", schemas, "t-value")
    rows = [b"\0\0\0\0\2\x04\x02x", b"\0\0\0\0\1\x02\x02\x02a", b"\1", b"\0\0\0\0\x09zz"]
    assert decode(given, rows) == [
        ({"id": 2, "name": None}, None),
        ({"id": 1, "name": "a"}, None),
        (None, b"\1"),
        (None, b"\0\0\0\0\x09zz"),
    ]
    assert values.natural_type(given) == pa.struct(
        [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]
    )


def test_a_registry_that_does_not_know_is_an_error(schemas: str) -> None:
    with pytest.raises(registry.RegistryError, match="404"):
        registry.latest(schemas, "nobody-value")
    with pytest.raises(registry.RegistryError, match="http"):
        registry.latest("file:///etc", "passwd")


def protobuf(folder: Path) -> Shape:
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="name", number=2, type=9, label=1)
    path = folder / "order.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return Shape(value_format="protobuf", value_schema_file=str(path), value_message="shop.Order")


def test_protobuf_by_a_descriptor_file(tmp_path: Path) -> None:
    given = values.load_format(protobuf(tmp_path))
    assert decode(given, [b"\x08\x05\x12\x01a", b"\xff", None]) == [
        ({"id": 5, "name": "a"}, None),
        (None, b"\xff"),
        (None, None),
    ]


def test_schema_files_and_messages_must_exist(tmp_path: Path) -> None:
    shape = protobuf(tmp_path)
    with pytest.raises(BadOption, match="valueSchemaFile"):
        values.load_format(Shape(value_format="avro", value_schema_file="/nowhere"))
    with pytest.raises(BadOption, match="Nobody"):
        values.natural_type(values.load_format(shape)._replace(message="Nobody"))
