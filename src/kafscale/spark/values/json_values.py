"""JSON values of a declared schema: the one rule of what fits, for source, SQL and export.

A value is one JSON object. Undeclared fields are ignored, missing ones and null are
null. Anything else that is not what was declared makes the whole value bad, alone: half a
document, a word or a fraction where an integer was declared (1.0 is a fraction), a number that
is too large for its column, a decimal with too many digits. Nothing is cut, guessed or made null
in part. Doubles are the nearest there are, times are kept to the microsecond.

Here: a msgspec reader made from the schema, and its rows as Arrow columns, a batch at a time.
Next door: the other formats (avro.py, protobuf.py), what becomes of bad values (source/, lake/).
"""

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any, Final, Optional

import msgspec
import numpy as np
import pyarrow as pa

from kafscale.model.errors import InvalidRequest
from kafscale.spark.values.decoding import Decoded, with_nulls

_FLOAT: Final = float(np.finfo(np.float32).max)


def _integer(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


_PLAIN: Final[dict[pa.DataType, Any]] = {
    pa.bool_(): bool,
    pa.int8(): _integer(8),
    pa.int16(): _integer(16),
    pa.int32(): _integer(32),
    pa.int64(): _integer(64),
    pa.float32(): Annotated[float, msgspec.Meta(ge=-_FLOAT, le=_FLOAT)],
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): dt.date,
    pa.timestamp("us", tz="UTC"): dt.datetime,
    pa.timestamp("us"): dt.datetime,
}

_COMPLAINTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

JsonRows = Sequence[Any]


class JsonValues:
    """Reads JSON objects, one per value."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._struct = _struct(schema)
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(self._struct).decode

    def decode(self, values: pa.Array) -> Decoded:
        """Columns of the values that are what the schema says."""
        if values.null_count:
            present = values.is_valid().to_numpy(zero_copy_only=False)
            return with_nulls(self.decode(values.drop_null()), present)
        rows: list[Any] = []
        bad: dict[int, str] = {}
        pending = iter(values.to_pylist())
        while True:
            try:
                rows.extend(map(self._decode, pending))
                break
            except _COMPLAINTS as why:  # what was read before it stays, what follows is pending
                bad[len(rows) + len(bad)] = str(why)
        try:
            return Decoded(_columns(rows, self.schema), bad)
        except pa.ArrowException:
            return self._one_by_one(rows, bad, len(values))

    def _one_by_one(self, rows: list[Any], bad: dict[int, str], count: int) -> Decoded:
        """Some value fits JSON and not its column, such as a decimal with too many digits."""
        kept = []
        places = [at for at in range(count) if at not in bad]
        for at, row in zip(places, rows, strict=True):
            try:
                _columns([row], self.schema)
                kept.append(row)
            except pa.ArrowException as why:
                bad[at] = str(why)
        return Decoded(_columns(kept, self.schema), bad)


def _struct(fields: Sequence[pa.Field]) -> type[msgspec.Struct]:
    """A class with one attribute per column; names of columns need not be names of attributes."""
    attributes = [
        (f"f{at}", Optional[_type(field.type)], None)  # noqa: UP045 - made while running
        for at, field in enumerate(fields)
    ]
    names = {f"f{at}": field.name for at, field in enumerate(fields)}
    return msgspec.defstruct("Value", attributes, rename=names, gc=False)


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return list[Optional[_type(kind.value_type)]]  # type: ignore[misc]  # noqa: UP045
    if pa.types.is_map(kind):
        return dict[_type(kind.key_type), Optional[_type(kind.item_type)]]  # type: ignore[misc]  # noqa: UP045
    if pa.types.is_struct(kind):
        return _struct(list(kind))
    if pa.types.is_decimal(kind):
        return Decimal
    if kind not in _PLAIN:
        raise InvalidRequest(f"JSON has no values for a column of {kind}")
    return _PLAIN[kind]


def _columns(rows: JsonRows, fields: Sequence[pa.Field]) -> list[pa.Array]:
    return [
        _column(list(map(attrgetter(f"f{at}"), rows)), field.type)
        for at, field in enumerate(fields)
    ]


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        missing = np.array([value is None for value in values], np.bool_)
        children = [
            _column([None if v is None else getattr(v, f"f{at}") for v in values], field.type)
            for at, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(missing))
    if pa.types.is_nested(kind):
        values = [_plain(value, kind) for value in values]
    return pa.array(values, kind)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Nested values as Arrow takes them: pairs for maps, dicts for structs."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [(key, _plain(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_struct(kind):
        return {
            field.name: _plain(getattr(value, f"f{at}"), field.type)
            for at, field in enumerate(kind)
        }
    return value
