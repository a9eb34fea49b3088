"""Frames of Pulsar's protocol, both directions."""

import pytest

from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.pulsar.frame import (
    UnknownCommand,
    WrongChecksum,
    broker_entry,
    read_entry,
    read_frame,
    sign_entry,
    write_command,
)
from kafscale.wire.pulsar.messages.commands import (
    NO_REQUEST,
    CloseConsumer,
    Connect,
    FeatureFlags,
    Lookup,
    MessageIdData,
    Ping,
    Pong,
    Seek,
)
from kafscale.wire.pulsar.messages.metadata import (
    BrokerEntryMetadata,
    KeyValue,
    MessageMetadata,
    SingleMessageMetadata,
    each_single,
)
from tests.unit.wire.pulsar.golden import GOLDEN, golden


@pytest.mark.parametrize("name", sorted(GOLDEN.keys() - {"lookup"}))
def test_a_captured_frame_is_written_as_it_was_read(name: str) -> None:
    command, rest = read_frame(golden(name))
    written = write_command(command, behind=len(rest)) + bytes(rest)
    assert written.hex() == GOLDEN[name]


def test_fields_that_no_table_has_are_kept_out() -> None:
    command, _ = read_frame(golden("lookup"))  # its last field is the name of a listener
    topic = "persistent://public/default/t"
    assert command == Lookup(topic=topic, request_id=2, authoritative=False)


def test_a_client_says_who_it_is() -> None:
    command, _ = read_frame(golden("connect"))
    assert command == Connect(
        client_version="Pulsar-CPP-v4.2.0",
        protocol_version=20,
        auth_method_name="none",
        feature_flags=FeatureFlags(supports_auth_refresh=True, supports_broker_entry_metadata=True),
    )


def test_minus_one_is_read_as_minus_one() -> None:
    command, _ = read_frame(golden("seek_earliest"))
    assert isinstance(command, Seek)
    assert command.message_id == MessageIdData(ledger_id=-1, entry_id=-1)
    command, _ = read_frame(golden("close_consumer"))
    assert command == CloseConsumer(consumer_id=0, request_id=NO_REQUEST)


def test_a_command_without_fields_has_its_place_in_the_frame() -> None:
    assert write_command(Pong()).hex() == "0000000900000005" + "08139a0100"
    assert read_frame(memoryview(write_command(Ping()))[4:]).command == Ping()


def test_the_messages_of_a_batch_are_read() -> None:
    metadata, payload = read_entry(read_frame(golden("send_batch")).rest)
    opened = MessageMetadata.decode(metadata)
    assert (opened.producer_name, opened.num_messages_in_batch) == ("p", 2)
    (first, a), (second, b) = each_single(payload, 2)
    assert (first.partition_key, bytes(a)) == ("k", b"A")
    assert (second.properties, bytes(b)) == ([KeyValue(key="h", value="1")], b"B")
    assert second.event_time == 1_700_000_000_000


def test_a_message_without_checksum_is_read() -> None:
    rest = read_frame(golden("send_single")).rest
    metadata, payload = read_entry(rest[6:])
    assert bytes(payload) == b"C"
    assert MessageMetadata.decode(metadata).ordering_key == b"o"


@pytest.mark.parametrize("at", [2, 8, 20, -1])
def test_a_changed_byte_of_a_message_is_noticed(at: int) -> None:
    rest = bytearray(read_frame(golden("send_single")).rest)
    rest[at] ^= 1
    with pytest.raises(WrongChecksum):
        read_entry(memoryview(rest))


def test_a_signed_entry_is_read_again_with_what_a_broker_adds() -> None:
    head, payload = sign_entry(b"metadata", b"payload")
    added = broker_entry(BrokerEntryMetadata(broker_timestamp=5, index=9))
    read = read_entry(memoryview(added + head + bytes(payload)))
    assert (bytes(read.metadata), bytes(read.payload)) == (b"metadata", b"payload")


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_a_frame_that_is_cut_off_is_malformed(name: str) -> None:
    frame = golden(name)
    size = 4 + int.from_bytes(frame[:4], "big")
    for end in range(size):
        with pytest.raises(MalformedMessage):
            read_frame(frame[:end])


@pytest.mark.parametrize(
    "command",
    [
        "",
        "0802",  # CONNECT without its field
        "08ffffffffffffffffffff01",  # a number of more than 64 bits
        "0802 1205 0a01",  # a length beyond the frame
        "0802 2a00",  # the fields of another command
        "0802 1200",  # without the version that every client sends
        "0802 1202 0a05",  # a string beyond its message
        "0802 1203 0a01ff",  # not UTF-8
        "0802 1202 0801",  # a number where a string belongs
        "0802 1203 0b0a00",  # a group, which the protocol has not
        "0802 1204 00000000",  # field number 0
        "1202 0802",  # the type comes last
    ],
)
def test_a_command_that_makes_no_sense_is_malformed(command: str) -> None:
    body = bytes.fromhex(command)
    with pytest.raises(MalformedMessage):
        read_frame(memoryview(len(body).to_bytes(4, "big") + body))


@pytest.mark.parametrize("number", [0, 1, 27, 50, 64, 99])
def test_a_command_that_is_not_spoken_is_named(number: int) -> None:
    body = bytes((8, number))
    with pytest.raises(UnknownCommand, match=str(number)):
        read_frame(memoryview(len(body).to_bytes(4, "big") + body))


@pytest.mark.parametrize(
    "rest", ["", "0e01", "0e0100000000", "0e02", "0e02000000ff", "00000010", "ffffffff00"]
)
def test_an_entry_that_is_cut_off_is_refused(rest: str) -> None:
    with pytest.raises((MalformedMessage, WrongChecksum)):
        read_entry(memoryview(bytes.fromhex(rest)))


def test_a_batch_must_fill_its_payload() -> None:
    single = SingleMessageMetadata(payload_size=3).encode()
    message = len(single).to_bytes(4, "big") + single + b"abc"
    assert [bytes(p) for _, p in each_single(memoryview(message * 2), 2)] == [b"abc", b"abc"]
    for payload, count in ((message * 2, 1), (message * 2, 3), (message[:-1], 1), (b"\xff" * 4, 1)):
        with pytest.raises(MalformedMessage):
            list(each_single(memoryview(payload), count))
    negative = SingleMessageMetadata(payload_size=-1).encode()
    with pytest.raises(MalformedMessage):
        list(each_single(memoryview(len(negative).to_bytes(4, "big") + negative), 1))
