"""Reading untrusted bytes: every length is checked here before it is used.

Here: integers of variable size, strings, byte fields, counts and tagged fields, each read
from a memoryview at a position and handed back with the position after it.
Next door: which field follows which (kafka/schema.py).
Never here: sockets, messages, a byte taken for a length before it was compared with what is left.

Every reader raises MalformedMessage, and nothing else, whatever the bytes are.
"""

import struct
from typing import Final

_MAX_U32: Final = 0xFFFF_FFFF
_MAX_U64: Final = 0xFFFF_FFFF_FFFF_FFFF
_INT16: Final = struct.Struct(">h").unpack_from
_INT32: Final = struct.Struct(">i").unpack_from
MOST_ROWS: Final = 100_000  # of one message, all arrays together


class MalformedMessage(ValueError):
    """The bytes are not what the protocol says they must be; the connection cannot go on."""


def unsigned_varint(view: memoryview, at: int) -> tuple[int, int]:
    """A 32-bit number in at most five bytes, seven bits each, lowest first."""
    try:
        value = view[at]
        if value < 0x80:
            return value, at + 1
        value &= 0x7F
        for place in range(1, 5):
            byte = view[at + place]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                if value > _MAX_U32:
                    break
                return value, at + place + 1
    except IndexError:
        raise MalformedMessage(f"varint at byte {at} is cut off") from None
    raise MalformedMessage(f"varint at byte {at} does not fit 32 bits")


def unsigned_varlong(view: memoryview, at: int) -> tuple[int, int]:
    """A 64-bit number in at most ten bytes."""
    value = 0
    try:
        for place in range(10):
            byte = view[at + place]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                if value > _MAX_U64:
                    break
                return value, at + place + 1
    except IndexError:
        raise MalformedMessage(f"varlong at byte {at} is cut off") from None
    raise MalformedMessage(f"varlong at byte {at} does not fit 64 bits")


def varint(view: memoryview, at: int) -> tuple[int, int]:
    """A signed 32-bit number, zigzag."""
    value, at = unsigned_varint(view, at)
    return (value >> 1) ^ -(value & 1), at


def varlong(view: memoryview, at: int) -> tuple[int, int]:
    """A signed 64-bit number, zigzag."""
    value, at = unsigned_varlong(view, at)
    return (value >> 1) ^ -(value & 1), at


# ---------------------------------------------------------------- lengths and counts


def _unfit(size: int, at: int) -> MalformedMessage:
    """What is wrong with a length that cannot be."""
    if size < -1:
        return MalformedMessage(f"negative length {size} before byte {at}")
    return MalformedMessage(f"length {size} before byte {at} exceeds the message")


# Every frame passes through the next functions several times: they call nothing in Python.


def count(view: memoryview, at: int, smallest: int) -> tuple[int, int]:
    """Elements of an array, -1 for null; `smallest` is the fewest bytes one can take."""
    try:
        (size,) = _INT32(view, at)
    except struct.error:
        raise MalformedMessage(f"int32 at byte {at} is cut off") from None
    at += 4
    if size < -1 or size * smallest > len(view) - at:
        raise _unfit(size, at)
    return size, at


def compact_count(view: memoryview, at: int, smallest: int) -> tuple[int, int]:
    """The same in a flexible version: one more than the count, 0 for null."""
    if at < len(view) and view[at] < 0x80:  # nearly always
        size, at = view[at], at + 1
    else:
        size, at = unsigned_varint(view, at)
    if (size - 1) * smallest > len(view) - at:
        raise _unfit(size - 1, at)
    return size - 1, at


def row_count(rows: int) -> None:
    """Refuse a message whose arrays together announce more rows than one may have."""
    if rows > MOST_ROWS:
        raise MalformedMessage(f"{rows} rows in one message; {MOST_ROWS} are allowed")


def short_length(view: memoryview, at: int) -> tuple[int, int]:
    """Length of a string, -1 for null."""
    try:
        (size,) = _INT16(view, at)
    except struct.error:
        raise MalformedMessage(f"int16 at byte {at} is cut off") from None
    at += 2
    if size < -1 or size > len(view) - at:
        raise _unfit(size, at)
    return size, at


def present(size: int, at: int) -> int:
    """A length or count that may not be null."""
    if size < 0:
        raise MalformedMessage(f"null before byte {at} where the field needs a value")
    return size


# ---------------------------------------------------------------- values of variable size


def _text(view: memoryview, at: int, size: int) -> tuple[str, int]:
    end = at + size
    try:
        return str(view[at:end], "utf-8"), end
    except UnicodeDecodeError:
        raise MalformedMessage(f"string at byte {at} is not UTF-8") from None


def string(view: memoryview, at: int) -> tuple[str, int]:
    """Two bytes of length, then UTF-8."""
    size, at = short_length(view, at)
    return _text(view, at, present(size, at))


def nullable_string(view: memoryview, at: int) -> tuple[str | None, int]:
    """The same, with length -1 for null."""
    size, at = short_length(view, at)
    return (None, at) if size < 0 else _text(view, at, size)


def compact_string(view: memoryview, at: int) -> tuple[str, int]:
    """A varint one above the length, then UTF-8."""
    size, at = compact_count(view, at, 1)
    return _text(view, at, present(size, at))


def compact_nullable_string(view: memoryview, at: int) -> tuple[str | None, int]:
    """The same, with 0 for null."""
    size, at = compact_count(view, at, 1)
    return (None, at) if size < 0 else _text(view, at, size)


def slice_of(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    """Four bytes of length, then that many bytes, handed out without copying; None for null."""
    size, at = count(view, at, 1)
    return (None, at) if size < 0 else (view[at : at + size], at + size)


def compact_slice_of(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    """The same behind a varint one above the length."""
    size, at = compact_count(view, at, 1)
    return (None, at) if size < 0 else (view[at : at + size], at + size)


def given(value: memoryview | None, at: int) -> memoryview:
    """A slice that may not be null."""
    if value is None:
        raise MalformedMessage(f"null before byte {at} where the field needs a value")
    return value


# ---------------------------------------------------------------- tagged fields


def skip_tags(view: memoryview, at: int) -> int:
    """Step over the tagged fields of a struct that knows none; nearly always a zero byte."""
    if at < len(view) and view[at] == 0:
        return at + 1
    return tags(view, at, -1)[1]


def tags(view: memoryview, at: int, highest: int) -> tuple[dict[int, memoryview], int]:
    """The tagged fields up to number `highest`, each cut out so that it cannot read past itself.

    The numbers have to rise. That makes a repeated one visible without remembering all of them,
    which a sender could use to fill memory.
    """
    total, at = unsigned_varint(view, at)
    if total * 2 > len(view) - at:
        raise _unfit(total, at)
    found: dict[int, memoryview] = {}
    last = -1
    for _ in range(total):
        tag, at = unsigned_varint(view, at)
        size, at = unsigned_varint(view, at)
        if size > len(view) - at:
            raise _unfit(size, at)
        if tag <= last:
            raise MalformedMessage(f"tagged field {tag} comes twice or after {last}")
        if tag <= highest:
            found[tag] = view[at : at + size]
        at += size
        last = tag
    return found, at


def exhausted(value: memoryview, at: int, tag: int) -> None:
    """A tagged field has to be as long as it said."""
    if at != len(value):
        raise MalformedMessage(f"tagged field {tag} is {len(value)} bytes, {at} were read")
