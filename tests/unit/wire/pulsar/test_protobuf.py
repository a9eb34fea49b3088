"""Messages of any content survive being written and read; nothing else is taken for a message."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.wire.buffer import MOST_ROWS, MalformedMessage
from kafscale.wire.pulsar import protobuf
from kafscale.wire.pulsar.messages.commands import COMMANDS, Ack, KeySharedMeta, MessageIdData
from kafscale.wire.pulsar.messages.metadata import MessageMetadata, SingleMessageMetadata
from kafscale.wire.pulsar.protobuf import ProtoField, ProtoMessage, varint

_VALUES = {
    "unsigned": st.integers(0, 2**64 - 1),
    "signed": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
}


def values(field: ProtoField) -> st.SearchStrategy[Any]:
    one = messages(field.message) if field.message is not None else _VALUES[field.kind]
    return st.lists(one, max_size=3) if field.is_repeated else one


def messages(kind: type[ProtoMessage]) -> st.SearchStrategy[ProtoMessage]:
    required = {one.name: values(one) for one in kind.table if one.default is protobuf.REQUIRED}
    optional = {one.name: values(one) for one in kind.table if one.name not in required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: kind(**given))


def normal(message: ProtoMessage) -> ProtoMessage:
    """An empty list is the same as no list."""
    message.__dict__ = {name: one for name, one in message.__dict__.items() if one != []}
    return message


ALL = st.sampled_from([*COMMANDS.values(), MessageMetadata, SingleMessageMetadata])


@given(message=ALL.flatmap(messages))
def test_what_is_written_is_read(message: ProtoMessage) -> None:
    read = type(message).decode(memoryview(message.encode()))
    assert read.encode() == message.encode()
    assert normal(read).__dict__.keys() == normal(message).__dict__.keys()


@given(kind=ALL, data=st.binary(max_size=60))
def test_any_bytes_are_a_message_or_malformed(kind: type[ProtoMessage], data: bytes) -> None:
    try:
        kind.decode(memoryview(data))
    except MalformedMessage:
        pass


@given(message=ALL.flatmap(messages), unknown=st.integers(1000, 2**29 - 1), size=st.integers(0, 9))
def test_unknown_fields_change_nothing(message: ProtoMessage, unknown: int, size: int) -> None:
    encoded = message.encode()
    extra = b"".join(
        (
            *(varint(unknown << 3), varint(size)),
            *(varint(unknown << 3 | 1), bytes(8)),
            *(varint(unknown << 3 | 2), varint(size), bytes(size)),
            *(varint(unknown << 3 | 5), bytes(4)),
        )
    )
    assert type(message).decode(memoryview(extra + encoded + extra)).encode() == encoded


def test_numbers_may_come_packed() -> None:
    packed = bytes.fromhex("0801 1002 2a03 010203")
    assert MessageIdData.decode(memoryview(packed)).ack_set == [1, 2, 3]


def test_rows_have_a_limit() -> None:
    one = MessageIdData(ledger_id=1, entry_id=2).encode()
    row = b"\x1a" + varint(len(one)) + one
    start = Ack(consumer_id=1, ack_type=0).encode()
    assert len(Ack.decode(memoryview(start + row * 1000)).message_id) == 1000
    with pytest.raises(MalformedMessage):
        Ack.decode(memoryview(start + row * (MOST_ROWS + 1)))
    bits = b"\x2a" + varint(MOST_ROWS + 1) + b"\x01" * (MOST_ROWS + 1)
    with pytest.raises(MalformedMessage):
        MessageIdData.decode(memoryview(one + bits))


def test_a_field_that_a_message_lacks_cannot_be_given() -> None:
    with pytest.raises(TypeError):
        KeySharedMeta(mode=1)
