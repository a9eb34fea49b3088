"""Reading untrusted bytes of the Fluvio protocol, one value after the other.

Here: a place in a frame that moves on with every value. Each length is compared with what is left
before it is used, and all counts of a message together are bounded.
Next door: the readers this one uses (wire/buffer.py), which value follows which (schema.py).
Never here: sockets, messages.

Every reader raises MalformedMessage, and nothing else, whatever the bytes are.
"""

import struct
from typing import Any, Final

from kafscale.wire import buffer
from kafscale.wire.buffer import MalformedMessage

_SHORT: Final = struct.Struct(">H")
_LONGEST_VARINT: Final = 10


class BytesIn:
    """A message that is being read."""

    __slots__ = ("_rows", "at", "view")

    def __init__(self, view: memoryview, at: int = 0) -> None:
        self.view = view
        self.at = at
        self._rows = 0

    def unpack(self, packed: struct.Struct) -> Any:
        """The one value of a fixed size."""
        try:
            (value,) = packed.unpack_from(self.view, self.at)
        except struct.error:
            raise MalformedMessage(f"{packed.size} bytes at byte {self.at} are cut off") from None
        self.at += packed.size
        return value

    def flag(self) -> bool:
        """One byte, 0 or 1; it also stands before a value that may be missing."""
        if self.at >= len(self.view):
            raise MalformedMessage(f"flag at byte {self.at} is cut off")
        value = self.view[self.at]
        if value > 1:
            raise MalformedMessage(f"flag {value} at byte {self.at} is neither 0 nor 1")
        self.at += 1
        return value == 1

    def string(self) -> str:
        """Two bytes of length, then UTF-8. Fluvio reads a negative length as an empty string."""
        value, self.at = buffer.nullable_string(self.view, self.at)
        return value or ""

    def count(self, smallest: int) -> int:
        """How many rows follow, of at least `smallest` bytes each. Negative means none."""
        size, self.at = buffer.count(self.view, self.at, smallest)
        return self._counted(max(0, size))

    def short_count(self, smallest: int) -> int:
        """The same before the entries of a map."""
        size: int = self.unpack(_SHORT)
        if size * smallest > len(self.view) - self.at:
            raise MalformedMessage(f"{size} entries before byte {self.at} exceed the message")
        return self._counted(size)

    def _counted(self, size: int) -> int:
        self._rows += size
        buffer.row_count(self._rows)
        return size

    def slice(self) -> memoryview:
        """Four bytes of length, then that many bytes, which are not copied."""
        value, self.at = buffer.slice_of(self.view, self.at)
        return self.view[:0] if value is None else value

    def varint(self) -> int:
        """A number of up to ten bytes, zigzag."""
        raw = shift = 0
        for byte in self.view[self.at : self.at + _LONGEST_VARINT]:
            self.at += 1
            raw |= (byte & 0x7F) << shift
            if byte <= 0x7F:
                return (raw >> 1) ^ -(raw & 1)
            shift += 7
        raise MalformedMessage(f"number before byte {self.at} does not end")

    def data(self) -> bytes:
        """A length as records have it, then that many bytes."""
        size = self.varint()
        if not 0 <= size <= len(self.view) - self.at:
            raise MalformedMessage(f"{size} bytes at byte {self.at} exceed the message")
        self.at += size
        return bytes(self.view[self.at - size : self.at])
