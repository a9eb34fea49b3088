"""Quotas of bytes count for Pulsar clients, too: one that is over its quota waits."""

import asyncio
import socket

import pytest
from msgspec.structs import replace

from kafscale.access.quotas import USER, QuotaKey, entity_of
from kafscale.gateways.connection import Connection
from kafscale.settings.sections import PulsarSection
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.pulsar.messages.commands import Delivery, Flow, SendReceipt, Subscribe, Success
from kafscale.wire.pulsar.messages.metadata import MessageMetadata
from tests.support.pulsar_wire import RawClient

pytestmark = pytest.mark.real_time

CONFIG = replace(FOR_TESTS, pulsar=PulsarSection(port=0))
MESSAGE = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
EVERYBODY = entity_of([(USER, "ANONYMOUS")])


def connect(port: int) -> RawClient:
    client = RawClient(socket.create_connection(("127.0.0.1", port), timeout=30))
    client.connect()
    return client


def let_go_on(connection: Connection) -> None:
    """As if the time had passed that the client must wait."""
    assert connection.is_muted
    connection._muted_until_s = 0.0
    connection._unmute()
    assert not connection.is_muted


async def test_a_producer_over_its_quota_is_not_read_from() -> None:
    async with InProcessBroker(config=CONFIG) as broker:
        await broker.engine.topics.create("t", 1, {})
        await broker.engine.quotas.alter(EVERYBODY, {QuotaKey.PRODUCED_BYTES: 1.0})
        client = await asyncio.to_thread(connect, broker.endpoints["PULSAR"].port)
        await asyncio.to_thread(client.produce, "t")
        client.send(MESSAGE)
        assert isinstance(await asyncio.to_thread(client.hear), SendReceipt)
        (connection,) = broker.connections._open
        client.send(MESSAGE)
        let_go_on(connection)
        assert isinstance(await asyncio.to_thread(client.hear), SendReceipt)
        assert connection.is_muted
        client.sock.close()


async def test_a_consumer_over_its_quota_gets_nothing_for_a_while() -> None:
    async with InProcessBroker(config=CONFIG) as broker:
        await broker.engine.topics.create("t", 1, {})
        port = broker.endpoints["PULSAR"].port
        reader = await asyncio.to_thread(connect, port)
        (connection,) = broker.connections._open
        wish = Subscribe(topic="t", subscription="s", sub_type=0, consumer_id=1, request_id=1)
        assert isinstance(await asyncio.to_thread(reader.ask, wish), Success)
        reader.say(Flow(consumer_id=1, message_permits=10))
        await broker.engine.quotas.alter(EVERYBODY, {QuotaKey.CONSUMED_BYTES: 1.0})
        writer = await asyncio.to_thread(connect, port)
        await asyncio.to_thread(writer.produce, "t")
        for number in range(2):
            writer.send(MESSAGE, b"%d" % number)
            assert isinstance(await asyncio.to_thread(writer.hear), SendReceipt)
            if number == 0:
                assert isinstance(await asyncio.to_thread(reader.hear), Delivery)
        reader.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            reader.sock.recv(1)
        reader.sock.settimeout(30)
        let_go_on(connection)
        assert isinstance(await asyncio.to_thread(reader.hear), Delivery)
        assert connection.is_muted
        for client in (reader, writer):
            client.sock.close()
