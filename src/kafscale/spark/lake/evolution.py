"""How a table's columns follow the schemas of a registry.

Here: which schemas are known, which columns they make together, and which of them do not go with
the table. Only the driver asks the registry. A worker that meets the number of an unknown schema
reports it; the driver looks it up and repeats the round. Columns thus exist before any file that
has them, and all workers come to the same verdict.
Next door: reading values by many schemas (values/framed.py), adding columns (schemas.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from kafscale.model.errors import InvalidRequest
from kafscale.spark.lake import schemas
from kafscale.spark.values import formats, framed, registry, types
from kafscale.spark.values.decoding import ValueReader
from kafscale.spark.values.formats import Spec
from kafscale.spark.values.framed import FramedValues, UnknownSchemas
from kafscale.spark.values.registry import Schema


class ValueReading(NamedTuple):
    """How values become columns; pickled to workers, which ask no registry."""

    spec: Spec
    columns: pa.Schema
    known: tuple[Schema, ...] = ()
    refused: Mapping[int, str] = {}

    def decoder(self) -> ValueReader:
        """The reader of such values; raises UnknownSchemas for numbers it does not know."""
        if not self.spec.registry:
            return formats.decoder_of(self.spec)
        readers: dict[int, ValueReader | str] = dict(self.refused)
        for schema in self.known:
            writer = framed.writer_of(schema, self.spec.format, self.spec.message)
            readers[schema.number] = framed.into(self.columns, writer, schema.number)

        def lookup(numbers: Sequence[int]) -> dict[int, ValueReader | str]:
            if unknown := set(numbers) - readers.keys():
                raise UnknownSchemas(unknown)
            return {number: readers[number] for number in numbers}

        return FramedValues(self.columns, lookup)


def begin(spec: Spec, table: pa.Schema | None) -> ValueReading:
    """What is known before any value is: the schema given, or all of the registry's subject."""
    if not spec.registry:
        return ValueReading(spec, formats.columns_of(spec))
    empty = ValueReading(spec, formats.columns_of(spec) if spec.schema else pa.schema([]))
    return _grown(empty, registry.versions(spec.registry, spec.subject), table)


def learn(reading: ValueReading, numbers: Iterable[int], table: pa.Schema | None) -> ValueReading:
    """Look up schemas that values name. A registry that is away is an error, no verdict."""
    new_schemas, refused = [], dict(reading.refused)
    for number in sorted(numbers):
        try:
            new_schemas.append(registry.by_number(reading.spec.registry, number))
        except (registry.NoSuchSchema, registry.UnreadableSchema) as problem:
            refused[number] = str(problem)
    return _grown(reading._replace(refused=refused), new_schemas, table)


def _grown(
    reading: ValueReading, new_schemas: Iterable[Schema], table: pa.Schema | None
) -> ValueReading:
    """Take schemas in, oldest first: what a table has stays, and of two that differ the first."""
    for schema in new_schemas:
        if any(schema.number == other.number for other in reading.known):
            continue
        try:
            columns = _with(reading, schema, table)
        except InvalidRequest as problem:
            why = f"schema {schema.number} does not go with the table: {problem}"
            reading = reading._replace(refused={**reading.refused, schema.number: why})
        else:
            reading = reading._replace(columns=columns, known=(*reading.known, schema))
    return reading


def _with(reading: ValueReading, schema: Schema, table: pa.Schema | None) -> pa.Schema:
    spec = reading.spec
    writer = framed.writer_of(schema, spec.format, spec.message).schema
    # Where the columns are given, others are passed over.
    grown = reading.columns if spec.schema else types.union(reading.columns, writer)
    there = {field.name: types.plain(field.type) for field in table or ()}
    for field in writer:
        target = there.get(field.name)
        if target is None:
            at = grown.get_field_index(field.name)
            target = grown.field(at).type if at >= 0 else field.type
        if why := types.unfit(field.type, target):
            raise InvalidRequest(f"column {field.name!r}: {why}")
    schemas.with_values(grown)
    return pa.schema([(field.name, there.get(field.name, field.type)) for field in grown])
