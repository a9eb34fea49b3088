"""The words that Fluvio's tables are written in, and how a table is read and written.

Here: what each annotation of a table means on the wire, by version. A table is a class; its fields
stand in the order of the wire:

    class PartitionStatus(FluvioTable):
        resolution: U8 = 1                            one byte
        replicas: list[ReplicaStatus] = []            a count of four bytes, then the rows
        size: Annotated[I64, VersionSpan(5)] = -2            from version 5 on
        rack: str | None = None                       a flag, then the string if there is one
        replica_map: dict[U32, list[I32]] = {}        a count of two bytes, then the entries
        wasm: Annotated[A | B, OneOf(A, B)]           one byte that says which, then its fields

A field outside the version at hand is not written, and has its default when it is read.
Next door: the tables (messages/, messages/objects.py), single values (bytes_in.py, bytes_out.py).
Never here: frames; Kafka's tables, which are other ones (flexible versions, tagged fields).
"""

from __future__ import annotations

import functools
import struct
import types
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from kafscale.model.buffers import Buffer
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.fluvio.bytes_in import BytesIn
from kafscale.wire.fluvio.bytes_out import BytesOut
from kafscale.wire.fluvio.errors import DETAILS, FluvioError


class Packed(NamedTuple):
    """A number of fixed size. `code` is the struct module's."""

    code: str


class VersionSpan(NamedTuple):
    """The versions that a field exists in."""

    since: int = 0
    until: int = 32767


class OneOf:
    """One of several rows; its number comes first. None has no fields."""

    def __init__(self, *rows: type[FluvioTable] | None) -> None:
        self.rows = rows


class FluvioTable(msgspec.Struct, gc=False, frozen=True):
    """A row of a table. Rows form trees, never cycles, so the collector need not watch them."""


class RecordsMark(NamedTuple):
    """Marks a field of record batches: read as one slice, written in pieces."""


class WrittenMark(NamedTuple):
    """Marks a row that was written before, for many messages. It is not read."""


U8: TypeAlias = Annotated[int, Packed("B")]
I16: TypeAlias = Annotated[int, Packed("h")]
U16: TypeAlias = Annotated[int, Packed("H")]
I32: TypeAlias = Annotated[int, Packed("i")]
U32: TypeAlias = Annotated[int, Packed("I")]
I64: TypeAlias = Annotated[int, Packed("q")]
U64: TypeAlias = Annotated[int, Packed("Q")]
RecordSetBytes: TypeAlias = Annotated[Sequence[Buffer] | memoryview, RecordsMark()]
WrittenRow: TypeAlias = Annotated[bytes, WrittenMark()]

R = TypeVar("R", bound=FluvioTable)


class ValueCodec(NamedTuple):
    """How a value is read and written, and the fewest bytes it can take."""

    read: Callable[[BytesIn], Any]
    write: Callable[[BytesOut, Any], None]
    smallest: int


def decode(kind: type[R], view: memoryview, version: int, at: int = 0) -> R:
    """Read one table; what follows it is not looked at."""
    row: R = codec_of(kind, version).read(BytesIn(view, at))
    return row


def encode(row: FluvioTable, version: int, out: bytearray | None = None) -> list[Buffer]:
    """Write one table; the first buffer is `out` itself, in which a header may stand already."""
    target = BytesOut(out)
    codec_of(type(row), version).write(target, row)
    return target.buffers()


@functools.cache
def codec_of(kind: type[FluvioTable], version: int) -> ValueCodec:
    """How one version of a table is read and written."""
    hints = typing.get_type_hints(kind, include_extras=True)
    there: list[tuple[str, ValueCodec]] = []
    for field in msgspec.structs.fields(kind):
        hint, span = _span(hints[field.name])
        if span.since <= version <= span.until:
            there.append((field.name, _codec(hint, version)))

    def read(source: BytesIn) -> FluvioTable:
        return kind(**{name: codec.read(source) for name, codec in there})

    def write(target: BytesOut, row: FluvioTable) -> None:
        for name, codec in there:
            codec.write(target, getattr(row, name))

    return ValueCodec(read, write, sum(codec.smallest for _, codec in there))


def _span(hint: Any) -> tuple[Any, VersionSpan]:
    if typing.get_origin(hint) is not Annotated:
        return hint, VersionSpan()
    base, *notes = typing.get_args(hint)
    spans = [note for note in notes if isinstance(note, VersionSpan)]
    rest = [note for note in notes if not isinstance(note, VersionSpan)]
    return (Annotated[base, *rest] if rest else base), (spans[0] if spans else VersionSpan())


def _codec(hint: Any, version: int) -> ValueCodec:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _noted(typing.get_args(hint)[1], version)
    if origin is list:
        return _list(_codec(typing.get_args(hint)[0], version))
    if origin is dict:
        key, value = typing.get_args(hint)
        return _map(_codec(key, version), _codec(value, version))
    if origin in (types.UnionType, typing.Union):
        (only,) = (one for one in typing.get_args(hint) if one is not types.NoneType)
        return _option(_codec(only, version))
    if isinstance(hint, type) and issubclass(hint, FluvioTable):
        return codec_of(hint, version)
    return _PLAIN[hint]


def _noted(note: object, version: int) -> ValueCodec:
    if isinstance(note, Packed):
        return _number(note.code)
    if isinstance(note, OneOf):
        return _one_of(note, version)
    if isinstance(note, WrittenMark):
        return ValueCodec(_refuse_to_read, BytesOut.written, 1)
    assert isinstance(note, RecordsMark)
    return ValueCodec(BytesIn.slice, BytesOut.pieces, 4)


@functools.cache
def _number(code: str) -> ValueCodec:
    packed = struct.Struct(">" + code)

    def write(target: BytesOut, value: int) -> None:
        target.out += packed.pack(value)

    return ValueCodec(lambda source: source.unpack(packed), write, packed.size)


def _list(element: ValueCodec) -> ValueCodec:
    def read(source: BytesIn) -> list[Any]:
        return [element.read(source) for _ in range(source.count(element.smallest))]

    def write(target: BytesOut, rows: Sequence[Any]) -> None:
        target.count(len(rows))
        for row in rows:
            element.write(target, row)

    return ValueCodec(read, write, 4)


def _map(key: ValueCodec, value: ValueCodec) -> ValueCodec:
    def read(source: BytesIn) -> dict[Any, Any]:
        count = source.short_count(key.smallest + value.smallest)
        return {key.read(source): value.read(source) for _ in range(count)}

    def write(target: BytesOut, entries: dict[Any, Any]) -> None:
        target.short_count(len(entries))
        for name, row in entries.items():
            key.write(target, name)
            value.write(target, row)

    return ValueCodec(read, write, 2)


def _option(inner: ValueCodec) -> ValueCodec:
    def read(source: BytesIn) -> Any:
        return inner.read(source) if source.flag() else None

    def write(target: BytesOut, value: Any) -> None:
        target.flag(value is not None)
        if value is not None:
            inner.write(target, value)

    return ValueCodec(read, write, 1)


def _one_of(choice: OneOf, version: int) -> ValueCodec:
    codecs = [None if row is None else codec_of(row, version) for row in choice.rows]
    numbers = {row or types.NoneType: number for number, row in enumerate(choice.rows)}
    tag = _number("B")

    def read(source: BytesIn) -> FluvioTable | None:
        number = tag.read(source)
        if number >= len(codecs):
            raise MalformedMessage(f"choice {number} before byte {source.at} is unknown")
        codec = codecs[number]
        return None if codec is None else codec.read(source)

    def write(target: BytesOut, row: FluvioTable | None) -> None:
        number = numbers[type(row)]
        tag.write(target, number)
        codec = codecs[number]
        if codec is not None:
            codec.write(target, row)

    return ValueCodec(read, write, 1)


def _refuse_to_read(source: BytesIn) -> bytes:
    raise TypeError("rows that were written before are read by their own table")


def _write_bytes(target: BytesOut, value: bytes) -> None:
    target.count(len(value))
    target.out += value


def _read_error(source: BytesIn) -> FluvioError:
    code = _number("h").read(source)
    kinds = DETAILS.get(code, ())
    return FluvioError(code, tuple(_detail(kind).read(source) for kind in kinds))


def _write_error(target: BytesOut, error: FluvioError) -> None:
    _number("h").write(target, error.code)
    for kind, value in zip(DETAILS.get(error.code, ()), error.details, strict=True):
        _detail(kind).write(target, value)


@functools.cache
def _detail(kind: str) -> ValueCodec:
    """How a value of an error is read and written, by its name in DETAILS."""
    name = kind.removesuffix("?")
    if name == "string":
        codec = _PLAIN[str]
    else:
        codec = ValueCodec(BytesIn.data, BytesOut.data, 1) if name == "data" else _number(name)
    return _option(codec) if kind.endswith("?") else codec


_PLAIN: Final[dict[object, ValueCodec]] = {
    str: ValueCodec(BytesIn.string, BytesOut.string, 2),
    bool: ValueCodec(BytesIn.flag, BytesOut.flag, 1),
    bytes: ValueCodec(lambda source: bytes(source.slice()), _write_bytes, 4),
    FluvioError: ValueCodec(_read_error, _write_error, 2),
}
