"""Numbers that Pulsar clients make up: sequence ids, epochs, times, ids to seek.

Next door: frames, commands and messages (test_pulsar.py).
"""

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.frame import sign_entry, write_command
from kafscale.wire.pulsar.messages.commands import (
    CloseConsumer,
    CloseProducer,
    Error,
    MessageIdData,
    Producer,
    ProducerSuccess,
    Seek,
    Send,
    SendError,
    SendReceipt,
    Success,
)
from kafscale.wire.pulsar.messages.metadata import (
    MessageMetadata,
    SingleMessageMetadata,
    single_bytes,
)
from tests.bad_input.attacked_broker import Victim
from tests.bad_input.test_pulsar import NOW_MS, client, connect, is_served, subscribe
from tests.support.pulsar_wire import RawClient

__all__ = ["client"]


def once(victim: Victim, topic: str) -> None:
    """A topic that stores no message twice."""
    admin = AdminClient({"bootstrap.servers": victim.process.bootstrap})
    wish = NewTopic(topic, 1, config={"kafscale.deduplication": "true"})
    admin.create_topics([wish])[topic].result(20)


def send(client: RawClient, sequence_id: int, payload: bytes = b"v", **more: int) -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=sequence_id, publish_time=NOW_MS, **more
    )
    head, payload = sign_entry(metadata.encode(), payload)
    command = Send(producer_id=1, sequence_id=sequence_id)
    client.sock.sendall(write_command(command, behind=len(head) + len(payload)) + head + payload)


def batch(*sequence_ids: int) -> bytes:
    one = [SingleMessageMetadata(payload_size=1, sequence_id=number) for number in sequence_ids]
    return b"".join(single_bytes(single) + b"v" for single in one)


@pytest.mark.parametrize("number", [1 << 63, (1 << 64) - 1])
def test_u35_a_sequence_id_that_no_batch_can_keep_fails_alone(
    victim: Victim, client: RawClient, number: int
) -> None:
    topic = f"u35-{number}"
    once(victim, topic)
    client.produce(topic)
    send(client, number)
    assert isinstance(client.hear(), SendError)
    send(client, (1 << 63) - 1)
    assert isinstance(client.hear(), SendReceipt)
    assert is_served(client)


def test_u36_a_batch_whose_sequence_ids_contradict_each_other_fails_alone(
    victim: Victim, client: RawClient
) -> None:
    once(victim, "u36")
    client.produce("u36")
    send(client, 5)
    assert isinstance(client.hear(), SendReceipt)
    # Its first and its last are stored, and the one between says that it is new.
    send(client, 0, batch(0, 1 << 62, 3), num_messages_in_batch=3)
    stored_before = client.hear()
    assert isinstance(stored_before, SendReceipt)
    assert stored_before.message_id == MessageIdData(ledger_id=-1, entry_id=-1)
    # Its last one is new, and stands before those that are not.
    send(client, 0, batch(9, 1, 2), num_messages_in_batch=3)
    assert isinstance(client.hear(), SendReceipt)
    assert is_served(client)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_u37_an_epoch_of_the_topic_that_cannot_be_is_refused(client: RawClient, mode: int) -> None:
    wish = Producer(
        topic=f"u37-{mode}",
        producer_id=1,
        request_id=1,
        producer_access_mode=mode,
        topic_epoch=(1 << 64) - 1,
    )
    answer = client.ask(wish)
    assert isinstance(answer, Error)
    assert answer.error == ServerError.NOT_ALLOWED
    client.produce(f"u37-{mode}", producer_access_mode=mode)
    assert is_served(client)


def test_u38_a_producer_that_waits_for_its_topic_stores_nothing(
    victim: Victim, client: RawClient
) -> None:
    client.produce("u38", producer_access_mode=1)
    other = connect(victim)
    other.connect()
    waiting = other.ask(Producer(topic="u38", producer_id=1, request_id=1, producer_access_mode=2))
    assert isinstance(waiting, ProducerSuccess)
    assert not waiting.producer_ready
    send(other, 0)
    assert isinstance(other.hear(), CloseProducer)
    send(client, 0)
    receipt = client.hear()
    assert isinstance(receipt, SendReceipt)
    assert receipt.message_id == MessageIdData(ledger_id=1, entry_id=0)


@pytest.mark.parametrize(
    "where",
    [
        {"message_publish_time": (1 << 64) - 1},
        {"message_publish_time": 0},
        {"message_id": MessageIdData(ledger_id=(1 << 62), entry_id=7)},
        {"message_id": MessageIdData(ledger_id=1, entry_id=(1 << 63) - 1, batch_index=-7)},
        {"message_id": MessageIdData(ledger_id=-9, entry_id=-9, ack_set=[1] * 1000)},
    ],
    ids=["no such time", "time zero", "another ledger", "beyond the end", "negative"],
)
def test_u39_a_seek_to_anywhere_ends_the_consumer_and_goes_on(
    client: RawClient, where: dict[str, object]
) -> None:
    assert subscribe(client, "u39") == Success(request_id=5)
    client.say(Seek(consumer_id=1, request_id=3, **where))
    heard = [client.hear(), client.hear()]
    assert sorted(type(one).__name__ for one in heard) == [
        CloseConsumer.__name__,
        Success.__name__,
    ]
    assert subscribe(client, "u39") == Success(request_id=5)
    assert is_served(client)
