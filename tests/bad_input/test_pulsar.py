"""Rows U1 to U34: what no Pulsar client sends, and what the Pulsar door answers."""

import socket
import struct
import zlib

import pytest

from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.messages.commands import (
    Ack,
    AckResponse,
    AuthData,
    AuthResponse,
    CloseConsumer,
    CloseProducer,
    Command,
    Connect,
    ConsumerStats,
    ConsumerStatsResponse,
    Error,
    Flow,
    GetLastMessageId,
    GetOrCreateSchema,
    GetOrCreateSchemaResponse,
    GetSchema,
    GetSchemaResponse,
    IntRange,
    KeySharedMeta,
    Lookup,
    LookupResponse,
    MessageIdData,
    PartitionedMetadata,
    PartitionedMetadataResponse,
    Ping,
    Pong,
    Producer,
    RedeliverUnacknowledged,
    Schema,
    Seek,
    Send,
    SendError,
    SendReceipt,
    Subscribe,
    Success,
    Unsubscribe,
)
from kafscale.wire.pulsar.messages.metadata import MessageMetadata
from tests.bad_input.attacked_broker import ANSWER_S, Victim, is_closed
from tests.support.pulsar_wire import RawClient

NOW_MS = 1_790_000_000_000


@pytest.fixture
def client(victim: Victim) -> RawClient:
    raw = connect(victim)
    raw.connect()
    return raw


def connect(victim: Victim) -> RawClient:
    sock = socket.socket()
    sock.settimeout(ANSWER_S)
    sock.connect(("127.0.0.1", victim.process.pulsar_port))
    victim.keep(sock)
    return RawClient(sock)


def whole(**fields: object) -> MessageMetadata:
    return MessageMetadata(producer_name="p", sequence_id=0, publish_time=NOW_MS, **fields)


def refused(answer: Command, code: ServerError) -> bool:
    return isinstance(answer, Error) and answer.error == code


def is_served(client: RawClient) -> bool:
    return client.ask(Ping()) == Pong()


def subscribe(client: RawClient, topic: str, number: int = 1, **more: object) -> Command:
    wish = {"subscription": "s", "sub_type": 0, "request_id": 5, **more}
    return client.ask(Subscribe(topic=topic, consumer_id=number, **wish))


# -- frames ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, -1])
def test_u1_a_frame_without_a_length_closes_the_connection(victim: Victim, length: int) -> None:
    with victim.suffers("bad_frame_length"):
        client = connect(victim)
        client.sock.sendall(struct.pack(">i", length))
        assert is_closed(client.sock)


def test_u2_a_command_longer_than_its_frame_closes_the_connection(victim: Victim) -> None:
    with victim.suffers("malformed_command"):
        client = connect(victim)
        client.sock.sendall(struct.pack(">II", 8, 1 << 31) + bytes(4))
        assert is_closed(client.sock)


@pytest.mark.parametrize(
    "command",
    [
        "08",
        "0812",
        "0812 9201 05",
        "0812 9201 ffffffffffffffffff7f",
        "0802 1202 0a05",
        "080a 520a 0801 1000 1a04 0a02 0a00",
    ],
)
def test_u3_a_command_that_makes_no_sense_closes_the_connection(
    victim: Victim, client: RawClient, command: str
) -> None:
    with victim.suffers("malformed_command"):
        client.say_raw(bytes.fromhex(command))
        assert is_closed(client.sock)


@pytest.mark.parametrize("number", [0, 1, 27, 66, 99])
def test_u4_a_command_that_is_not_spoken_closes_the_connection(
    victim: Victim, client: RawClient, number: int
) -> None:
    with victim.suffers("malformed_command"):
        client.say_raw(bytes((8, number)))
        assert is_closed(client.sock)


def test_u5_messages_within_messages_have_a_limit(victim: Victim, client: RawClient) -> None:
    inner = b""
    for _ in range(10_000):
        size = len(inner)
        inner = b"\x3a" + bytes((size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14)) + inner
    body = b"\x08\x01\x10\x00\x1a" + _varint(len(inner)) + inner
    with victim.suffers("malformed_command"):  # the table knows no such nesting: a field is missing
        client.say_raw(b"\x08\x0a\x52" + _varint(len(body)) + body)
        assert is_closed(client.sock)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def test_u6_the_bits_of_an_ack_have_a_limit(victim: Victim, client: RawClient) -> None:
    bits = b"\x08\x01\x10\x00\x2a" + _varint(1_000_000) + b"\x01" * 1_000_000
    body = b"\x08\x01\x10\x00\x1a" + _varint(len(bits)) + bits
    with victim.suffers("malformed_command"):
        client.say_raw(b"\x08\x0a\x52" + _varint(len(body)) + body)
        assert is_closed(client.sock)


# -- order -------------------------------------------------------------------------------------


def test_u7_nothing_comes_before_connect(victim: Victim) -> None:
    with victim.suffers("malformed_command"):
        client = connect(victim)
        client.say(Ping())
        assert is_closed(client.sock)


def test_u8_connect_comes_once(victim: Victim, client: RawClient) -> None:
    with victim.suffers("malformed_command"):
        client.say(Connect(client_version="again"))
        assert is_closed(client.sock)


def test_u9_what_only_brokers_say_closes_the_connection(victim: Victim, client: RawClient) -> None:
    with victim.suffers("malformed_command"):
        client.say(Success(request_id=1))
        assert is_closed(client.sock)


def test_u10_a_message_of_no_producer_closes_the_connection(
    victim: Victim, client: RawClient
) -> None:
    with victim.suffers("malformed_command"):
        client.send(whole(), number=7)
        assert is_closed(client.sock)


def test_u11_a_message_of_a_closed_producer_is_dropped(client: RawClient) -> None:
    client.produce("u11")
    assert client.ask(CloseProducer(producer_id=1, request_id=2)) == Success(request_id=2)
    client.send(whole())
    assert is_served(client)


def test_u12_what_is_not_there_can_be_closed(client: RawClient) -> None:
    assert client.ask(CloseProducer(producer_id=9, request_id=1)) == Success(request_id=1)
    assert client.ask(CloseConsumer(consumer_id=9, request_id=2)) == Success(request_id=2)


def test_u13_commands_of_no_consumer_do_nothing_or_say_so(client: RawClient) -> None:
    one = MessageIdData(ledger_id=1, entry_id=0)
    client.say(Flow(consumer_id=9, message_permits=1))
    client.say(Ack(consumer_id=9, ack_type=0, message_id=[one]))
    client.say(RedeliverUnacknowledged(consumer_id=9))
    for ask in (
        Seek(consumer_id=9, request_id=1, message_id=one),
        GetLastMessageId(consumer_id=9, request_id=1),
        Unsubscribe(consumer_id=9, request_id=1),
    ):
        assert refused(client.ask(ask), ServerError.CONSUMER_NOT_FOUND)
    stats = client.ask(ConsumerStats(request_id=1, consumer_id=9))
    assert isinstance(stats, ConsumerStatsResponse)
    assert stats.error_code == ServerError.CONSUMER_NOT_FOUND


def test_u14_the_same_number_again_is_the_same_producer_and_consumer(client: RawClient) -> None:
    client.produce("u14", producer_name="mine")
    client.produce("u14", producer_name="mine")
    assert subscribe(client, "u14") == subscribe(client, "u14") == Success(request_id=5)


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b",
        "a/b/c/d",
        "persistent://t",
        "non-persistent://public/default/t",
        "topic://public/default/t",
        "persistent://public/default/",
        "public/default/ü",
        "persistent://public/default/" + "x" * 300,
        "persistent://public//t",
    ],
)
def test_u15_a_name_that_no_topic_has_is_refused(client: RawClient, name: str) -> None:
    metadata = client.ask(PartitionedMetadata(topic=name, request_id=1))
    assert isinstance(metadata, PartitionedMetadataResponse)
    assert metadata.error == ServerError.NOT_ALLOWED
    found = client.ask(Lookup(topic=name, request_id=1))
    assert isinstance(found, LookupResponse)
    assert found.error == ServerError.NOT_ALLOWED
    wish = Producer(topic=name, producer_id=1, request_id=1)
    assert refused(client.ask(wish), ServerError.NOT_ALLOWED)
    assert refused(subscribe(client, name), ServerError.NOT_ALLOWED)


@pytest.mark.parametrize("name", ["t-partition-99", "__consumer_offsets"])
def test_u16_what_is_not_there_is_not_found(client: RawClient, name: str) -> None:
    wish = Producer(topic=name, producer_id=1, request_id=1)
    assert refused(client.ask(wish), ServerError.TOPIC_NOT_FOUND)
    assert refused(subscribe(client, name), ServerError.TOPIC_NOT_FOUND)


@pytest.mark.parametrize(
    "more",
    [{"producer_name": "x" * 2000}, {"producer_access_mode": 9}, {"txn_enabled": True}],
)
def test_u17_a_producer_that_cannot_be_is_refused(
    client: RawClient, more: dict[str, object]
) -> None:
    wish = Producer(topic="u17", producer_id=1, request_id=1, **more)
    assert refused(client.ask(wish), ServerError.NOT_ALLOWED)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"sub_type": 9}, ServerError.NOT_ALLOWED),
        ({"subscription": "x" * 2000}, ServerError.NOT_ALLOWED),
        (
            {
                "sub_type": 3,
                "key_shared_meta": KeySharedMeta(
                    key_shared_mode=1, hash_ranges=[IntRange(start=-5, end=1 << 40)]
                ),
            },
            ServerError.CONSUMER_ASSIGN_ERROR,
        ),
        ({"force_topic_creation": False}, ServerError.TOPIC_NOT_FOUND),
    ],
)
def test_u18_a_subscription_that_cannot_be_is_refused(
    client: RawClient, more: dict[str, object], code: ServerError
) -> None:
    topic = "u18" if more.get("force_topic_creation", True) else "u18-that-is-not-there"
    assert refused(subscribe(client, topic, **more), code)


# -- messages ----------------------------------------------------------------------------------


def test_u19_a_wrong_checksum_fails_one_message(client: RawClient) -> None:
    client.produce("u19")
    client.say_raw(send_command(), b"\x0e\x01\x00\x00\x00\x00" + b"\x00\x00\x00\x00v")
    answer = client.hear()
    assert isinstance(answer, SendError)
    assert answer.error == ServerError.CHECKSUM_ERROR
    client.send(whole())
    assert isinstance(client.hear(), SendReceipt)


def send_command() -> bytes:
    """A SEND without its frame."""
    body = Send(producer_id=1, sequence_id=0).encode()
    return b"\x08\x06\x32" + _varint(len(body)) + body


@pytest.mark.parametrize("behind", [b"", b"\x0e", b"\x0e\x01", b"\x00\x00\x00\xff"])
def test_u20_a_message_that_is_cut_off_closes_the_connection(
    victim: Victim, client: RawClient, behind: bytes
) -> None:
    client.produce("u20")
    with victim.suffers("malformed_command"):
        client.say_raw(send_command(), behind)
        assert is_closed(client.sock)


BOMB = zlib.compress(bytes(64 << 20))


@pytest.mark.parametrize(
    ("metadata", "payload"),
    [
        (whole(compression=2, uncompressed_size=64 << 20), BOMB),
        (whole(compression=2, uncompressed_size=10), BOMB),
        (whole(compression=1, uncompressed_size=1 << 31), b"\x1f"),
        (whole(compression=9), b""),
        (whole(num_messages_in_batch=1 << 31), b""),
        (whole(num_messages_in_batch=0), b""),
        (whole(txnid_most_bits=1, txnid_least_bits=1), b""),
        (whole(marker_type=1), b""),
        (whole(event_time=(1 << 64) - 1), b""),
        (whole(), bytes((1 << 20) + 13)),
    ],
    ids=[
        "bomb",
        "liar",
        "lz4",
        "codec",
        "batch",
        "none",
        "txn",
        "marker",
        "time",
        "size",
    ],
)
@pytest.mark.parametrize("kind", ["Pulsar-CPP-v4", "Pulsar-Java"])
def test_u21_a_message_that_cannot_be_stored_fails_alone(
    victim: Victim, kind: str, metadata: MessageMetadata, payload: bytes
) -> None:
    client = connect(victim)
    client.connect(kind)
    client.produce("u21")
    with victim.suffers("message_refused"):
        client.send(metadata, payload)
        answer = client.hear()
        assert isinstance(answer, SendError)
        if kind.startswith("Pulsar-CPP"):  # it would send the message again after any other code
            assert answer.error == ServerError.CHECKSUM_ERROR
        client.send(whole())
        assert isinstance(client.hear(), SendReceipt)


def test_u22_a_batch_that_is_no_batch_closes_the_connection(
    victim: Victim, client: RawClient
) -> None:
    client.produce("u22")
    with victim.suffers("malformed_command"):
        client.send(whole(num_messages_in_batch=5), b"\x00\x00\x00\x02\x18\x01v")
        assert is_closed(client.sock)


# -- consumers ---------------------------------------------------------------------------------


def test_u23_permits_do_not_overflow(client: RawClient) -> None:
    assert subscribe(client, "u23") == Success(request_id=5)
    client.say(*[Flow(consumer_id=1, message_permits=(1 << 32) - 1) for _ in range(100)])
    assert is_served(client)


@pytest.mark.parametrize(
    "forged",
    [
        MessageIdData(ledger_id=1, entry_id=1 << 62),
        MessageIdData(ledger_id=1 << 62, entry_id=1 << 62),
        MessageIdData(ledger_id=-5, entry_id=-5),
        MessageIdData(ledger_id=1, entry_id=0, ack_set=[-1] * 5000),
        MessageIdData(ledger_id=1, entry_id=0, batch_index=1 << 62),
    ],
    ids=["beyond the end", "of another topic", "negative", "many bits", "large index"],
)
def test_u24_forged_ids_acknowledge_nothing(client: RawClient, forged: MessageIdData) -> None:
    assert subscribe(client, "u24", number=1, subscription="forged") == Success(request_id=5)
    for kind in (0, 1):
        answer = client.ask(Ack(consumer_id=1, ack_type=kind, message_id=[forged], request_id=8))
        assert isinstance(answer, AckResponse)
    client.say(RedeliverUnacknowledged(consumer_id=1, message_ids=[forged]))
    assert is_served(client)


def test_u25_a_cumulative_ack_of_many_is_refused(client: RawClient) -> None:
    assert subscribe(client, "u25") == Success(request_id=5)
    two = [MessageIdData(ledger_id=1, entry_id=entry) for entry in (0, 1)]
    answer = client.ask(Ack(consumer_id=1, ack_type=1, message_id=two, request_id=8))
    assert isinstance(answer, AckResponse)
    assert answer.error == ServerError.NOT_ALLOWED


def test_u26_acks_within_transactions_are_refused(client: RawClient) -> None:
    assert subscribe(client, "u26") == Success(request_id=5)
    one = MessageIdData(ledger_id=1, entry_id=0)
    answer = client.ask(
        Ack(consumer_id=1, ack_type=0, message_id=[one], txnid_most_bits=1, request_id=8)
    )
    assert isinstance(answer, AckResponse)
    assert answer.error == ServerError.NOT_ALLOWED


def test_u27_a_seek_to_nowhere_is_refused(client: RawClient) -> None:
    assert subscribe(client, "u27") == Success(request_id=5)
    assert refused(client.ask(Seek(consumer_id=1, request_id=3)), ServerError.METADATA_ERROR)


def test_u28_schemas_are_not_found(client: RawClient) -> None:
    answer = client.ask(GetSchema(request_id=4, topic="persistent://public/default/u28"))
    assert isinstance(answer, GetSchemaResponse)
    assert answer.error_code == ServerError.TOPIC_NOT_FOUND


@pytest.mark.parametrize("version", [b"\xff" * 8, b"\x01", bytes(100_000), b"\xff" * 100_000])
def test_u29_versions_that_no_schema_has_are_not_found(client: RawClient, version: bytes) -> None:
    client.produce("u29")
    answer = client.ask(GetSchema(request_id=4, topic="u29", schema_version=version))
    assert isinstance(answer, GetSchemaResponse)
    assert answer.error_code == ServerError.TOPIC_NOT_FOUND
    assert is_served(client)


def test_u30_a_schema_that_is_too_large_is_refused(client: RawClient) -> None:
    large = Schema(name="s", schema_data=bytes(1 << 20), type=2)
    answer = client.ask(GetOrCreateSchema(request_id=4, topic="u30", schema=large))
    assert isinstance(answer, GetOrCreateSchemaResponse)
    assert answer.error_code == ServerError.NOT_ALLOWED
    wish = Producer(topic="u30", producer_id=1, request_id=1, schema=large)
    assert refused(client.ask(wish), ServerError.NOT_ALLOWED)
    assert is_served(client)


def test_u31_a_schema_of_an_unknown_type_is_kept_as_it_is(client: RawClient) -> None:
    strange = Schema(name="\0", schema_data=b"\xff\xfe", type=4_000_000_000)
    made = client.ask(GetOrCreateSchema(request_id=4, topic="u31", schema=strange))
    assert isinstance(made, GetOrCreateSchemaResponse)
    assert made.schema_version == bytes(8)
    found = client.ask(GetSchema(request_id=5, topic="u31", schema_version=bytes(8)))
    assert isinstance(found, GetSchemaResponse)
    assert found.schema == strange


def test_u32_a_proof_that_was_not_asked_for_closes_the_connection(
    victim: Victim, client: RawClient
) -> None:
    with victim.suffers("malformed_command"):
        client.say(AuthResponse(response=AuthData(auth_method_name="basic", auth_data=b"a:b")))
        assert is_closed(client.sock)


def test_u33_an_open_door_takes_any_proof_and_looks_at_none(victim: Victim) -> None:
    client = connect(victim)
    hello = Connect(client_version="x", auth_method_name="y" * 1000, auth_data=bytes(100_000))
    client.say(hello)
    client.hear()
    assert is_served(client)


def test_u34_answers_to_no_question_are_passed_over(client: RawClient) -> None:
    client.say(Pong(), Pong())
    assert is_served(client)
