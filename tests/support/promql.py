"""Which series and labels a PromQL expression speaks of.

Not an evaluator: it reads the tokens in order and knows the roles a name can play (function,
aggregation, series, label), which is enough to find a name that does not exist.
"""

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<range>\[[^\]]*\])
    | (?P<variable>\$\w+)
    | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:ms|s|m|h|d|w|y)?|\.\d+)
    | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    | (?P<mark>=~|!~|!=|==|>=|<=|[-+*/%^=<>(){},@])
    )""",
    re.VERBOSE,
)
_CLAUSES = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = {"and", "or", "unless", "offset", "bool"}
_PAIRS = {"(": ")", "{": "}"}


class BadExpression(ValueError):
    """Not PromQL."""


@dataclass(slots=True)
class Spoken:
    """What an expression mentions."""

    series: dict[str, set[str]] = field(default_factory=dict)  # name -> labels selected by
    matches: list[tuple[str, str, str]] = field(default_factory=list)  # series, label, value
    clauses: list[tuple[str, set[str]]] = field(default_factory=list)  # ("by", {"topic"})
    functions: set[str] = field(default_factory=set)

    @property
    def grouped_by(self) -> set[str] | None:
        """Labels the outermost result can have; None where nothing is aggregated away."""
        kept = [labels for clause, labels in self.clauses if clause == "by"]
        return set.union(*kept) if kept else None


def tokens(expression: str) -> list[tuple[str, str]]:
    found, place = [], 0
    text = expression.strip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise BadExpression(f"cannot read {text[place : place + 20]!r} in {expression!r}")
        found.append((match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return found


def read(expression: str) -> Spoken:
    """Everything an expression mentions; BadExpression where it cannot be right."""
    spoken, row = Spoken(), [*tokens(expression), ("end", "")]
    _check_brackets(row, expression)
    at = 0
    while row[at][0] != "end":
        kind, text = row[at]
        following = row[at + 1][1]
        if kind != "name" or text in _WORDS:
            at += 1
        elif text in _CLAUSES:
            labels, at = _names_in_brackets(row, at + 1, expression)
            spoken.clauses.append((text, labels))
        elif following == "(" or following in _CLAUSES:
            spoken.functions.add(text)
            at += 1
        else:
            selected = spoken.series.setdefault(text, set())
            at += 1
            if following == "{":
                at = _selector(row, at + 1, text, selected, spoken, expression)
    if "histogram_quantile" in spoken.functions and not any(
        "le" in labels for clause, labels in spoken.clauses if clause == "by"
    ):
        raise BadExpression(f"a quantile of what has no buckets left: {expression!r}")
    return spoken


def _check_brackets(row: list[tuple[str, str]], expression: str) -> None:
    open_marks: list[str] = []
    for kind, text in row:
        if kind == "mark" and text in _PAIRS:
            open_marks.append(_PAIRS[text])
        elif (
            kind == "mark"
            and text in _PAIRS.values()
            and (not open_marks or open_marks.pop() != text)
        ):
            raise BadExpression(f"brackets do not match in {expression!r}")
    if open_marks:
        raise BadExpression(f"brackets are left open in {expression!r}")


def _names_in_brackets(
    row: list[tuple[str, str]], at: int, expression: str
) -> tuple[set[str], int]:
    if row[at][1] != "(":
        raise BadExpression(f"labels expected in {expression!r}")
    names = set[str]()
    at += 1
    while row[at][1] != ")":
        if row[at][0] == "name":
            names.add(row[at][1])
        elif row[at][1] != ",":
            raise BadExpression(f"not a label: {row[at][1]!r} in {expression!r}")
        at += 1
    return names, at + 1


def _selector(
    row: list[tuple[str, str]],
    at: int,
    name: str,
    selected: set[str],
    spoken: Spoken,
    expression: str,
) -> int:
    while row[at][1] != "}":
        (kind, label), (_, sign), (value_kind, value) = row[at : at + 3]
        if kind != "name" or sign not in ("=", "!=", "=~", "!~") or value_kind != "string":
            raise BadExpression(f"not a selector: {label}{sign}{value} in {expression!r}")
        selected.add(label)
        if sign == "=":
            spoken.matches.append((name, label, value[1:-1]))
        at += 3
        if row[at][1] == ",":
            at += 1
    return at + 1
