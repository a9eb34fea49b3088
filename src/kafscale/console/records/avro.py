"""Avro values as plain ones, by the schema that wrote them.

Here: a decoder that reads what the schema says and nothing else; how much, how deep and how many
is bounded, because both the schema and the value come from others. Whole numbers stay exact.
Next door: where schemas come from (schemas.py).
"""

import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import msgspec

_DEEPEST: Final = 40
_MOST_VALUES: Final = 50_000
_LONGEST_VARINT: Final = 10
_MOST_DIGITS: Final = 64
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)


class BadAvro(Exception):
    """The schema makes no sense, or the bytes are not of it."""


class AvroSchema:
    """A schema, with its named types found."""

    def __init__(self, text: bytes) -> None:
        """Read it. Raises BadAvro."""
        self._named: dict[str, Any] = {}
        try:
            self._schema = msgspec.json.decode(text)
            self._learn(self._schema, "", 0)
        except (msgspec.DecodeError, RecursionError, TypeError, KeyError, AttributeError) as bad:
            raise BadAvro(f"no Avro schema: {bad}") from bad

    def _learn(self, schema: Any, space: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise BadAvro("the schema is nested too deeply")
        if isinstance(schema, list):
            for one in schema:
                self._learn(one, space, depth + 1)
        if not isinstance(schema, dict):
            return
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            full = _full_name(schema["name"], str(schema.get("namespace", space)))
            self._named[full] = schema
            space = full.rpartition(".")[0]
            schema["namespace"] = space
        for field in schema.get("fields", ()):
            self._learn(field["type"], space, depth + 1)
        for part in ("items", "values"):
            if part in schema:
                self._learn(schema[part], space, depth + 1)
        if isinstance(kind, dict | list):
            self._learn(kind, space, depth + 1)

    def find(self, name: str, space: str) -> Any:
        """A named type as it is meant below a namespace."""
        found = self._named.get(_full_name(name, space), self._named.get(name))
        if found is None:
            raise BadAvro(f"the schema does not say what {name} is")
        return found

    def read(self, data: bytes) -> Any:
        """The value. Raises BadAvro."""
        reader = _Reader(self, data)
        try:
            value = reader.value(self._schema, "", 0)
        except (AttributeError, LookupError, TypeError, ValueError, struct.error) as bad:
            raise BadAvro(f"not a value of this schema: {bad}") from bad
        if reader.at != len(data):
            raise BadAvro(f"not a value of this schema: {len(data) - reader.at} bytes are left")
        return value


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


class _Reader:
    """A walk over the bytes of one value."""

    def __init__(self, schema: AvroSchema, data: bytes) -> None:
        self._schema = schema
        self._data = data
        self._left = _MOST_VALUES
        self.at = 0

    def value(self, schema: Any, space: str, depth: int) -> Any:
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            raise BadAvro("the value is too large or nested too deeply to be shown")
        if isinstance(schema, list):
            return self.value(schema[self._index(len(schema))], space, depth + 1)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return self._primitive(schema, {})
            schema = self._schema.find(schema, space)
        return self._complex(schema, schema.get("namespace", space), depth)

    def _complex(self, schema: dict[str, Any], space: str, depth: int) -> Any:
        kind = schema["type"]
        if kind in ("record", "error"):
            return {
                field["name"]: self.value(field["type"], space, depth + 1)
                for field in schema["fields"]
            }
        if kind == "enum":
            return schema["symbols"][self._index(len(schema["symbols"]))]
        if kind == "array":
            return [self.value(schema["items"], space, depth + 1) for _ in self._blocks()]
        if kind == "map":
            return {
                self._primitive("string", {}): self.value(schema["values"], space, depth + 1)
                for _ in self._blocks()
            }
        if kind == "fixed":
            return _bytes(self._take(schema["size"]), schema)
        if kind in _PRIMITIVES:
            return self._primitive(kind, schema)
        return self.value(kind, space, depth + 1)

    def _primitive(self, kind: str, schema: dict[str, Any]) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self._take(1) != b"\0"
        if kind in ("int", "long"):
            return self._long()
        if kind == "float":
            return _number(_FLOAT.unpack(self._take(4))[0])
        if kind == "double":
            return _number(_DOUBLE.unpack(self._take(8))[0])
        raw = self._take(self._long())
        return raw.decode("utf-8") if kind == "string" else _bytes(raw, schema)

    def _blocks(self) -> Iterator[None]:
        """One turn for each item of an array or a map; blocks may say their size in bytes."""
        while count := self._long():
            if count < 0:
                count = -count
                self._long()
            for _ in range(min(count, self._left + 1)):
                yield

    def _index(self, count: int) -> int:
        index = self._long()
        if not 0 <= index < count:
            raise BadAvro(f"not a value of this schema: {index} of {count} choices")
        return index

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self._data):
            raise BadAvro("not a value of this schema: it ends too early")
        piece = self._data[self.at : end]
        self.at = end
        return piece

    def _long(self) -> int:
        value = 0
        for turn in range(_LONGEST_VARINT):
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << (7 * turn)
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise BadAvro("not a value of this schema: a number is too long")


def _bytes(raw: bytes, schema: dict[str, Any]) -> str:
    """Bytes as hex; a decimal as the number that it is."""
    if schema.get("logicalType") == "decimal":
        scale = schema.get("scale", 0)
        if isinstance(scale, int) and 0 <= scale <= _MOST_DIGITS and len(raw) <= _MOST_DIGITS:
            whole = int.from_bytes(raw, "big", signed=True)
            return str(Decimal(whole).scaleb(-scale)) if scale else str(whole)
    return raw.hex()


def _number(value: float) -> float | str:
    """JSON has no word for what is no number."""
    return value if value - value == 0 else str(value)
