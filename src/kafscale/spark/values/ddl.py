"""Columns as SQL writes them, `id bigint, at timestamp, tags array<string>`, as Arrow types.

Here: from plain columns to Arrow's and back to text.
Next door: the grammar (model/configs/columns.py), what such types become (types.py).
Never here: a JVM; Spark's own reader of this language needs one.
"""

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from kafscale.model.configs.columns import Column, ColumnType, parse_columns
from kafscale.model.errors import InvalidRequest

SIMPLE: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def parse(text: str) -> pa.Schema:
    """Read a list of columns, or raise InvalidRequest with what is wrong."""
    return pa.schema(_fields(parse_columns(text)))


def _fields(columns: Iterable[Column]) -> list[pa.Field]:
    return [pa.field(column.name, _arrow(column.type)) for column in columns]


def _arrow(kind: ColumnType) -> pa.DataType:
    match kind.word:
        case "array":
            return pa.list_(pa.field("element", _arrow(kind.parts[0])))
        case "map":
            return pa.map_(_arrow(kind.parts[0]), _arrow(kind.parts[1]))
        case "struct":
            return pa.struct(_fields(kind.columns))
        case "decimal":
            return pa.decimal128(*kind.digits)
    return SIMPLE[kind.word]


def text(schema: Iterable[pa.Field]) -> str:
    """Write columns so that `parse` reads them again."""
    return ", ".join(f"{_quoted(field.name)} {type_text(field.type)}" for field in schema)


def type_text(kind: pa.DataType) -> str:
    """Write one type."""
    if pa.types.is_list(kind):
        return f"array<{type_text(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type)},{type_text(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{_quoted(f.name)}:{type_text(f.type)}' for f in kind)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    for word, simple in SIMPLE.items():
        if kind == simple:
            return word
    raise InvalidRequest(f"no column of a table can be {kind}")


def _quoted(name: str) -> str:
    if re.fullmatch(r"[^\W\d][\w-]*", name):
        return name
    return "`" + name.replace("`", "``") + "`"
