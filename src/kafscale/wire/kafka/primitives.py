"""Writing the values that have no fixed size.

Here: lengths, strings, byte fields, records; rows of integers in one stroke.
Next door: reading them (wire/buffer.py), the order they come in (schema.py).
Never here: anything read from outside; what is written here is our own.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final

from kafscale.model.buffers import Buffer

_ONE_BYTE: Final = [bytes((n,)) for n in range(0x80)]
_SHORT: Final = struct.Struct(">h").pack

# Below this, copying records beside their length is cheaper than one more buffer to send.
_WORTH_PASSING_ON: Final = 1024


def unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, lowest first."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Before bytes, records and arrays; -1 for null.
length: Final[Callable[[int], bytes]] = struct.Struct(">i").pack


def compact_length(size: int) -> bytes:
    """The same in a flexible version."""
    return _ONE_BYTE[size + 1] if size < 0x7F else unsigned_varint(size + 1)


def string(value: str) -> bytes:
    """Two bytes of length, then UTF-8."""
    text = value.encode()
    return _SHORT(len(text)) + text


def nullable_string(value: str | None) -> bytes:
    """The same, with length -1 for null."""
    return b"\xff\xff" if value is None else string(value)


def compact_string(value: str) -> bytes:
    """A varint one above the length, then UTF-8."""
    text = value.encode()
    return compact_length(len(text)) + text


def compact_nullable_string(value: str | None) -> bytes:
    """The same, with 0 for null."""
    return b"\0" if value is None else compact_string(value)


def put_records(
    done: list[Buffer],
    out: bytearray,
    records: Buffer | Sequence[Buffer],
    measure: Callable[[int], bytes],
) -> bytearray:
    """Hand records on without copying; returns the buffer to go on writing into."""
    if not records:  # most partitions of a consumer that keeps up have none
        out += measure(0)
        return out
    if not isinstance(records, (bytes, bytearray, memoryview)):
        size = sum(map(len, records))
        out += measure(size)
        if size >= _WORTH_PASSING_ON:
            done.append(out)
            done.extend(records)
            return bytearray()
        for piece in records:
            out += piece
        return out
    size = len(records)
    out += measure(size)
    if size >= _WORTH_PASSING_ON:
        done.append(out)
        done.append(records)
        return bytearray()
    out += records
    return out


class RowPackers(dict[tuple[int, ...], Callable[..., bytes]]):
    """Packs a row of integers and integer arrays with one call.

    The template has a hole per array, as in ">hii{}{}x". A key gives the arrays' lengths, and the
    packer found under it takes all values in order, each array's count (plus one in flexible
    versions) before its elements. Packers are made when a shape is first seen.
    """

    __slots__ = ("_codes", "_flexible", "_template")

    def __init__(self, template: str, codes: tuple[str, ...], flexible: bool) -> None:
        super().__init__()
        self._template = template
        self._codes = codes
        self._flexible = flexible

    def __missing__(self, sizes: tuple[int, ...]) -> Callable[..., bytes]:
        if len(self) >= 1024:
            self.clear()
        packer = self._long(sizes) if self._flexible and max(sizes) > 126 else self._short(sizes)
        self[sizes] = packer
        return packer

    def _short(self, sizes: tuple[int, ...]) -> Callable[..., bytes]:
        count = "B" if self._flexible else "i"
        holes = (f"{count}{size}{code}" for size, code in zip(sizes, self._codes, strict=True))
        return struct.Struct(self._template.format(*holes)).pack

    def _long(self, sizes: tuple[int, ...]) -> Callable[..., bytes]:
        """Some count needs a varint of several bytes: write the counts as byte strings."""
        counts = [unsigned_varint(size + 1) for size in sizes]
        holes = (
            f"{len(count)}s{size}{code}"
            for count, size, code in zip(counts, sizes, self._codes, strict=True)
        )
        pack = struct.Struct(self._template.format(*holes)).pack
        places = self._places_of_counts(sizes)

        def packer(*values: object) -> bytes:
            filled = list(values)
            for place, count in zip(places, counts, strict=True):
                filled[place] = count
            return pack(*filled)

        return packer

    def _places_of_counts(self, sizes: tuple[int, ...]) -> list[int]:
        places = []
        at = 0
        for piece, size in zip(self._template.split("{}"), sizes, strict=False):
            at += sum(code not in ">x0123456789" for code in piece)
            places.append(at)
            at += 1 + size
        return places
