"""What a single setting may look like: sizes, durations, lists, yes and no.

Here: the value types of the configuration and the one function that reads any of them.
Next door: which settings exist (config.py), where values come from (sources.py).
"""

import math
import re
from typing import Any, Final, Literal

import msgspec

from kafscale.access.acls import read_principal
from kafscale.model.configs.topic_configs import magic_of
from kafscale.model.errors import InvalidAcl
from kafscale.model.security.access import Principal
from kafscale.model.security.secret import Secret
from kafscale.settings.listeners import (
    AdvertisedListeners,
    Listeners,
    read_advertised,
    read_listeners,
)
from kafscale.virtual.rules import Override


class ConfigError(Exception):
    """The configuration cannot be used; the text is one line for the person who wrote it."""


class Size(int):
    """Bytes: 4096, "512Mi", "4MB"; 0 is allowed."""


class PositiveSize(Size):
    """Bytes, at least one."""


class Limit(int):
    """Bytes like Size, or -1 for no limit."""


class Seconds(float):
    """A span of time above zero: "500ms", "30s", "10m", "7d"; a bare number means seconds."""


class TurnLimit(float):
    """Seconds after which a turn of the event loop is long: on (50 ms), off, or a span of time."""


class FormatVersion(str):
    """A message format, by its number or by the first release that has it."""

    __slots__ = ()


class MappedTopics(dict[str, Override]):
    """Topics, by name or by pattern, and what their layout has of its own."""


class Placements(dict[str, str]):
    """Namespaces, and the placement of their topics without one of their own."""


class Principals(tuple[Principal, ...]):
    """Principals such as User:alice, in text split by semicolons: names may have commas."""

    __slots__ = ()


class BrokerId(int):
    """A node id: 3, or a name that ends in one ("kafscale-3", as a StatefulSet calls its pods)."""


_LONG_TURN_S: Final = 0.05
MAX_INT32: Final = 2**31 - 1
_MAX_BYTES: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_ORDINAL: Final = re.compile(r"(?:.+-)?([0-9]+)")
_SIZE_UNITS: Final = {"": 1, "b": 1} | {
    letter + tail: base**power
    for power, letter in enumerate("kmgt", start=1)
    for tail, base in (("", 1000), ("b", 1000), ("i", 1024), ("ib", 1024))
}
_TIME_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WORDS: Final = {
    "1": True, "true": True, "yes": True, "on": True,
    "0": False, "false": False, "no": False, "off": False,
}  # fmt: skip


def read_value(kind: Any, raw: object) -> Any:
    """Turn what was written into a value of type `kind`, or raise ValueError: "expected ..."."""
    info = msgspec.inspect.type_info(kind)
    try:
        return msgspec.convert(_prepared(info, raw), kind, strict=False, dec_hook=_special)
    except (msgspec.ValidationError, ValueError) as bad:
        raise ValueError(f"expected {describe(info)}") from bad


def _prepared(info: msgspec.inspect.Type, raw: object) -> object:
    """Prepare what msgspec does not read from text: lists with commas, words for yes and no."""
    if isinstance(raw, str):
        text = raw.strip()
        if isinstance(info, msgspec.inspect.CollectionType):
            return [part.strip() for part in text.split(",") if part.strip()]
        if isinstance(info, msgspec.inspect.BoolType):
            return _WORDS.get(text.lower(), text)
        return text
    is_number = isinstance(
        info, msgspec.inspect.IntType | msgspec.inspect.FloatType | msgspec.inspect.CustomType
    )
    takes_words = isinstance(info, msgspec.inspect.CustomType) and info.cls is TurnLimit
    if isinstance(raw, bool) and is_number and not takes_words:
        raise ValueError("a yes or no is no number")  # Python takes True for 1
    return raw


def _special(kind: type, raw: object) -> object:
    if issubclass(kind, Secret):
        return kind(msgspec.convert(raw, str, strict=False))
    if issubclass(kind, Limit):
        return kind(-1 if str(raw).strip() == "-1" else _bytes(raw))
    if issubclass(kind, Size):
        size = _bytes(raw)
        if size == 0 and issubclass(kind, PositiveSize):
            raise ValueError("no bytes at all")
        return kind(size)
    if issubclass(kind, Seconds):
        return kind(_seconds(raw))
    if issubclass(kind, TurnLimit):
        word = _WORDS.get(str(raw).strip().lower())
        return kind(_seconds(raw) if word is None else _LONG_TURN_S * word)
    if issubclass(kind, BrokerId):
        return kind(_ordinal(raw))
    if issubclass(kind, MappedTopics):
        return kind(_overrides(raw))
    if issubclass(kind, Listeners):
        return kind(read_listeners(raw))
    if issubclass(kind, AdvertisedListeners):
        return kind(read_advertised(raw))
    if issubclass(kind, Principals):
        return kind(_principals(raw))
    if issubclass(kind, Placements):
        return kind(msgspec.convert(raw, dict[str, PlacementKind]))
    if issubclass(kind, FormatVersion):
        if magic_of(str(raw).strip()) is None:
            raise ValueError("not a release")
        return kind(str(raw).strip())
    raise NotImplementedError(f"no reader for {kind}")  # a field of Config with an unknown type


def _principals(raw: object) -> list[Principal]:
    texts = raw.split(";") if isinstance(raw, str) else msgspec.convert(raw, list[str])
    try:
        return [read_principal(text.strip()) for text in texts if text.strip()]
    except InvalidAcl as bad:
        raise ValueError("not a principal") from bad


def _overrides(raw: object) -> dict[str, Override]:
    rows = msgspec.convert(raw, dict[str, dict[str, int]], strict=False)
    try:
        return {topic: Override(**row) for topic, row in rows.items()}
    except TypeError:
        raise ValueError("no such number") from None


def _bytes(raw: object) -> int:
    number, unit = _split(raw)
    if unit.lower() not in _SIZE_UNITS:
        raise ValueError("unknown unit")
    size = float(number) * _SIZE_UNITS[unit.lower()]
    if "." not in number:  # floats cannot hold every large integer
        size = int(number) * _SIZE_UNITS[unit.lower()]
    if size != int(size) or size > _MAX_BYTES:
        raise ValueError("not a whole number of bytes")
    return int(size)


def _seconds(raw: object) -> float:
    number, unit = _split(raw)
    if unit not in _TIME_UNITS:
        raise ValueError("unknown unit")
    span = float(number) * _TIME_UNITS[unit]
    if not math.isfinite(span) or span <= 0:
        raise ValueError("not a span of time")
    return span


def _split(raw: object) -> tuple[str, str]:
    found = _NUMBER.fullmatch(str(raw).strip())
    if found is None:
        raise ValueError("not a number with a unit")
    return found[1], found[2]


def _ordinal(raw: object) -> int:
    found = _ORDINAL.fullmatch(str(raw).strip())
    if found is None or int(found[1]) > MAX_INT32:
        raise ValueError("no number at the end")
    return int(found[1])


_NAMED_KINDS: Final[dict[type, str]] = {
    Secret: "text",
    PositiveSize: 'a size above zero such as 4096 or "512Mi"',
    Size: 'a size such as 4096 or "512Mi"',
    Limit: '-1 for no limit or a size such as 4096 or "512Mi"',
    TurnLimit: 'on, off or a duration such as "50ms"',
    Seconds: 'a duration above zero such as "500ms", "30s" or "10m"',
    MappedTopics: "topics with virtual_partitions, physical_partitions or offset_range each",
    Listeners: "NAME://host:port, several split by commas, or a list with name, host and port each",
    AdvertisedListeners: "NAME://host:port, several split by commas",
    Principals: "User:name, several split by semicolons, or a list of them",
    Placements: "namespaces with dedicated or shared each",
    FormatVersion: "a release such as 0.10.2, or a format: 0, 1, 2",
    BrokerId: 'a number up to 2147483647 or a name that ends in one, such as "kafscale-3"',
}


def describe(info: msgspec.inspect.Type) -> str:
    """Say in words what a setting of this type can be."""
    match info:
        case msgspec.inspect.UnionType(types=types):
            return " or ".join(
                describe(one) for one in types if not isinstance(one, msgspec.inspect.NoneType)
            )
        case msgspec.inspect.Metadata(type=inner):
            return describe(inner)
        case msgspec.inspect.LiteralType(values=values):
            return "one of " + ", ".join(str(value) for value in values)
        case msgspec.inspect.CustomType(cls=cls):
            return _NAMED_KINDS[cls]
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.IntType(ge=low, le=high):
            return _integer(low, high)
        case msgspec.inspect.FloatType():
            return "a number from 0 up"
        case msgspec.inspect.CollectionType():
            return "a list of texts"
    return "text"


def _integer(low: int | None, high: int | None) -> str:
    match low, high:
        case None, None:
            return "an integer"
        case _, None:
            return f"an integer from {low} up"
        case None, _:
            return f"an integer up to {high}"
    return f"an integer from {low} to {high}"


ClientAuth = Literal["none", "requested", "required"]  # of certificates
LogLevel = Literal["debug", "info", "warn", "error"]
LogFormat = Literal["json", "text"]
Encryption = Literal["AES256", "aws:kms"]
PlacementKind = Literal["dedicated", "shared"]
Acks1 = Literal["durable", "buffered"]
Validation = Literal["records", "batches"]
SqliteSynchronous = Literal["OFF", "NORMAL", "FULL", "EXTRA"]
CompressionType = Literal["producer", "none", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
