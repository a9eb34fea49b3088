"""Every message in every version, byte for byte as kafka-python writes it."""

import functools
import importlib
import uuid
import warnings
from typing import Any

import pytest

from kafscale.wire.kafka import codec
from kafscale.wire.kafka.schema import Message, Struct, fields
from tests.fuzz.samples import Maker, plain
from tests.support.examples import scaled
from tests.unit.wire.kafka.cases import (
    EVERY_VERSION_OF_KAFKA_PYTHON,
    FIRST_AND_LAST_OF_KAFKA_PYTHON,
)

_MODULES = (
    "kafka.protocol.producer",
    "kafka.protocol.consumer",
    "kafka.protocol.metadata",
    "kafka.protocol.admin",
    "kafka.protocol.sasl",
)
# Fields kafka-python gave another name and the type of a set of bits.
_BIT_SETS = {
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
    "authorized_operations": "authorized_operations",
}


@functools.cache
def their_modules() -> tuple[Any, ...]:
    with warnings.catch_warnings():
        # It reads its schemas in a way Python 3.11 calls deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        return tuple(map(importlib.import_module, _MODULES))


@functools.cache
def their_class(kind: type[Message]) -> Any:
    name = kind.__name__
    found = next((getattr(m, name) for m in their_modules() if hasattr(m, name)), None)
    if found is None:
        # It has the schema of every message, but no class for those it never sends.
        base = importlib.import_module("kafka.protocol.api_message").ApiMessage
        found = type(base)(name, (base,), {})
    return found


def to_theirs(value: Struct, theirs: Any, version: int) -> Any:
    """The same message as an object of kafka-python."""
    given = {}
    for field in fields(type(value), version):
        if not field.there:
            continue
        own = getattr(value, field.name)
        name = _BIT_SETS.get(field.name, field.name)
        if name not in theirs.fields:
            name = field.name  # in this message it is a number
        given[name] = _convert(own, name, field.wire.name, theirs.fields[name], version)
    return theirs(version=version, **given)


def _convert(own: Any, name: str, wire: str, their_field: Any, version: int) -> Any:
    if isinstance(own, Struct):
        return to_theirs(own, their_field.data_class, version)
    if isinstance(own, list) and own and isinstance(own[0], Struct):
        return [to_theirs(one, their_field.data_class, version) for one in own]
    if wire == "uuid":
        return uuid.UUID(bytes=own)
    if name in _BIT_SETS.values():
        return {bit for bit in range(32) if own & 0xFFFF_FFFF & (1 << bit)}
    return own


@pytest.mark.parametrize(("kind", "version"), EVERY_VERSION_OF_KAFKA_PYTHON)
def test_both_write_the_same_bytes_and_ours_are_read_back(
    kind: type[Message], version: int
) -> None:
    theirs = their_class(kind)
    for seed in range(scaled(6)):
        ours = Maker((kind.__name__, version, seed)).message(kind, version)
        expected = bytes(to_theirs(ours, theirs, version).encode())
        assert b"".join(codec.encode(ours, version)) == expected
        decoded, end = codec.decode(kind, memoryview(expected), version)
        assert plain(decoded) == plain(ours)
        assert end == len(expected)


@pytest.mark.parametrize(("kind", "version"), FIRST_AND_LAST_OF_KAFKA_PYTHON)
def test_what_we_write_kafka_python_reads_as_the_same_values(
    kind: type[Message], version: int
) -> None:
    theirs = their_class(kind)
    ours = Maker((kind.__name__, version, "read"), tame=True).message(kind, version)
    if kind.__name__ == "ApiVersionsResponse":
        ours.error_code = 0  # type: ignore[attr-defined] # else they switch to version 0
    read = theirs.decode(b"".join(codec.encode(ours, version)), version=version)
    assert read.to_dict() == to_theirs(ours, theirs, version).to_dict()
