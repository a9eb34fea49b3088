"""Writing values of the Fluvio protocol.

Here: a message that grows; record sets are handed on without copying.
Next door: reading (bytes_in.py), which value follows which (schema.py).
Never here: anything read from outside; what is written here is our own.
"""

import struct
from collections.abc import Sequence
from typing import Final

from kafscale.model.buffers import Buffer

_LENGTH: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">H")
LONGEST_STRING: Final = 32767  # bytes: clients read the length as a signed number


class BytesOut:
    """A message that is being written. `out` is where the next value goes."""

    __slots__ = ("_done", "out")

    def __init__(self, out: bytearray | None = None) -> None:
        self.out = bytearray() if out is None else out
        self._done: list[Buffer] = []

    def string(self, value: str) -> None:
        """Write two bytes of length, then UTF-8; what is too long for that is cut."""
        text = value.encode()
        if len(text) > LONGEST_STRING:
            text = text[:LONGEST_STRING].decode(errors="ignore").encode()
        self.out += _SHORT.pack(len(text))
        self.out += text

    def flag(self, value: bool) -> None:
        """Write one byte, 0 or 1."""
        self.out.append(value)

    def count(self, size: int) -> None:
        """Write how many rows or bytes follow."""
        self.out += _LENGTH.pack(size)

    def short_count(self, size: int) -> None:
        """Write how many entries of a map follow."""
        self.out += _SHORT.pack(size)

    def written(self, row: bytes) -> None:
        """Write a row that has its bytes already."""
        self.out += row

    def data(self, value: bytes) -> None:
        """Write a length as records have it, then the bytes."""
        raw = len(value) << 1
        while raw > 0x7F:
            self.out.append(raw & 0x7F | 0x80)
            raw >>= 7
        self.out.append(raw)
        self.out += value

    def pieces(self, pieces: Sequence[Buffer]) -> None:
        """Write the size of all pieces together, then the pieces themselves."""
        self.count(sum(map(len, pieces)))
        if pieces:
            self._done.append(self.out)
            self._done.extend(pieces)
            self.out = bytearray()

    def buffers(self) -> list[Buffer]:
        """The whole message, to be sent one buffer after the other."""
        return [*self._done, self.out] if self.out or not self._done else self._done
