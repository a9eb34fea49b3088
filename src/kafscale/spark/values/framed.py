"""Values behind a zero byte and the number of the schema they were written with.

That is how the clients of a schema registry frame them; Protobuf has the place of the message in
its file between the number and the message. Here: taking frames off, and reading values by
whichever schema wrote them into the same columns. Next door: the registry (registry.py).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafscale.model.errors import InvalidRequest, KafscaleError
from kafscale.spark.kernels import spans
from kafscale.spark.kernels.arrays import ByteArray, IntArray, LongArray
from kafscale.spark.values.avro import AvroValues
from kafscale.spark.values.decoding import (
    Decoded,
    DecodedPart,
    Projected,
    ValueReader,
    all_bad,
    together,
    with_nulls,
)
from kafscale.spark.values.protobuf import ProtobufValues
from kafscale.spark.values.registry import Schema
from kafscale.spark.values.types import unfit

_MAGIC_AND_NUMBER: Final = 5

# Given numbers, how values written with each are read, or why they cannot be.
Lookup = Callable[[Sequence[int]], dict[int, ValueReader | str]]


class UnknownSchemas(KafscaleError):
    """Values were written with schemas that were not looked up yet."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.numbers = frozenset(numbers)
        super().__init__(f"schemas {sorted(self.numbers)} have not been looked up")


class FramedValues:
    """Reads each value by the schema it names."""

    def __init__(self, columns: pa.Schema, lookup: Lookup) -> None:
        self.schema = columns
        self._lookup = lookup

    def decode(self, values: pa.Array) -> Decoded:
        """Rows of one schema are read together and put back in order."""
        if values.null_count:
            present = values.is_valid().to_numpy(zero_copy_only=False)
            return with_nulls(self.decode(values.drop_null()), present)
        raw = _Raw.of(values)
        good = raw.ends - raw.starts >= _MAGIC_AND_NUMBER
        good[good] = raw.data[raw.starts[good]] == 0
        parts = []
        if not good.all():
            bare = np.flatnonzero(~good)
            parts.append(DecodedPart(bare, all_bad(len(bare), "no schema number", self.schema)))
        framed = np.flatnonzero(good)
        bytes_of = raw.starts[framed, None] + np.arange(1, _MAGIC_AND_NUMBER)
        numbers = raw.data[bytes_of].astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
        readers = self._lookup(np.unique(numbers).tolist())
        for number, reader in readers.items():
            mine = framed[numbers == number]
            if isinstance(reader, str):
                decoded = all_bad(len(mine), reader, self.schema)
            else:
                decoded = reader.decode(raw.cut(mine, _MAGIC_AND_NUMBER))
            parts.append(DecodedPart(mine, decoded))
        return together(parts, self.schema)


class _Raw(NamedTuple):
    """A binary column as its bytes and where each value lies in them."""

    data: ByteArray
    starts: IntArray
    ends: IntArray

    @staticmethod
    def of(values: pa.Array) -> "_Raw":
        _, offsets, data = values.buffers()
        places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
        raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return _Raw(raw, places[:-1], places[1:])

    def cut(self, rows: LongArray, width: int) -> pa.Array:
        """Some of the values without their first bytes."""
        bare = np.column_stack([self.starts[rows] + width, self.ends[rows]])
        bare = bare.astype(np.int32).ravel()
        return spans.copy(self.data, bare, np.zeros(len(rows), np.bool_))


class _OneMessage:
    """Protobuf values behind the place of their message, which must be the expected one."""

    def __init__(self, inner: ProtobufValues) -> None:
        self.schema = inner.schema
        self._inner = inner
        self._prefix = _place(inner.message.path)
        self._complaint = f"another message than {inner.message.descriptor.full_name}"

    def decode(self, values: pa.Array) -> Decoded:
        raw = _Raw.of(values)
        width = len(self._prefix)
        good = raw.ends - raw.starts >= width
        for at, byte in enumerate(self._prefix):
            good[good] = raw.data[raw.starts[good] + at] == byte
        mine, others = np.flatnonzero(good), np.flatnonzero(~good)
        parts = [DecodedPart(mine, self._inner.decode(raw.cut(mine, width)))]
        if len(others):
            parts.append(DecodedPart(others, all_bad(len(others), self._complaint, self.schema)))
        return together(parts, self.schema)


def _place(path: Sequence[int]) -> bytes:
    """Zigzag varints: how many indexes, then each; the first message of a file is one zero."""
    if tuple(path) == (0,):
        return b"\0"
    indexes = bytearray()
    for number in (len(path), *path):
        rest = number << 1
        while rest > 0x7F:
            indexes.append(rest & 0x7F | 0x80)
            rest >>= 7
        indexes.append(rest)
    return bytes(indexes)


def unframed(inner: ValueReader) -> ValueReader:
    """How a reader's values are read once number and zero byte are gone."""
    return _OneMessage(inner) if isinstance(inner, ProtobufValues) else inner


def by_one(inner: ValueReader) -> FramedValues:
    """All values by one schema, whatever number they name."""
    reader = unframed(inner)
    return FramedValues(inner.schema, lambda numbers: dict.fromkeys(numbers, reader))


def writer_of(schema: Schema, kind: str, message: str) -> ValueReader:
    """The reader of what was written with a registry's schema, or InvalidRequest."""
    if schema.kind != kind:
        raise InvalidRequest(f"schema {schema.number} is {schema.kind}, not {kind}")
    try:
        if kind == "avro":
            return AvroValues(schema.body.decode())
        return ProtobufValues(schema.body, message, first=True)
    except InvalidRequest as problem:
        raise InvalidRequest(f"schema {schema.number}: {problem}") from problem


def into(columns: pa.Schema, writer: ValueReader, number: int) -> ValueReader | str:
    """How values of a writer are read into columns, or why they cannot be."""
    kinds = {field.name: field.type for field in columns}
    for field in writer.schema:
        if field.name in kinds and (why := unfit(field.type, kinds[field.name])):
            return f"schema {number}: column {field.name!r}: {why}"
    return Projected(unframed(writer), columns)
