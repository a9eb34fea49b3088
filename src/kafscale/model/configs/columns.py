"""Columns as SQL writes them, `id bigint, at timestamp, tags array<string>`, as plain data.

Here: the grammar, so that a broker can refuse a schema that makes no sense. What a client sends is
bounded: in length, in depth, in columns. Next door: the same columns as Arrow has them
(spark/values/ddl.py).
"""

import re
from typing import Final, NamedTuple

from kafscale.model.errors import InvalidRequest

SIMPLE_TYPES: Final = (
    "boolean",
    "int",
    "integer",
    "bigint",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
)
LONGEST_TEXT: Final = 256 << 10
DEEPEST: Final = 32

_WORD: Final = re.compile(r"\s*(`(?:[^`]|``)+`|[^\W\d][\w-]*|\d+|[<>(),:])")


class ColumnType(NamedTuple):
    """A type: one of the simple ones, decimal, array, map or struct."""

    word: str
    parts: tuple["ColumnType", ...] = ()  # of an array or a map
    columns: tuple["Column", ...] = ()  # of a struct
    digits: tuple[int, int] = (0, 0)  # of a decimal: in all, and behind the dot


class Column(NamedTuple):
    """A name and a type."""

    name: str
    type: ColumnType


def parse_columns(text: str) -> list[Column]:
    """Read a list of columns, or raise InvalidRequest with what is wrong."""
    if len(text) > LONGEST_TEXT:
        raise InvalidRequest(f"a schema has at most {LONGEST_TEXT} characters, not {len(text)}")
    columns = _Reader(text).columns(end="")
    if not columns:
        raise InvalidRequest("a schema has at least one column: 'id bigint, name string'")
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise InvalidRequest(f"the schema names {column.name!r} twice")
        seen.add(column.name)
    return columns


class _Reader:
    """Words of the text, one ahead."""

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._at = 0
        self._depth = 0
        self._word = self._next()

    def columns(self, end: str) -> list[Column]:
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
            columns.append(Column(name, self.type()))
            if self._word != ",":
                break
            self._take()
        self._expect(end)
        return columns

    def type(self) -> ColumnType:
        if self._depth >= DEEPEST:
            raise InvalidRequest(f"a schema is at most {DEEPEST} types deep")
        self._depth += 1
        try:
            return self._type(self._take())
        finally:
            self._depth -= 1

    def _type(self, taken: str) -> ColumnType:
        match taken.lower():
            case "array":
                return ColumnType("array", self._inside(1))
            case "map":
                return ColumnType("map", self._inside(2))
            case "struct":
                self._expect("<")
                return ColumnType("struct", columns=tuple(self.columns(end=">")))
            case "decimal":
                return ColumnType("decimal", digits=self._digits())
            case simple if simple in SIMPLE_TYPES:
                return ColumnType(simple)
        known = ", ".join([*SIMPLE_TYPES, "decimal(p,s)", "array<>", "map<,>", "struct<:>"])
        raise InvalidRequest(f"{taken!r} is no type of a column; there are {known}")

    def _inside(self, count: int) -> tuple[ColumnType, ...]:
        self._expect("<")
        types = [self.type()]
        for _ in range(count - 1):
            self._expect(",")
            types.append(self.type())
        self._expect(">")
        return tuple(types)

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
        if not word.isdecimal() or len(word) > 9:
            raise self._wrong("a number", word)
        return int(word)

    def _expect(self, word: str) -> None:
        if (taken := self._take()) != word:
            raise self._wrong(repr(word) if word else "the end", taken)

    def _take(self) -> str:
        word, self._word = self._word, self._next()
        return word

    def _next(self) -> str:
        if self._at >= len(self._text):
            return ""
        match = _WORD.match(self._text, self._at)
        if match is None:
            raise self._wrong("a name or a type", self._text[self._at :][:40].strip()[:20])
        self._at = match.end()
        return match[1]

    def _wrong(self, wanted: str, taken: str) -> InvalidRequest:
        return InvalidRequest(f"schema: {wanted} was expected, {taken[:80] or 'nothing'!r} found")
