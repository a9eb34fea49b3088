"""The words message tables are written in, and what a table says about one version.

Here: wire types, version ranges, reading a table.
Next door: the tables (messages/), how a table becomes code (emit_decode.py, emit_encode.py),
the two verbs that use it (codec.py).
Never here: frames and headers, bytes, any single API.

A table is a class. Its annotations say what is on the wire, in the order of the wire:

    class PartitionResponse(Struct):
        name: str = ""                                              in every version
        base_offset: Int64 = 0                                      eight bytes
        log_append_time_ms: Annotated[Int64, V(2)] = -1             from version 2 on
        error_message: Annotated[str | None, V(8)] = None           may be null
        topic: Annotated[str | None, V(nullable=10)] = ""           may be null from version 10 on
        cluster_id: Annotated[str | None, V(12, tag=0)] = None      a tagged field

A field outside the version at hand is not encoded, and has its default when decoded. A tagged
field is sent when it differs from its default; for a tagged struct, None stands for "not sent".
"""

from __future__ import annotations

import struct
import types
import typing
from collections.abc import Callable, Generator, Sequence
from typing import Annotated, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from kafscale.model.buffers import Buffer


class Wire(NamedTuple):
    """How a value travels. `code` is the struct module's, for types of fixed size."""

    name: str
    code: str = ""
    element: Wire | None = None  # of an array
    row: type[Struct] | None = None  # of a struct


class V(NamedTuple):
    """The versions a field exists in; since when it may be null, if its type admits None."""

    since: int = 0
    until: int = 32767
    nullable: int = 0
    nullable_until: int = 32767
    tag: int = -1


class Struct(msgspec.Struct, gc=False):
    """A row of a table. Rows form trees, never cycles, so the collector need not watch them."""


class Message(Struct):
    """A whole request or response."""

    api_key: ClassVar[int]
    versions: ClassVar[range]
    flexible_from: ClassVar[int]
    encoders: ClassVar[dict[int, Encoder]]
    decoders: ClassVar[dict[int, Decoder]]
    encoders_in_steps: ClassVar[dict[int, EncoderInSteps]]
    decoders_in_steps: ClassVar[dict[int, DecoderInSteps]]


Encoder: TypeAlias = Callable[[Struct, bytearray], list[Buffer]]
Decoder: TypeAlias = Callable[[memoryview, int], tuple[Struct, int]]
EncoderInSteps: TypeAlias = Callable[[Struct, bytearray], Generator[None, None, list[Buffer]]]
DecoderInSteps: TypeAlias = Callable[[memoryview, int], Generator[None, None, tuple[Struct, int]]]

Int8: TypeAlias = Annotated[int, Wire("int8", "b")]
Int16: TypeAlias = Annotated[int, Wire("int16", "h")]
Int32: TypeAlias = Annotated[int, Wire("int32", "i")]
Int64: TypeAlias = Annotated[int, Wire("int64", "q")]
UInt16: TypeAlias = Annotated[int, Wire("uint16", "H")]
UInt32: TypeAlias = Annotated[int, Wire("uint32", "I")]
Float64: TypeAlias = Annotated[float, Wire("float64", "d")]
Uuid: TypeAlias = Annotated[bytes, Wire("uuid", "16s")]
# Decoded, records are one slice of the frame; to be encoded they may come in several pieces.
Records: TypeAlias = Annotated[Buffer | Sequence[Buffer], Wire("records")]

NO_UUID: Final = bytes(16)

M = TypeVar("M", bound=Message)


def message(api_key: int, versions: range, flexible_from: int) -> Callable[[type[M]], type[M]]:
    """Make a table a message of an API. Nothing is compiled before its first use."""

    def signed(kind: type[M]) -> type[M]:
        kind.api_key = api_key
        kind.versions = versions
        kind.flexible_from = flexible_from
        kind.encoders = {}
        kind.decoders = {}
        kind.encoders_in_steps = {}
        kind.decoders_in_steps = {}
        return kind

    return signed


class Field(NamedTuple):
    """What a table says about a field in one version."""

    name: str
    wire: Wire
    there: bool
    nullable: bool
    tag: int
    default: object

    @property
    def tagged(self) -> bool:
        return self.tag >= 0


def fields(row: type[Struct], version: int) -> list[Field]:
    """All fields of a row, in order; those not `there` only have their default."""
    return [_field(info, version) for info in msgspec.structs.fields(row)]


def _field(info: msgspec.structs.FieldInfo, version: int) -> Field:
    hint, span = _versions(info.type)
    hint, admits_none = _without_none(hint)
    absent_as_none = span.tag >= 0 and isinstance(hint, type) and issubclass(hint, Struct)
    default = info.default if info.default is not msgspec.NODEFAULT else []
    return Field(
        name=info.name,
        wire=_wire(hint),
        there=span.since <= version <= span.until,
        nullable=admits_none
        and not absent_as_none
        and span.nullable <= version <= span.nullable_until,
        tag=span.tag,
        default=default,
    )


def _versions(hint: object) -> tuple[object, V]:
    if typing.get_origin(hint) is not Annotated:
        return hint, V()
    base, *notes = typing.get_args(hint)
    span = next((note for note in notes if isinstance(note, V)), V())
    wires = [note for note in notes if isinstance(note, Wire)]
    return (Annotated[base, wires[0]] if wires else base), span


def _without_none(hint: object) -> tuple[object, bool]:
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return hint, False
    (only,) = (arg for arg in typing.get_args(hint) if arg is not types.NoneType)
    return only, True


def _wire(hint: object) -> Wire:
    if typing.get_origin(hint) is Annotated:
        named = typing.get_args(hint)[1]
        assert isinstance(named, Wire)
        return named
    if typing.get_origin(hint) is list:
        return Wire("array", element=_wire(typing.get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return Wire("struct", row=hint)
    return _PLAIN[hint]


_PLAIN: Final[dict[object, Wire]] = {
    str: Wire("string"),
    bytes: Wire("bytes"),
    bool: Wire("bool", "?"),
}


def smallest(wire: Wire, version: int, flexible: bool, nullable: bool = False) -> int:
    """The fewest bytes a value can take: what a count is checked against."""
    if wire.code:
        return struct.calcsize(">" + wire.code)
    if wire.row is None:
        return 1 if flexible else 2 if wire.name == "string" else 4
    if nullable:
        return 1
    inner = (f for f in fields(wire.row, version) if f.there and not f.tagged)
    return sum(smallest(f.wire, version, flexible, f.nullable) for f in inner) + flexible
