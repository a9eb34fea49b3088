"""Columns as SQL writes them, `id bigint, at timestamp, tags array<string>`, as Arrow types.

Here: the reading of such a text. Next door: what such types become (types.py).
Never here: a JVM; Spark's own reader of the same language needs one.
"""

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

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

_WORD: Final = re.compile(r"\s*(`(?:[^`]|``)+`|[^\W\d][\w-]*|\d+|[<>(),:])")


def parse(text: str) -> pa.Schema:
    """Read a list of columns, or raise InvalidRequest with what is wrong."""
    reader = _Reader(text)
    columns = reader.columns(end="")
    if not columns:
        raise InvalidRequest("a schema has at least one column: 'id bigint, name string'")
    names = [column.name for column in columns]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidRequest(f"the schema names {sorted(twice)[0]!r} twice")
    return pa.schema(columns)


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


class _Reader:
    """Words of the text, one ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._word = self._next()

    def columns(self, end: str) -> list[pa.Field]:
        """Columns up to `end`: name, an optional colon, type, and perhaps a remark on nulls."""
        columns = []
        while self._word != end:
            name = self._take()
            if re.fullmatch(r"[<>(),:]|", name):
                raise self._wrong("a column's name", name)
            if self._word == ":":
                self._take()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            columns.append(pa.field(name, self.type()))
            if self._word != ",":
                break
            self._take()
        self._expect(end)
        return columns

    def type(self) -> pa.DataType:
        word = self._take()
        match word.lower():
            case "array":
                return pa.list_(pa.field("element", self._inside()[0]))
            case "map":
                key, value = self._inside(2)
                return pa.map_(key, value)
            case "struct":
                self._expect("<")
                return pa.struct(self.columns(end=">"))
            case "decimal":
                precision, scale = self._digits()
                return pa.decimal128(precision, scale)
            case simple if simple in SIMPLE:
                return SIMPLE[simple]
        known = ", ".join([*SIMPLE, "decimal(p,s)", "array<>", "map<,>", "struct<:>"])
        raise InvalidRequest(f"{word!r} is no type of a column; there are {known}")

    def _inside(self, count: int = 1) -> list[pa.DataType]:
        self._expect("<")
        types = [self.type()]
        for _ in range(count - 1):
            self._expect(",")
            types.append(self.type())
        self._expect(">")
        return types

    def _digits(self) -> tuple[int, int]:
        if self._word != "(":
            return 10, 0
        self._take()
        precision, scale = self._number(), 0
        if self._word == ",":
            self._take()
            scale = self._number()
        self._expect(")")
        if not 1 <= precision <= 38 or scale > precision:
            raise InvalidRequest("a decimal has 1 to 38 digits, at most all of them behind the dot")
        return precision, scale

    def _number(self) -> int:
        word = self._take()
        if not word.isdecimal():
            raise self._wrong("a number", word)
        return int(word)

    def _expect(self, word: str) -> None:
        if (taken := self._take()) != word:
            raise self._wrong(repr(word) if word else "the end", taken)

    def _take(self) -> str:
        word, self._word = self._word, self._next()
        return word

    def _next(self) -> str:
        if not self._text[self._at :].strip():
            return ""
        match = _WORD.match(self._text, self._at)
        if match is None:
            raise self._wrong("a name or a type", self._text[self._at :].strip()[:20])
        self._at = match.end()
        return match[1]

    def _wrong(self, wanted: str, taken: str) -> InvalidRequest:
        return InvalidRequest(f"schema: {wanted} was expected, {taken or 'nothing'!r} found")
