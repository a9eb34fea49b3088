"""Schemas of records that name theirs by its number, as the clients of a schema registry do.

Here: what was asked once is kept, and so is for half a minute that it could not be had: a search
must not ask for each record. Next door: the registry (a port, wired by the command line), Avro
(avro.py).
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from kafscale.console.records.avro import AvroSchema, BadAvro
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError

FRAME: Final = 5  # bytes: a zero, then the schema's number
LARGEST: Final = 1 << 20  # bytes of a value that is decoded by a schema
_FAILED_FOR_S: Final = 30.0
_MOST_KEPT: Final = 256


class SchemaUnusable(Exception):
    """The registry does not have it, does not answer, or the value is not of it."""


class FoundSchema(NamedTuple):
    """A schema. Avro's text, or for Protobuf a function from framed bytes to plain values."""

    kind: str  # avro, protobuf
    avro: bytes = b""
    read: Callable[[bytes], Any] | None = None


class SchemaPort(Protocol):
    """A registry; made by another room and handed in."""

    def find(self, number: int) -> FoundSchema:
        """Ask for a schema. Waits; raises SchemaUnusable or KafscaleError."""
        ...


class Schemas:
    """Decodes framed values. Used by several threads; at worst a schema is asked for twice."""

    def __init__(self, port: SchemaPort, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._known: dict[int, tuple[str, Callable[[bytes], Any]]] = {}
        self._failed: dict[int, tuple[float, str]] = {}

    def read(self, data: bytes) -> tuple[str, Any]:
        """The kind of a framed value, and the value. Raises SchemaUnusable."""
        if len(data) > LARGEST:
            raise SchemaUnusable(f"{len(data)} bytes are too many to be decoded here")
        number = int.from_bytes(data[1:FRAME], "big")
        kind, read = self._reader(number)
        try:
            return kind, read(data[FRAME:])
        except (BadAvro, KafscaleError) as bad:
            raise SchemaUnusable(f"schema {number}: {bad}") from bad

    def _reader(self, number: int) -> tuple[str, Callable[[bytes], Any]]:
        known = self._known.get(number)
        if known is not None:
            return known
        failed = self._failed.get(number)
        if failed is not None and self._clock.elapsed_s() - failed[0] < _FAILED_FOR_S:
            raise SchemaUnusable(failed[1])
        try:
            found = self._port.find(number)
            read = found.read or AvroSchema(found.avro).read
        except (SchemaUnusable, BadAvro, KafscaleError) as bad:
            _keep(self._failed, number, (self._clock.elapsed_s(), f"schema {number}: {bad}"))
            raise SchemaUnusable(f"schema {number}: {bad}") from bad
        _keep(self._known, number, (found.kind, read))
        return found.kind, read


def _keep(table: dict[int, Any], number: int, value: Any) -> None:
    while len(table) >= _MOST_KEPT:
        table.pop(next(iter(table)), None)
    table[number] = value
