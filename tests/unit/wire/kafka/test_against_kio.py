"""Every version kio knows: it reads what we write as the same values and writes the same bytes.

kio is trusted with our own bytes only: a hostile length makes its reader take all memory.
"""

import datetime
import io
import uuid
from typing import Any

import pytest
from kio.index import UnknownEntity, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from kafscale.wire.kafka import codec
from kafscale.wire.kafka.errors import RETRIABLE, ErrorCode
from kafscale.wire.kafka.schema import Message, Struct, fields
from tests.fuzz.samples import Maker, kinds
from tests.support.examples import scaled

_MILLISECOND = datetime.timedelta(milliseconds=1)


def _their_class(kind: type[Message], version: int) -> Any:
    load = load_request_schema if kind.__name__.endswith("Request") else load_response_schema
    try:
        return load(kind.api_key, version)
    except UnknownEntity:
        return None


PAIRS = [(kind, version, _their_class(kind, version)) for kind, version in kinds()]
CASES = [pytest.param(k, v, t, id=f"{k.__name__}-{v}") for k, v, t in PAIRS if t is not None]


def in_our_terms(value: Any, like: Any, version: int) -> Any:
    """A value of kio as plain data; `like` is the same value as we have it."""
    if isinstance(like, Struct) and value is not None:
        there = [f.name for f in fields(type(like), version) if f.there]
        return {
            name: in_our_terms(_attribute(value, name), getattr(like, name), version)
            for name in there
        }
    if isinstance(like, list) and value is not None:
        return [in_our_terms(*pair, version) for pair in zip(value, like, strict=True)]
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return int(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value


def _attribute(value: Any, name: str) -> Any:
    """kio gives times a type of their own, and their names no unit."""
    return getattr(value, name if hasattr(value, name) else name.removesuffix("_ms"))


def of_version(value: Any, version: int) -> Any:
    """Our message as plain data, without the fields this version lacks."""
    if isinstance(value, Struct):
        there = [f.name for f in fields(type(value), version) if f.there]
        return {name: of_version(getattr(value, name), version) for name in there}
    if isinstance(value, list):
        return [of_version(one, version) for one in value]
    return value


def test_kio_knows_most_of_our_versions() -> None:
    assert len(CASES) >= 250


@pytest.mark.parametrize(("kind", "version", "theirs"), CASES)
def test_kio_reads_our_bytes_and_writes_them_again(
    kind: type[Message], version: int, theirs: Any
) -> None:
    for seed in range(scaled(3)):
        ours = Maker((kind.__name__, version, seed), tame=True).message(kind, version)
        written = b"".join(codec.encode(ours, version))
        read, size = entity_reader(theirs)(written, 0)
        assert size == len(written)
        assert in_our_terms(read, ours, version) == of_version(ours, version)
        again = io.BytesIO()
        entity_writer(theirs)(again, read)
        assert again.getvalue() == written


def test_error_codes_are_those_of_kio() -> None:
    from kio.schema.errors import ErrorCode as Theirs

    assert {c.name: int(c) for c in ErrorCode} == {c.name.upper(): int(c) for c in Theirs}
    assert {int(c) for c in RETRIABLE} == {int(c) for c in Theirs if c.retriable}
