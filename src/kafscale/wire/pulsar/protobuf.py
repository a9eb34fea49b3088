"""Protocol Buffers' encoding (proto2), driven by tables of fields.

Here: a message class per table, reading it from bytes and writing it. Every length is checked
before it is used, nesting and repetition have limits, and unknown fields are passed over.
Next door: the tables (messages), frames (frame.py).
Never here: sockets, a library: the few types that the protocol uses need none.

A field that was not given, or is None, is not written. A required field that is missing makes a
message malformed.
"""

import struct
from typing import Any, ClassVar, Final, Self, TypeVar

from kafscale.wire.buffer import MOST_ROWS, MalformedMessage, unsigned_varlong

_DEEPEST: Final = 6  # messages within messages; the protocol needs four
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = struct.Struct("<d")
_SIGN: Final = 1 << 63
_WRAP: Final = 1 << 64
_SMALL: Final = tuple(bytes((value,)) for value in range(0x80))


class _Missing:
    """The default of a required field."""


REQUIRED: Final[Any] = _Missing()


class ProtoField:
    """One row of a table: number, type, and what a message has if the field is absent."""

    __slots__ = ("default", "is_repeated", "kind", "message", "name", "number", "tag")

    def __init__(
        self,
        number: int,
        kind: str,
        default: Any,
        message: "type[ProtoMessage] | None" = None,
        *,
        is_repeated: bool = False,
    ) -> None:
        self.number = number
        self.kind = kind
        self.default = default
        self.message = message
        self.is_repeated = is_repeated
        self.name = ""
        wire_type = {"double": _FIXED64, "string": _SIZED, "bytes": _SIZED, "message": _SIZED}
        self.tag = varint(number << 3 | wire_type.get(kind, _VARINT))


def number(at: int, default: Any = None) -> Any:
    """An unsigned number of up to 64 bits: also what the protocol calls an enum."""
    return ProtoField(at, "unsigned", default)


def signed(at: int, default: Any = None) -> Any:
    """A number of 64 bits that may be negative: -1 is written as ten bytes."""
    return ProtoField(at, "signed", default)


def boolean(at: int, default: Any = None) -> Any:
    """A truth value."""
    return ProtoField(at, "bool", default)


def string(at: int, default: Any = None) -> Any:
    """UTF-8."""
    return ProtoField(at, "string", default)


def raw(at: int, default: Any = None) -> Any:
    """Bytes."""
    return ProtoField(at, "bytes", default)


def double(at: int, default: Any = None) -> Any:
    """A floating-point number."""
    return ProtoField(at, "double", default)


def nested(at: int, message: "type[ProtoMessage]", default: Any = None) -> Any:
    """A message."""
    return ProtoField(at, "message", default, message)


def many(field: Any) -> Any:
    """Any number of such fields, as a tuple."""
    return ProtoField(field.number, field.kind, (), field.message, is_repeated=True)


class _Limits:
    """How much more one message may hold."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows = MOST_ROWS


class ProtoMessage:
    """Base of all messages; a subclass is its table of fields, by rising number."""

    table: ClassVar[tuple[ProtoField, ...]] = ()
    by_number: ClassVar[dict[int, ProtoField]] = {}
    required: ClassVar[tuple[str, ...]] = ()
    names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Read the table off the class."""
        fields = []
        for name, field in list(vars(cls).items()):
            if isinstance(field, ProtoField):
                field.name = name
                fields.append(field)
                setattr(cls, name, field.default)
        cls.table = tuple(fields)
        cls.by_number = {field.number: field for field in fields}
        cls.required = tuple(field.name for field in fields if field.default is REQUIRED)
        cls.names = frozenset(field.name for field in fields)

    def __init__(self, **values: Any) -> None:
        if values:
            if not self.names.issuperset(values):
                raise TypeError(f"{type(self).__name__} has no {values.keys() - self.names}")
            self.__dict__.update(values)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, field.name) == getattr(other, field.name) for field in self.table
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = (field.name for field in self.table if field.name in self.__dict__)
        given = ", ".join(f"{name}={self.__dict__[name]!r}" for name in names)
        return f"{type(self).__name__}({given})"

    @classmethod
    def decode(cls, view: memoryview) -> Self:
        """Read a message that fills `view`. Raises MalformedMessage and nothing else."""
        return _decode(cls, view, 0, len(view), _DEEPEST, _Limits())

    def encode(self) -> bytes:
        """Write the fields that were given, in the order of the table."""
        parts: list[bytes] = []
        for field in self.table:
            value = self.__dict__.get(field.name)
            if value is None:
                continue
            if field.is_repeated:
                for one in value:
                    _write(parts, field, one)
            else:
                _write(parts, field, value)
        return b"".join(parts)


_M = TypeVar("_M", bound=ProtoMessage)


def _decode(kind: type[_M], view: memoryview, at: int, end: int, depth: int, limits: _Limits) -> _M:
    if not depth:
        raise MalformedMessage(f"more than {_DEEPEST} messages within each other")
    found = kind()
    values = found.__dict__
    known = kind.by_number
    while at < end:
        key, at = _read_varint(view, at, end)
        field = known.get(key >> 3)
        if field is None:
            at = _skip(view, at, end, key)
            continue
        wire_type = key & 7
        value: Any
        if wire_type == _VARINT:
            value, at = _read_varint(view, at, end)
            value = _of_varint(field, value)
        elif wire_type == _SIZED:
            size, at = _read_varint(view, at, end)
            after = at + _within(size, at, end)
            if field.is_repeated and field.kind in ("unsigned", "signed"):
                _add_packed(values, field, view, at, after, limits)
                at = after
                continue
            value = _of_bytes(field, view, at, after, depth, limits)
            at = after
        elif wire_type == _FIXED64 and field.kind == "double":
            (value,) = _DOUBLE.unpack_from(view, at + _within(8, at, end) - 8)
            at += 8
        else:
            raise MalformedMessage(f"field {field.number} has the wrong type {wire_type}")
        if field.is_repeated:
            _add(values, field.name, value, limits)
        else:
            values[field.name] = value
    for name in kind.required:
        if name not in values:
            raise MalformedMessage(f"{kind.__name__} has no {name}")
    return found


def _within(size: int, at: int, end: int) -> int:
    if size > end - at:
        raise MalformedMessage(f"{size} bytes claimed at byte {at}, {end - at} are left")
    return size


def _of_bytes(
    field: ProtoField, view: memoryview, at: int, end: int, depth: int, limits: _Limits
) -> Any:
    if field.message is not None:
        return _decode(field.message, view, at, end, depth - 1, limits)
    if field.kind == "string":
        return _text(view, at, end)
    if field.kind == "bytes":
        return bytes(view[at:end])
    raise MalformedMessage(f"field {field.number} has bytes and needs a number")


def _add(values: dict[str, Any], name: str, value: object, limits: _Limits) -> None:
    limits.rows -= 1
    if limits.rows < 0:
        raise MalformedMessage(f"more than {MOST_ROWS} rows in one message")
    if name in values:
        values[name].append(value)
    else:
        values[name] = [value]


def _add_packed(
    values: dict[str, Any], field: ProtoField, view: memoryview, at: int, end: int, limits: _Limits
) -> None:
    while at < end:
        value, at = _read_varint(view, at, end)
        _add(values, field.name, _of_varint(field, value), limits)


def _of_varint(field: ProtoField, value: int) -> int | bool:
    if field.kind == "unsigned":
        return value
    if field.kind == "signed":
        return value - _WRAP if value & _SIGN else value
    if field.kind == "bool":
        return value != 0
    raise MalformedMessage(f"field {field.number} has a number and needs {field.kind}")


def _read_varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    if at < end and view[at] < 0x80:
        return view[at], at + 1
    value, at = unsigned_varlong(view, at)
    if at > end:
        raise MalformedMessage(f"a number runs over the end of its message at byte {end}")
    return value, at


def _skip(view: memoryview, at: int, end: int, key: int) -> int:
    """Pass over a field that the table does not have."""
    wire_type = key & 7
    if not key >> 3:
        raise MalformedMessage(f"field number 0 before byte {at}")
    if wire_type == _VARINT:
        return _read_varint(view, at, end)[1]
    if wire_type == _SIZED:
        size, at = _read_varint(view, at, end)
    elif wire_type in (_FIXED64, _FIXED32):
        size = 8 if wire_type == _FIXED64 else 4
    else:
        raise MalformedMessage(f"wire type {wire_type} before byte {at}")
    return at + _within(size, at, end)


def _text(view: memoryview, at: int, end: int) -> str:
    try:
        return str(view[at:end], "utf-8")
    except UnicodeDecodeError:
        raise MalformedMessage(f"the string at byte {at} is not UTF-8") from None


def _write(parts: list[bytes], field: ProtoField, value: Any) -> None:
    parts.append(field.tag)
    kind = field.kind
    if kind == "unsigned" or kind == "bool":
        parts.append(varint(value))
    elif kind == "signed":
        parts.append(varint(value % _WRAP))
    elif kind == "double":
        parts.append(_DOUBLE.pack(value))
    else:
        data = value.encode() if kind != "bytes" else value  # a string's encode, or a message's
        parts += (varint(len(data)), data)


def varint(value: int) -> bytes:
    """An unsigned number, seven bits a byte, lowest first."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
