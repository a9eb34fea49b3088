"""Values with a meaning: from bytes to typed columns, and what does not parse, with the reason.

Here: the formats binary, string, avro and protobuf, the frame a schema registry's clients put
around a value, and setting bad values apart. Next door: JSON (json_values.py).
Never here: where values come from or go to.

No value is trusted: one that cannot be read costs itself, not its neighbours.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafscale.model.errors import InvalidRequest
from kafscale.spark.kernels import spans
from kafscale.spark.lake import ddl, schemas

FORMATS: Final = ("binary", "string", "json", "avro", "protobuf")
FRAMINGS: Final = ("none", "confluent")
_MAGIC_AND_ID: Final = 5  # a zero byte and the schema's number


class Spec(NamedTuple):
    """How values are to be read. Travels to workers; `schema` holds the schema itself."""

    format: str = "binary"
    schema: bytes = b""
    message: str = ""  # protobuf: which message of the descriptor set
    framing: str = "none"

    @property
    def digest(self) -> str:
        """Equal for equal verdicts on what parses and what does not."""
        parts = (self.format, self.schema.hex(), self.message, self.framing)
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


BINARY: Final = Spec()


class Decoded(NamedTuple):
    """The columns of the good values, and which values were not, by their place."""

    columns: list[pa.Array]
    bad: dict[int, str]


class Decoder(Protocol):
    """Reads values of one format."""

    schema: pa.Schema

    def decode(self, values: pa.Array) -> Decoded:
        """Columns of the values that parse, in order; reasons for the others."""
        ...


def spec_of(format: str, schema: str = "", message: str = "", framing: str = "none") -> Spec:  # noqa: A002
    """A spec from what people write: the schema itself or the name of a file with it."""
    if format not in FORMATS or framing not in FRAMINGS:
        raise InvalidRequest(f"a value is {', '.join(FORMATS)}; its frame {', '.join(FRAMINGS)}")
    if format in ("json", "avro", "protobuf") and not schema:
        raise InvalidRequest(f"values in {format} need a schema")
    if format in ("binary", "string") and schema:
        raise InvalidRequest(f"values in {format} have no schema")
    file = Path(schema) if schema and len(schema) < 1000 and "\n" not in schema else None
    raw = file.read_bytes() if file is not None and file.is_file() else schema.encode()
    spec = Spec(format, raw, message, framing)
    decoder_of(spec)  # a schema that makes no sense is refused here, not on a worker
    return spec


def decoder_of(spec: Spec) -> Decoder:
    """The reader of such values."""
    inner: Decoder
    match spec.format:
        case "binary":
            inner = _Plain(pa.binary())
        case "string":
            inner = _Plain(pa.string())
        case "json":
            from kafscale.spark.lake.json_values import JsonValues

            inner = JsonValues(ddl.parse(spec.schema.decode()))
        case "avro":
            inner = _Avro(spec.schema.decode())
        case _:
            inner = _Protobuf(spec.schema, spec.message)
    if spec.framing == "confluent":
        return _Framed(inner, _MAGIC_AND_ID + (1 if spec.format == "protobuf" else 0))
    return inner


class _Plain:
    """One column, the value itself."""

    def __init__(self, kind: pa.DataType) -> None:
        self.schema = pa.schema([("value", kind)])

    def decode(self, values: pa.Array) -> Decoded:
        kind = self.schema.field(0).type
        if kind == values.type:
            return Decoded([values], {})
        return _apart(values, lambda some: [some.cast(kind)], self.schema, "not UTF-8")


class _Avro:
    """Avro's binary form of one record schema."""

    def __init__(self, schema: str) -> None:
        import pyruhvro

        try:
            is_record = json.loads(schema)["type"] == "record"
            found = pyruhvro.avro_to_arrow_schema(schema) if is_record else None
        except (ValueError, KeyError, TypeError) as bad:
            raise InvalidRequest(f"not an Avro record schema: {bad}") from bad
        if found is None:
            raise InvalidRequest("not an Avro record schema: values are records")
        self.schema = schemas.lake_schema(found)
        self._read: Callable[[list[bytes], str], pa.RecordBatch] = pyruhvro.deserialize_array
        self._text = schema

    def decode(self, values: pa.Array) -> Decoded:
        return _apart(values, self._columns, self.schema, "not Avro of this schema")

    def _columns(self, values: pa.Array) -> list[pa.Array]:
        return _cast(self._read(values.to_pylist(), self._text), self.schema)


class _Protobuf:
    """One message of a compiled descriptor set (`protoc --include_imports -o FILE`)."""

    def __init__(self, descriptors: bytes, message: str) -> None:
        import ptars

        descriptor = _message(descriptors, message)
        config = ptars.PtarsConfig(timestamp_unit="us", enum_repr="string")
        pool = ptars.HandlerPool([descriptor.file], config)
        self._handler = pool.get_for_message(descriptor)
        self.schema = schemas.lake_schema(self._handler.schema())

    def decode(self, values: pa.Array) -> Decoded:
        return _apart(values, self._columns, self.schema, "not this Protobuf message")

    def _columns(self, values: pa.Array) -> list[pa.Array]:
        return _cast(self._handler.array_to_record_batch(values), self.schema)


class _Framed:
    """Values behind a zero byte and the number of their schema.

    Protobuf has the place of the message in its file after that; only the first, one zero byte,
    is read: others are other messages.
    """

    def __init__(self, inner: Decoder, width: int) -> None:
        self.schema = inner.schema
        self._inner = inner
        self._width = width

    def decode(self, values: pa.Array) -> Decoded:
        if values.null_count:
            present = values.is_valid().to_numpy(zero_copy_only=False)
            return with_nulls(self.decode(values.drop_null()), present)
        count = len(values)
        _, offsets, data = values.buffers()
        places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + count + 1]
        raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        starts, ends = places[:-1], places[1:]
        good = ends - starts >= self._width
        good[good] = raw[starts[good]] == 0
        if self._width > _MAGIC_AND_ID:
            good[good] = raw[starts[good] + _MAGIC_AND_ID] == 0
        bare = np.column_stack([starts[good] + self._width, ends[good]]).astype(np.int32).ravel()
        cut = spans.copy(raw, bare, np.zeros(len(bare) // 2, np.bool_))
        found = self._inner.decode(cut)
        return found if good.all() else _merged(found, good, "no schema number")


def _message(descriptors: bytes, message: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    except DecodeError as bad:
        raise InvalidRequest("not a descriptor set, as protoc -o writes it") from bad
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    names = [f"{f.package}.{m.name}".lstrip(".") for f in files for m in f.message_type]
    chosen = message or (names[0] if len(names) == 1 else "")
    try:
        return pool.FindMessageTypeByName(chosen)
    except KeyError:
        raise InvalidRequest(f"which message? there are {', '.join(names)}") from None


def _cast(found: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    return [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(found.columns, schema, strict=True)
    ]


def _apart(
    values: pa.Array,
    read: Callable[[pa.Array], list[pa.Array]],
    schema: pa.Schema,
    complaint: str,
) -> Decoded:
    """Read all at once; where that fails, halve until the bad ones stand alone.

    A null is no value: its row has no columns either.
    """
    if values.null_count:
        present = values.is_valid().to_numpy(zero_copy_only=False)
        found = _apart(values.drop_null(), read, schema, complaint)
        return with_nulls(found, present)
    try:
        return Decoded(read(values), {})
    except (ValueError, pa.ArrowException) as failed:
        if len(values) == 1:
            empty = [pa.array([], field.type) for field in schema]
            return Decoded(empty, {0: f"{complaint}: {failed}"[:500]})
    half = len(values) // 2
    first = _apart(values[:half], read, schema, complaint)
    second = _apart(values[half:], read, schema, complaint)
    columns = [
        pa.concat_arrays([one, other])
        for one, other in zip(first.columns, second.columns, strict=True)
    ]
    return Decoded(columns, first.bad | {half + at: why for at, why in second.bad.items()})


def with_nulls(found: Decoded, present: npt.NDArray[np.bool_]) -> Decoded:
    """Put the rows without a value back between those with one."""
    places = np.flatnonzero(present)
    bad = {int(places[at]): why for at, why in found.bad.items()}
    kept = np.ones(len(present), np.bool_)
    kept[list(bad)] = False
    rows = present[kept]
    index = pa.array(np.cumsum(rows) - 1, mask=~rows)
    return Decoded([column.take(index) for column in found.columns], bad)


def _merged(found: Decoded, good: npt.NDArray[np.bool_], complaint: str) -> Decoded:
    places = np.flatnonzero(good)
    bad = {int(places[at]): why for at, why in found.bad.items()}
    bad |= {int(at): complaint for at in np.flatnonzero(~good)}
    return Decoded(found.columns, bad)
