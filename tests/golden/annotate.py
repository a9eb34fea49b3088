"""Request frames as text people can check: one line per field, bytes left, meaning right.

Here: a second, slow reader of the tables, independent of the compiled one; writing and reading
.hex files.
Never here: speed, or trust in anything but frames captured by capture.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.schema import Struct, Wire, fields

_BYTES_PER_LINE = 24


class Line(NamedTuple):
    """Some bytes and what they are."""

    data: bytes
    meaning: str


class Walker:
    """Reads a frame field by field and remembers what every byte was for."""

    def __init__(self, frame: bytes) -> None:
        self.lines: list[Line] = []
        self._frame = frame
        self._at = 0
        self._flexible = False
        self._version = 0

    def request(self) -> None:
        self._fixed("i", "length")
        api = BY_KEY[self._fixed("h", "api_key")]
        self._version = self._fixed("h", "api_version")
        self._fixed("i", "correlation_id")
        self._string("client_id")
        self._flexible = api.flexible(self._version)
        self._tags(Struct, "header")
        self._row(api.request, "")
        assert self._at == len(self._frame), "bytes are left"

    def _take(self, size: int, meaning: str) -> bytes:
        data = self._frame[self._at : self._at + size]
        assert len(data) == size, f"{meaning} is cut off"
        self._at += size
        self.lines.append(Line(data, meaning))
        return data

    def _fixed(self, code: str, name: str) -> Any:
        size = struct.calcsize(">" + code)
        (value,) = struct.unpack_from(">" + code, self._frame, self._at)
        shown = value.hex() if isinstance(value, bytes) else value
        self._take(size, f"{name} = {shown}")
        return value

    def _varint(self) -> tuple[int, int]:
        """Value and number of bytes of the varint here; takes nothing."""
        value = size = 0
        while True:
            byte = self._frame[self._at + size]
            value |= (byte & 0x7F) << (7 * size)
            size += 1
            if byte < 0x80:
                return value, size

    def _length(self, code: str, name: str) -> int:
        if not self._flexible:
            return int(self._fixed(code, f"length of {name}"))
        value, size = self._varint()
        self._take(size, f"length of {name} = {value - 1}")
        return value - 1

    def _string(self, name: str) -> None:
        size = self._length("h", name)
        if size > 0:
            shown = self._frame[self._at : self._at + size].decode()
            self._take(size, f'{name} = "{shown}"')

    def _row(self, row: type[Struct], path: str) -> None:
        for field in fields(row, self._version):
            if field.there and not field.tagged:
                self._value(field.wire, f"{path}{field.name}")
        self._tags(row, path.removesuffix(".") or "the request")

    def _value(self, wire: Wire, name: str) -> None:
        if wire.code:
            self._fixed(wire.code, name)
        elif wire.name == "string":
            self._string(name)
        elif wire.row is not None:
            self._row(wire.row, f"{name}.")
        elif wire.element is not None:
            for index in range(self._length("i", name)):
                self._value(wire.element, f"{name}[{index}]")
        else:
            size = self._length("i", name)
            if size > 0:
                self._take(size, f"{name}, {size} bytes")

    def _tags(self, row: type[Struct], of: str) -> None:
        if not self._flexible:
            return
        number, size = self._varint()
        self._take(size, f"tagged fields of {of} = {number}")
        names = {f.tag: f for f in fields(row, self._version) if f.there and f.tagged}
        for _ in range(number):
            tag, size = self._varint()
            self._take(size, f"tag = {tag}")
            length, size = self._varint()
            self._take(size, f"length of tag {tag} = {length}")
            if tag in names:
                self._value(names[tag].wire, names[tag].name)
            else:
                self._take(length, f"unknown tag {tag}")


def as_text(frame: bytes, title: str) -> str:
    """The .hex file of a frame."""
    walker = Walker(frame)
    walker.request()
    assert b"".join(line.data for line in walker.lines) == frame
    return f"# {title}\n" + "".join(_shown(walker.lines))


def _shown(lines: list[Line]) -> Iterator[str]:
    for data, meaning in lines:
        rows = [data[i : i + _BYTES_PER_LINE] for i in range(0, len(data), _BYTES_PER_LINE)]
        yield f"{rows[0].hex():<16}  # {meaning}\n"
        yield from (f"{row.hex()}\n" for row in rows[1:])


def from_text(text: str) -> bytes:
    """The frame of a .hex file."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))
