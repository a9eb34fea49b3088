"""Values for every field of any table, made from a seed.

Here: messages that differ from their defaults in every field of a version, and plain data
(dicts, lists) of a message to compare with other libraries.
Never here: another library's classes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from kafscale.wire.kafka.catalog import APIS
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.schema import Field, M, Message, Struct, Wire, fields

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
_LETTERS = "abcdefghijklmnopqrstuvwxyz-._0123456789äß語🦜"


def kinds() -> Iterator[tuple[type[Message], int]]:
    """Every message in every version."""
    for api in APIS:
        for kind in (api.request, api.response):
            for version in api.versions:
                yield kind, version


class Maker:
    """Fills tables.

    A tame maker stays within what libraries with richer types can hold: known error codes, times
    of whole seconds that are neither negative nor beyond the calendar.
    """

    def __init__(self, seed: object, tame: bool = False) -> None:
        self._dice = random.Random(repr(seed))
        self._tame = tame

    def message(self, kind: type[M], version: int) -> M:
        return self._row(kind, version)  # type: ignore[return-value]

    def _row(self, row: type[Struct], version: int) -> Struct:
        return row(**{f.name: self._field(f, version) for f in fields(row, version) if f.there})

    def _field(self, field: Field, version: int) -> Any:
        if field.nullable and self._dice.random() < 0.25:
            return None
        for _ in range(100):
            value = self._value(field.wire, field.name, version)
            if value != field.default:
                return value
        raise AssertionError(f"no value but the default for {field}")

    def _value(self, wire: Wire, name: str, version: int) -> Any:
        match wire.name:
            case "string":
                return "".join(self._dice.choices(_LETTERS, k=self._size(300)))
            case "bytes" | "records":
                return self._dice.randbytes(self._size(5000))
            case "uuid":
                return self._dice.randbytes(16)
            case "bool":
                return self._dice.random() < 0.5
            case "float64":
                return self._dice.uniform(-1e9, 1e9)
            case "struct":
                assert wire.row is not None
                return self._row(wire.row, version)
            case "array":
                assert wire.element is not None
                long = 200 if wire.element.code else 4
                return [self._value(wire.element, name, version) for _ in range(self._size(long))]
        return self._integer(wire.name, name)

    def _size(self, largest: int) -> int:
        """Mostly small; sometimes nothing, sometimes more than one byte of varint can tell."""
        return self._dice.choice((0, 1, 2, 3, self._dice.randint(1, largest)))

    def _integer(self, wire: str, name: str) -> int:
        if self._tame and name.endswith("error_code"):
            return int(self._dice.choice(list(ErrorCode)))
        if self._tame and (name.endswith(("_ms", "timestamp"))):
            return self._dice.randrange(0, 2**31, 1000)
        bits = _BITS[wire]
        low = 0 if wire.startswith("u") else -(1 << (bits - 1))
        high = low + (1 << bits) - 1
        return self._dice.choice((low, high, 1, 0, self._dice.randint(low, high)))


def plain(value: Any) -> Any:
    """A message as dicts and lists, slices as bytes."""
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return value
