"""How values are to be read, and their reader.

Here: what the source's options and the command's arguments both become. Next door: the formats,
each a file of its own; values that name their schema by number (framed.py).
Never here: where values come from or go to.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from kafscale.model.configs.topic_configs import VALUE_FORMATS, VALUE_FRAMINGS
from kafscale.model.errors import InvalidRequest
from kafscale.spark.values import ddl, framed, registry
from kafscale.spark.values.avro import AvroValues
from kafscale.spark.values.decoding import Decoded, Projected, ValueReader, apart
from kafscale.spark.values.framed import FramedValues, Lookup
from kafscale.spark.values.json_values import JsonValues
from kafscale.spark.values.protobuf import ProtobufValues

REGISTERED: Final = ("avro", "protobuf")


class Spec(NamedTuple):
    """How values are to be read. Travels to workers; `schema` holds the schema itself.

    With a registry each value names the schema it was written with; a schema given as well
    says which columns are wanted of it.
    """

    format: str = "binary"
    schema: bytes = b""
    message: str = ""  # protobuf: which message of the descriptor set
    framing: str = "none"
    registry: str = ""
    subject: str = ""  # whose schemas are read from the start; others when they are met

    @property
    def digest(self) -> str:
        """Equal for equal verdicts on what parses and what does not."""
        parts = [self.format, self.schema.hex(), self.message, self.framing]
        parts += [self.registry, self.subject] if self.registry else []
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


BINARY: Final = Spec()


def spec_of(
    format: str,  # noqa: A002
    schema: str = "",
    message: str = "",
    framing: str = "none",
    registry: str = "",
    subject: str = "",
) -> Spec:
    """A spec from what people write: the schema itself or the name of a file with it."""
    file = Path(schema) if schema and len(schema) < 1000 and "\n" not in schema else None
    raw = file.read_bytes() if file is not None and file.is_file() else schema.encode()
    return checked(Spec(format, raw, message, framing, registry.rstrip("/"), subject))


def checked(spec: Spec) -> Spec:
    """The spec, or InvalidRequest: what makes no sense is refused here, not on a worker."""
    kind = spec.format
    if kind not in VALUE_FORMATS or spec.framing not in VALUE_FRAMINGS:
        kinds, frames = ", ".join(VALUE_FORMATS), ", ".join(VALUE_FRAMINGS)
        raise InvalidRequest(f"a value is {kinds}; its frame {frames}")
    if spec.registry and kind not in REGISTERED:
        raise InvalidRequest(f"a schema registry is for {' and '.join(REGISTERED)}, not for {kind}")
    if kind == "json" and not spec.schema:
        raise InvalidRequest("values in json need a schema, such as 'id bigint, name string'")
    if kind in REGISTERED and not (spec.schema or spec.registry):
        raise InvalidRequest(f"values in {kind} need a schema or a schema registry")
    if kind in ("binary", "string") and spec.schema:
        raise InvalidRequest(f"values in {kind} have no schema")
    if spec.schema:
        _by_schema(spec)
    return spec


def decoder_of(spec: Spec, columns: pa.Schema | None = None) -> ValueReader:
    """The reader of such values: into the columns of their schema, or those wanted."""
    if spec.registry:
        wanted = columns_of(spec) if columns is None else columns
        return FramedValues(wanted, _asking(spec, wanted))
    if spec.format == "json" and columns is not None:
        inner: ValueReader = JsonValues(columns)
    else:
        inner = _by_schema(spec)
    if spec.framing == "confluent":
        inner = framed.by_one(inner)
    if columns is None or inner.schema.equals(columns):
        return inner
    return Projected(inner, columns)


def columns_of(spec: Spec) -> pa.Schema:
    """The columns values have: by the schema given, else by the newest of the registry."""
    if spec.schema or not spec.registry:
        return _by_schema(spec).schema
    latest = registry.latest(spec.registry, spec.subject)
    return framed.writer_of(latest, spec.format, spec.message).schema


def _by_schema(spec: Spec) -> ValueReader:
    match spec.format:
        case "binary":
            return _Plain(pa.binary())
        case "string":
            return _Plain(pa.string())
        case "json":
            return JsonValues(ddl.parse(spec.schema.decode()))
        case "avro":
            return AvroValues(spec.schema.decode())
        case _:
            return ProtobufValues(spec.schema, spec.message)


def _asking(spec: Spec, columns: pa.Schema) -> Lookup:
    """Ask the registry for each number once; it being away is an error, no verdict on values."""
    known: dict[int, ValueReader | str] = {}

    def lookup(numbers: Sequence[int]) -> dict[int, ValueReader | str]:
        for number in numbers:
            if number not in known:
                known[number] = _look_up(spec, number, columns)
        return {number: known[number] for number in numbers}

    return lookup


def _look_up(spec: Spec, number: int, columns: pa.Schema) -> ValueReader | str:
    try:
        schema = registry.by_number(spec.registry, number)
        return framed.into(columns, framed.writer_of(schema, spec.format, spec.message), number)
    except (registry.NoSuchSchema, registry.UnreadableSchema, InvalidRequest) as problem:
        return str(problem)


class _Plain:
    """One column, the value itself."""

    def __init__(self, kind: pa.DataType) -> None:
        self.schema = pa.schema([("value", kind)])

    def decode(self, values: pa.Array) -> Decoded:
        kind = self.schema.field(0).type
        if kind == values.type:
            return Decoded([values], {})
        return apart(values, lambda some: [some.cast(kind)], self.schema, "not UTF-8")
