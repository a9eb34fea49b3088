"""Topics by the names that clients give them: short, with tenant and namespace, or in full.

Here: names in a request become the names that topics are kept under, before anything is authorized
or looked up. In the answer they become again what the client wrote. Names that are no topic's stay
as they are: handlers refuse them.
Next door: the forms of a name (model/tenancy.py), the steps of a request (router.py).
"""

from collections.abc import Generator, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from kafscale.gateways.kafka.calls.call import Call
from kafscale.model.errors import InvalidTopicName
from kafscale.model.tenancy import Tenancy
from kafscale.wire.kafka.schema import Message, Struct, fields

_PRODUCE: Final = 0
_FETCH: Final = 1
_MOST_REMEMBERED: Final = 10_000  # of a connection's fetch sessions
_TOPIC: Final = 2  # the type of a resource
_LITERAL: Final = 3
_STEP: Final = 1000  # rows between two pauses
_NAMES: Final = frozenset({"topic", "topic_name", "topic_names", "subscribed_topic_names"})
_RESOURCES: Final = frozenset({"resource_name", "resource_name_filter"})
_PATTERNS: Final = ("resource_pattern_type", "pattern_type", "pattern_type_filter")
# A topic that was asked for by two of its names is described once; the client wants both.
_REPEATED: Final = frozenset({3, 75})


class NameField(NamedTuple):
    """Where a message has names of topics."""

    path: tuple[str, ...]  # the fields on the way to the rows
    field: str  # of a row: a name, or a list of names
    kind: str = ""  # the field that says whether a row names a topic
    pattern: str = ""  # the field that says whether it is one topic's name


@cache
def name_fields(kind: type[Message]) -> tuple[NameField, ...]:
    """Where a request or a response has names of topics, by its table."""
    return tuple(_fields_of(kind, ()))


def _fields_of(row: type[Struct], path: tuple[str, ...]) -> Iterator[NameField]:
    names = {field.name for field in fields(row, 0)}
    is_topics = "Topic" in row.__name__ and not row.__name__.endswith(("Config", "Configs"))
    for field in fields(row, 0):
        below = field.wire.element or field.wire
        if below.row is not None:
            yield from _fields_of(below.row, (*path, field.name))
        elif field.name in _NAMES or (field.name == "name" and is_topics):
            yield NameField(path, field.name)
        elif field.name in _RESOURCES:
            kind = field.name.replace("_name", "_type")
            pattern = next((one for one in _PATTERNS if one in names), "")
            yield NameField(path, field.name, kind, pattern)


def may_differ(call: Call, api_key: int) -> bool:
    """Whether a request may have a name with a slash; a quick answer for what is asked most."""
    message = call.message
    if api_key == _PRODUCE:
        return any("/" in row.name for row in message.topic_data)
    if api_key == _FETCH and not call.spelled and not message.forgotten_topics_data:
        return any("/" in row.topic for row in message.topics)
    return bool(name_fields(type(message)))  # type: ignore[arg-type]


def resolve(call: Call, api_key: int) -> Generator[None, None, None]:
    """Put the names that topics are kept under into a request; pauses after many rows."""
    tenancy = call.context.tenancy
    remembered = call.spelled if api_key == _FETCH else None
    seen: dict[str, list[str]] = {}  # by the name that the topic is kept under
    plain: list[str] = []
    for number, (rows, place, asked) in enumerate(_names(call.message)):
        if "/" in asked:
            kept = _canonical(tenancy, asked)
            seen.setdefault(kept, []).append(asked)
            _put(rows, place, kept)
            if remembered is not None and len(remembered) < _MOST_REMEMBERED:
                remembered[kept] = asked
        elif remembered:
            remembered.pop(asked, None)
        elif api_key in _REPEATED:
            plain.append(asked)
        if number % _STEP == _STEP - 1:
            yield
    for name in plain if seen else ():
        if name in seen:
            seen[name].append(name)
    if seen or remembered:
        call.spellings = {kept: [asked] for kept, asked in (remembered or {}).items()} | seen


def restore(call: Call, answer: Message) -> Generator[None, None, None]:
    """Put the names into an answer that the client wrote in its request; pauses as `resolve`."""
    assert call.spellings is not None
    used: dict[str, int] = {}  # of each topic's spellings, in the order they were asked in
    for number, (rows, place, kept) in enumerate(_names(answer)):
        asked = call.spellings.get(kept)
        if asked:
            at = used.get(kept, 0)
            used[kept] = at + 1
            _put(rows, place, asked[min(at, len(asked) - 1)])
        if number % _STEP == _STEP - 1:
            yield
    if type(answer).api_key in _REPEATED:
        yield from _repeat(answer, call.spellings)


def _repeat(answer: Any, spellings: dict[str, list[str]]) -> Generator[None, None, None]:
    """Describe a topic under each of the names that it was asked for by."""
    named = {row.name: row for row in answer.topics}
    for number, asked in enumerate(spellings.values()):
        known = next((named[one] for one in asked if one in named), None)
        if known is not None:
            more = dict.fromkeys(one for one in asked if one not in named)
            answer.topics += [msgspec.structs.replace(known, name=one) for one in more]
        if number % _STEP == _STEP - 1:
            yield


def _names(message: Message) -> Iterator[tuple[Any, Any, str]]:
    """Where each name is, as what `_put` takes, and the name."""
    for one in name_fields(type(message)):
        rows: list[Any] = [message]
        for step in one.path:
            rows = _below(rows, step)
        for row in rows:
            value = getattr(row, one.field)
            if isinstance(value, list):
                yield from ((value, number, name) for number, name in enumerate(value))
            elif value and _is_topic(row, one):
                yield row, one.field, value


def _below(rows: list[Any], step: str) -> list[Any]:
    found: list[Any] = []
    for row in rows:
        value = getattr(row, step)
        if isinstance(value, list):
            found += value
        elif value is not None:
            found.append(value)
    return found


def _is_topic(row: Any, one: NameField) -> bool:
    if one.kind and getattr(row, one.kind) != _TOPIC:
        return False
    return not one.pattern or getattr(row, one.pattern) == _LITERAL


def _put(rows: Any, place: Any, name: str) -> None:
    if isinstance(rows, list):
        rows[place] = name
    else:
        setattr(rows, place, name)


def _canonical(tenancy: Tenancy, asked: str) -> str:
    try:
        return tenancy.canonical(asked)
    except InvalidTopicName:
        return asked
