"""What reading a column of values gives: columns of the good ones, reasons for the others.

Here: setting bad values apart and putting rows without a value back. No value is trusted: one
that cannot be read costs itself, not its neighbours. Next door: the formats.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from kafscale.spark.kernels.arrays import BoolArray, LongArray
from kafscale.spark.values.types import fit

_REASON: Final = 500  # characters of a library's complaint


class Decoded(NamedTuple):
    """The columns of the good values, and which values were not, by their place."""

    columns: list[pa.Array]
    bad: dict[int, str]


class ValueReader(Protocol):
    """Reads values of one format."""

    @property
    def schema(self) -> pa.Schema:
        """The columns it makes."""
        ...

    def decode(self, values: pa.Array) -> Decoded:
        """Columns of the values that parse, in order; reasons for the others."""
        ...


def apart(
    values: pa.Array,
    read: Callable[[pa.Array], list[pa.Array]],
    schema: pa.Schema,
    complaint: str,
) -> Decoded:
    """Read all at once; where that fails, halve until the bad ones stand alone.

    One bad value among n costs 2 log n attempts, none costs nothing. A null is no value: its row
    has no columns either.
    """
    if values.null_count:
        present = values.is_valid().to_numpy(zero_copy_only=False)
        return with_nulls(apart(values.drop_null(), read, schema, complaint), present)
    try:
        return Decoded(read(values), {})
    except (ValueError, pa.ArrowException) as failed:
        if len(values) == 1:
            return Decoded(_nothing(schema), {0: f"{complaint}: {failed}"[:_REASON]})
    half = len(values) // 2
    first = apart(values[:half], read, schema, complaint)
    second = apart(values[half:], read, schema, complaint)
    columns = [
        pa.concat_arrays([left, other])
        for left, other in zip(first.columns, second.columns, strict=True)
    ]
    return Decoded(columns, first.bad | {half + at: why for at, why in second.bad.items()})


def with_nulls(decoded: Decoded, present: BoolArray) -> Decoded:
    """Put the rows without a value back between those with one."""
    places = np.flatnonzero(present)
    bad = {int(places[at]): why for at, why in decoded.bad.items()}
    kept = np.ones(len(present), np.bool_)
    kept[list(bad)] = False
    rows = present[kept]
    index = pa.array(np.cumsum(rows) - 1, mask=~rows)
    return Decoded([column.take(index) for column in decoded.columns], bad)


def cast(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """Its columns in the types of the schema, which has the same names in the same order."""
    return [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]


class DecodedPart(NamedTuple):
    """Some of the values, by their places, and what became of them."""

    places: LongArray
    decoded: Decoded


def together(parts: Sequence[DecodedPart], schema: pa.Schema) -> Decoded:
    """What parts of a column became, as one, in the order of their places."""
    bad = {int(p.places[at]): why for p in parts for at, why in p.decoded.bad.items()}
    good = [p.places[~np.isin(np.arange(len(p.places)), list(p.decoded.bad))] for p in parts]
    if not parts:
        return Decoded(_nothing(schema), bad)
    order = pa.array(np.argsort(np.concatenate(good), kind="stable"))
    columns = [
        pa.concat_arrays([p.decoded.columns[at] for p in parts]).take(order)
        for at in range(len(schema))
    ]
    return Decoded(columns, bad)


class Projected:
    """Another reader's columns as one wants them: by name, those it lacks null."""

    def __init__(self, inner: ValueReader, columns: pa.Schema) -> None:
        self.schema = columns
        self._inner = inner

    def decode(self, values: pa.Array) -> Decoded:
        """What does not fit into its column is bad, as what does not parse."""
        decoded = self._inner.decode(values)
        count = len(values) - len(decoded.bad)
        there = dict(zip(self._inner.schema.names, decoded.columns, strict=True))
        try:
            columns = [
                fit(there[field.name], field.type)
                if field.name in there
                else pa.nulls(count, field.type)
                for field in self.schema
            ]
        except pa.ArrowException as failed:
            if len(values) > 1:
                half = len(values) // 2
                halves = (np.arange(half), np.arange(half, len(values)))
                parts = [
                    DecodedPart(at, self.decode(values[int(at[0]) : int(at[-1]) + 1]))
                    for at in halves
                ]
                return together(parts, self.schema)
            return Decoded(_nothing(self.schema), {0: str(failed)[:_REASON]})
        return Decoded(columns, decoded.bad)


def all_bad(count: int, reason: str, schema: pa.Schema) -> Decoded:
    """So many values of which none can be read."""
    return Decoded(_nothing(schema), dict.fromkeys(range(count), reason))


def _nothing(schema: pa.Schema) -> list[pa.Array]:
    return [pa.array([], field.type) for field in schema]
