"""Tables of the Fluvio protocol: every version round-trips, and no bytes do harm."""

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.fluvio import messages, schema
from kafscale.wire.fluvio.errors import FluvioCode, FluvioError
from kafscale.wire.fluvio.frame import read_request
from kafscale.wire.fluvio.messages import objects
from kafscale.wire.fluvio.messages.change_objects import Status
from kafscale.wire.fluvio.messages.list_objects import ListRequest
from kafscale.wire.fluvio.messages.produce import ProduceRequest
from kafscale.wire.fluvio.messages.stream_fetch import StreamFetchRequest
from kafscale.wire.fluvio.messages.watch import WatchUpdates
from kafscale.wire.fluvio.schema import FluvioTable

VERSIONS = (8, 11, 12, 13, 14, 16, 19, 20, 21, 22, 23, 24, 25)
_WRITTEN_ONLY = {"WatchUpdates", "ObjectChange", "ObjectList"}  # their rows have bytes already


def tables() -> Iterator[type[FluvioTable]]:
    modules = [
        importlib.import_module(f"{messages.__name__}.{found.name}")
        for found in pkgutil.iter_modules(messages.__path__)
    ]
    for module in modules:
        for kind in vars(module).values():
            is_table = isinstance(kind, type) and issubclass(kind, FluvioTable)
            is_own = getattr(kind, "__module__", "") == module.__name__
            if is_table and is_own and kind.__name__ not in _WRITTEN_ONLY:
                yield kind


TABLES = list(tables())


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_every_version_of_a_table_reads_what_it_wrote(kind: type[FluvioTable]) -> None:
    for version in VERSIONS:
        data = b"".join(bytes(piece) for piece in schema.encode(kind(), version))
        read = schema.decode(kind, memoryview(data), version)
        again = b"".join(bytes(piece) for piece in schema.encode(_in_pieces(read), version))
        assert again == data


def _in_pieces(row: FluvioTable) -> FluvioTable:
    slices = {
        field.name: [getattr(row, field.name)]
        for field in msgspec.structs.fields(row)
        if isinstance(getattr(row, field.name), memoryview)
    }
    return msgspec.structs.replace(row, **slices)


@given(st.binary(max_size=200), st.sampled_from(TABLES), st.sampled_from(VERSIONS))
def test_bytes_that_make_no_sense_are_malformed_and_nothing_else(
    data: bytes, kind: type[FluvioTable], version: int
) -> None:
    try:
        schema.decode(kind, memoryview(data), version)
    except MalformedMessage:
        pass


@given(st.binary(max_size=40))
def test_a_header_that_makes_no_sense_is_malformed_and_nothing_else(data: bytes) -> None:
    try:
        read_request(memoryview(data))
    except MalformedMessage:
        pass


def test_a_count_is_compared_with_what_is_left_before_anything_is_made() -> None:
    request = bytes.fromhex("00 0001 000005dc 7fffffff 0001 74")
    with pytest.raises(MalformedMessage, match="exceeds the message"):
        schema.decode(ProduceRequest, memoryview(request), 24)


def test_a_message_has_a_bounded_number_of_rows() -> None:
    names = bytes.fromhex("000186a1") + bytes(2 * 100_001)
    with pytest.raises(MalformedMessage, match="rows in one message"):
        schema.decode(ListRequest, memoryview(names + bytes(2)), 19)


def test_a_flag_that_is_neither_yes_nor_no_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="neither 0 nor 1"):
        schema.decode(ProduceRequest, memoryview(b"\x02"), 24)


def test_a_choice_that_does_not_exist_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="choice 9"):
        schema.decode(objects.TopicSpec, memoryview(b"\x09" + bytes(40)), 19)


def test_a_field_of_a_later_version_has_its_default() -> None:
    data = b"".join(
        bytes(piece) for piece in schema.encode(StreamFetchRequest("t", consumer_id="c"), 22)
    )
    assert schema.decode(StreamFetchRequest, memoryview(data), 22).consumer_id is None


def test_an_error_carries_its_values() -> None:
    for error in (
        FluvioError(FluvioCode.OFFSET_EVICTED, (3, 7)),
        FluvioError.other("why"),
        FluvioError(FluvioCode.REQUEST_TIMED_OUT, (1500, 0)),
    ):
        row = Status("name", error, "text")
        data = b"".join(bytes(piece) for piece in schema.encode(row, 19))
        assert schema.decode(type(row), memoryview(data), 19) == row


def test_a_string_that_is_too_long_for_a_client_is_cut_between_characters() -> None:
    row = Status("name", FluvioError.other("ä" * 20_000))
    data = b"".join(bytes(piece) for piece in schema.encode(row, 19))
    read = schema.decode(type(row), memoryview(data), 19)
    assert read.error.details[0] == "ä" * 16_383


def test_rows_that_were_written_before_are_not_read() -> None:
    data = b"".join(bytes(piece) for piece in schema.encode(WatchUpdates(1, all=[b"x"]), 19))
    with pytest.raises(TypeError):
        schema.decode(WatchUpdates, memoryview(data), 19)
