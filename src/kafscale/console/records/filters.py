"""Filters on records: a closed subset of CEL, compiled to closures. No scripts, no loops.

Here: the parser and what it makes. A filter sees `key`, `value`, `headers`, `offset`, `partition`,
`timestamp` and `size`. It has at most 1,000 characters and is nested at most 20 deep. Next door:
what a record's value is as a filter sees it (decoders.py).

    expression: or;  or: and ("||" and)*;  and: unary-comparison ("&&" ...)*
    comparison: sum (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") sum)?
    sum: product (("+" | "-") product)*;  product: unary (("*" | "/" | "%") unary)*
    unary: "!" unary | "-" unary | member
    member: primary ("." name | "." name "(" arguments ")" | "[" expression "]")*
    primary: number | string | true | false | null | name ["(" arguments ")"] | list | "(" or ")"
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

LONGEST: Final = 1000
DEEPEST: Final = 20
_MOST_DIGITS: Final = 40
_LONGEST_TEXT: Final = 4 << 20

Scope = Mapping[str, Any]
Evaluate = Callable[[Scope], Any]
NAMES: Final = frozenset({"key", "value", "headers", "offset", "partition", "timestamp", "size"})

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<symbol>\|\||&&|==|!=|<=|>=|[-+*/%!<>()\[\],.]))"
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


class FilterError(ValueError):
    """The text is no filter; the message says where and why."""


class NoAnswer(Exception):
    """The filter has no answer for a record: a field is missing, or of another type."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class RecordFilter(NamedTuple):
    """A compiled filter."""

    text: str
    evaluate: Evaluate

    def matches(self, scope: Scope) -> bool:
        """Whether a record fits. NoAnswer where that cannot be said."""
        answer = self.evaluate(scope)
        if not isinstance(answer, bool):
            raise NoAnswer("the filter gives no yes or no")
        return answer


def compile_filter(text: str) -> RecordFilter:
    """Read a filter. Raises FilterError."""
    if len(text) > LONGEST:
        raise FilterError(f"a filter has up to {LONGEST} characters")
    return RecordFilter(text, _Parser(_tokens(text)).whole())


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise FilterError(f"at character {at + 1}: {text[at : at + 10]!r} is not understood")
        kind = match.lastgroup or ""
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return found


class _Parser:
    """One pass over the tokens; each method gives a closure."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> Evaluate:
        if not self._tokens:
            raise FilterError("the filter is empty")
        made = self._or()
        if self._at < len(self._tokens):
            raise self._strange()
        return made

    # -- tokens ----------------------------------------------------------------------------------

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *symbols: str) -> str | None:
        token = self._peek()
        is_word = token is not None and token.kind == "name" and token.text == "in"
        if token is not None and token.text in symbols and (token.kind == "symbol" or is_word):
            self._at += 1
            return token.text
        return None

    def _need(self, symbol: str) -> None:
        if self._take(symbol) is None:
            raise self._strange(f"expected {symbol!r}")

    def _strange(self, why: str = "not expected here") -> FilterError:
        token = self._peek()
        if token is None:
            return FilterError(f"the filter ends too early: {why}")
        return FilterError(f"at character {token.at + 1}: {token.text!r}: {why}")

    def _deeper(self, parse: Callable[[], Evaluate]) -> Evaluate:
        self._depth += 1
        if self._depth > DEEPEST:
            raise FilterError(f"a filter is nested at most {DEEPEST} deep")
        made = parse()
        self._depth -= 1
        return made

    # -- the grammar -----------------------------------------------------------------------------

    def _or(self) -> Evaluate:
        made = self._and()
        while self._take("||"):
            made = _either(made, self._and())
        return made

    def _and(self) -> Evaluate:
        made = self._comparison()
        while self._take("&&"):
            made = _both(made, self._comparison())
        return made

    def _comparison(self) -> Evaluate:
        left = self._sum()
        symbol = self._take(*_COMPARE)
        if symbol is None:
            return left
        return _joined(_COMPARE[symbol], left, self._sum())

    def _sum(self) -> Evaluate:
        made = self._product()
        while symbol := self._take("+", "-"):
            made = _joined(_ARITHMETIC[symbol], made, self._product())
        return made

    def _product(self) -> Evaluate:
        made = self._unary()
        while symbol := self._take("*", "/", "%"):
            made = _joined(_ARITHMETIC[symbol], made, self._unary())
        return made

    def _unary(self) -> Evaluate:
        if self._take("!"):
            inner = self._deeper(self._unary)
            return lambda scope: not _truth(inner(scope))
        if self._take("-"):
            negated = self._deeper(self._unary)
            return lambda scope: -_number(negated(scope))
        return self._member()

    def _member(self) -> Evaluate:
        made = self._primary()
        while True:
            if self._take("."):
                token = self._peek()
                if token is None or token.kind != "name":
                    raise self._strange("expected a name")
                self._at += 1
                made = self._method(made, token) if self._take("(") else _field(made, token.text)
            elif self._take("["):
                place = self._deeper(self._or)
                self._need("]")
                made = _joined(_at, made, place)
            else:
                return made

    def _method(self, target: Evaluate, token: _Token) -> Evaluate:
        arguments = self._arguments()
        method = _METHODS.get(token.text)
        if method is None or len(arguments) != 1:
            raise FilterError(
                f"at character {token.at + 1}: there is {', '.join(_METHODS)}, with one argument"
            )
        return _joined(method, target, arguments[0])

    def _arguments(self) -> list[Evaluate]:
        found: list[Evaluate] = []
        if self._take(")"):
            return found
        while True:
            found.append(self._deeper(self._or))
            if self._take(")"):
                return found
            self._need(",")

    def _primary(self) -> Evaluate:
        if self._take("("):
            made = self._deeper(self._or)
            self._need(")")
            return made
        if self._take("["):
            return self._list()
        token = self._peek()
        if token is None or token.kind == "symbol":
            raise self._strange()
        self._at += 1
        if token.kind == "number":
            return _constant(_number_of(token))
        if token.kind == "string":
            return _constant(_string_of(token))
        return self._named(token)

    def _list(self) -> Evaluate:
        items: list[Evaluate] = []
        while not self._take("]"):
            items.append(self._deeper(self._or))
            if not self._take(","):
                self._need("]")
                break
        return lambda scope: [item(scope) for item in items]

    def _named(self, token: _Token) -> Evaluate:
        name = token.text
        if name in _WORDS:
            return _constant(_WORDS[name])
        if self._take("("):
            arguments = self._arguments()
            if name == "has" and len(arguments) == 1:
                return _has(arguments[0])
            function = _FUNCTIONS.get(name)
            if function is None or len(arguments) != 1:
                known = ", ".join(("has", *_FUNCTIONS))
                raise FilterError(
                    f"at character {token.at + 1}: there is {known}, with one argument"
                )
            return lambda scope: function(arguments[0](scope))
        if name not in NAMES:
            known = ", ".join(sorted(NAMES))
            raise FilterError(f"at character {token.at + 1}: no {name!r}; there is {known}")
        return lambda scope: scope[name]


# -- closures ------------------------------------------------------------------------------------


def _constant(value: Any) -> Evaluate:
    return lambda _: value


def _joined(work: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda scope: work(left(scope), right(scope))


def _either(left: Evaluate, right: Evaluate) -> Evaluate:
    """One that has no answer does not count where the other one says yes."""

    def evaluate(scope: Scope) -> bool:
        try:
            if _truth(left(scope)):
                return True
        except NoAnswer:
            if _truth(right(scope)):
                return True
            raise
        return _truth(right(scope))

    return evaluate


def _both(left: Evaluate, right: Evaluate) -> Evaluate:
    """One that has no answer does not count where the other one says no."""

    def evaluate(scope: Scope) -> bool:
        try:
            if not _truth(left(scope)):
                return False
        except NoAnswer:
            if not _truth(right(scope)):
                return False
            raise
        return _truth(right(scope))

    return evaluate


def _has(inner: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> bool:
        try:
            inner(scope)
        except NoAnswer:
            return False
        return True

    return evaluate


def _field(target: Evaluate, name: str) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        found = target(scope)
        if isinstance(found, Mapping) and name in found:
            return found[name]
        raise NoAnswer(f"no field {name}")

    return evaluate


def _at(found: Any, place: Any) -> Any:
    if isinstance(found, Mapping) and isinstance(place, str) and place in found:
        return found[place]
    is_number = isinstance(place, int) and not isinstance(place, bool)
    if isinstance(found, list) and is_number and 0 <= place < len(found):
        return found[place]
    raise NoAnswer("nothing there")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise NoAnswer("neither true nor false")


def _number(value: Any) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise NoAnswer("no number")


def _same_kind(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return True
    return isinstance(left, str) and isinstance(right, str)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def _ordered(work: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        if not _same_kind(left, right):
            raise NoAnswer("these cannot be compared")
        return work(left, right)

    return compare


def _within(item: Any, many: Any) -> bool:
    if isinstance(many, list):
        return any(_equal(item, one) for one in many)
    if isinstance(many, Mapping) and isinstance(item, str):
        return item in many
    raise NoAnswer("in needs a list or an object")


def _counted(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def count(left: Any, right: Any) -> Any:
        try:
            return work(_number(left), _number(right))
        except (ArithmeticError, ValueError) as bad:
            raise NoAnswer(str(bad)) from bad

    return count


def _plus(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > _LONGEST_TEXT:
            raise NoAnswer("the text becomes too long")
        return left + right
    return _number(left) + _number(right)


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        whole = abs(left) // abs(right)  # towards zero, as CEL does
        return whole if (left < 0) == (right < 0) else -whole
    return left / right


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        return left - right * _divide(left, right)
    raise NoAnswer("% needs whole numbers")


def _textual(work: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def ask(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return work(left, right)
        raise NoAnswer("no text")

    return ask


def _size(value: Any) -> int:
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise NoAnswer("this has no size")


def _to_int(value: Any) -> int:
    if isinstance(value, str) and len(value) > _MOST_DIGITS:
        raise NoAnswer("too long for a number")
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError) as bad:
        raise NoAnswer("no whole number") from bad


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as bad:
        raise NoAnswer("no number") from bad


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise NoAnswer("no text")


def _number_of(token: _Token) -> int | float:
    if len(token.text) > _MOST_DIGITS:
        raise FilterError(f"at character {token.at + 1}: the number is too long")
    return float(token.text) if any(char in token.text for char in ".eE") else int(token.text)


def _string_of(token: _Token) -> str:
    def unescape(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise FilterError(f"at character {token.at + 1}: \\{match[1]} is not known")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", unescape, token.text[1:-1])


_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "in": _within,
}
_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": _plus,
    "-": _counted(lambda left, right: left - right),
    "*": _counted(lambda left, right: left * right),
    "/": _counted(_divide),
    "%": _counted(_remainder),
}
_METHODS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "contains": _textual(lambda left, right: right in left),
    "startsWith": _textual(str.startswith),
    "endsWith": _textual(str.endswith),
}
_FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "size": _size,
    "int": _to_int,
    "double": _to_double,
    "string": _to_string,
}
