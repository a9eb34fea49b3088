"""What a client may not do is refused at Pulsar's port, and nothing of it happens."""

import asyncio
import socket

import pytest
from msgspec.structs import replace

from kafscale.settings.sections import PulsarSection
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.messages.commands import (
    CloseConsumer,
    CloseProducer,
    Command,
    Delivery,
    Error,
    Flow,
    GetTopicsOfNamespace,
    GetTopicsOfNamespaceResponse,
    Lookup,
    LookupResponse,
    PartitionedMetadata,
    PartitionedMetadataResponse,
    Producer,
    SendReceipt,
    Subscribe,
    Success,
)
from kafscale.wire.pulsar.messages.metadata import MessageMetadata
from tests.support.authorizers import Denies
from tests.support.pulsar_wire import RawClient

pytestmark = pytest.mark.real_time

CONFIG = replace(FOR_TESTS, pulsar=PulsarSection(port=0))


def requests(topic: str) -> list[Command]:
    return [
        PartitionedMetadata(topic=topic, request_id=1),
        Lookup(topic=topic, request_id=2),
        Producer(topic=topic, producer_id=3, request_id=3),
        Subscribe(topic=topic, subscription="s", sub_type=0, consumer_id=4, request_id=4),
    ]


def ask_all(port: int, commands: list[Command]) -> list[Command]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        client = RawClient(sock)
        client.connect()
        return [client.ask(command) for command in commands]


async def test_a_denied_client_neither_uses_nor_creates_nor_sees_topics() -> None:
    async with InProcessBroker(config=CONFIG, authorizer=Denies()) as broker:
        await broker.engine.topics.create("t", 1, {})
        port = broker.endpoints["PULSAR"].port
        listing = GetTopicsOfNamespace(request_id=9, namespace="public/default", mode=0)
        asked = [*requests("t"), *requests("new"), listing]
        *answers, listed = await asyncio.to_thread(ask_all, port, asked)
        assert isinstance(listed, GetTopicsOfNamespaceResponse)
        assert not listed.topics
        errors = [getattr(answer, "error", None) for answer in answers]
        assert errors == [ServerError.AUTHORIZATION_ERROR] * 8
        assert broker.engine.topics.find("new") is None


async def test_a_client_that_may_do_everything_creates_what_it_uses() -> None:
    authorizer = Denies(lambda kind, name: False)
    async with InProcessBroker(config=CONFIG, authorizer=authorizer) as broker:
        port = broker.endpoints["PULSAR"].port
        metadata, found = await asyncio.to_thread(ask_all, port, requests("new")[:2])
        assert isinstance(metadata, PartitionedMetadataResponse)
        assert isinstance(found, LookupResponse)
        assert (metadata.error, found.error) == (None, None)
        assert broker.engine.topics.find("new") is not None


@pytest.mark.parametrize(
    ("lost", "heard", "asking"),
    [("t", {CloseProducer}, 2), ("pulsar:s", {SendReceipt, CloseConsumer}, 3)],
)
async def test_a_client_that_is_connected_loses_leave_as_all_others_do(
    lost: str, heard: set[type[Command]], asking: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied: set[str] = set()
    lines: list[dict[str, object]] = []
    message = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    commands = requests("t")

    def converse(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            client = RawClient(sock)
            client.connect()
            client.produce("t")
            assert isinstance(client.ask(commands[3]), Success)
            client.say(Flow(consumer_id=4, message_permits=10))
            client.send(message)
            assert {type(client.hear()), type(client.hear())} == {SendReceipt, Delivery}
            denied.add(lost)
            client.send(message, b"more")
            assert {type(client.hear()) for _ in heard} == heard
            refused = client.ask(commands[asking])
            assert isinstance(refused, Error)
            assert refused.error == ServerError.AUTHORIZATION_ERROR

    authorizer = Denies(lambda kind, name: name in denied)
    async with InProcessBroker(config=CONFIG, authorizer=authorizer) as broker:
        topic = await broker.engine.topics.create("t", 1, {})
        monkeypatch.setattr(broker.connections._audit, "_write_line", lines.append)
        await asyncio.to_thread(converse, broker.endpoints["PULSAR"].port)
        bounds = await broker.engine.partitions.bounds(topic, 0, -1)
        assert bounds.end == (1 if lost == "t" else 2)
    assert [(line["kind"], line["resources"]) for line in lines] == [("denied", [lost])] * 2


async def test_compacted_reading_is_for_one_consumer_at_a_time() -> None:
    wishes = [
        Subscribe(
            topic="t",
            subscription=f"s{kind}",
            sub_type=kind,
            consumer_id=kind,
            request_id=kind,
            read_compacted=True,
        )
        for kind in (0, 1, 3, 2)  # Exclusive, Shared, Key_Shared, Failover
    ]
    async with InProcessBroker(config=CONFIG) as broker:
        port = broker.endpoints["PULSAR"].port
        answers = await asyncio.to_thread(ask_all, port, wishes)
    errors = [getattr(answer, "error", None) for answer in answers]
    assert errors == [None, ServerError.NOT_ALLOWED, ServerError.NOT_ALLOWED, None]
