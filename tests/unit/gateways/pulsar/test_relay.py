"""Brokers that clients reach by one address lead them on to each other."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pulsar
import pytest
from msgspec.structs import replace

from kafscale.gateways.pulsar import session
from kafscale.gateways.pulsar.relay import Relay
from kafscale.settings.sections import PulsarSection
from kafscale.testing.in_process import FOR_TESTS
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.frame import write_command
from kafscale.wire.pulsar.messages.commands import (
    Command,
    Connect,
    Connected,
    Error,
    Lookup,
    LookupResponse,
    Producer,
    ProducerSuccess,
)
from tests.support.pulsar_wire import RawClient
from tests.unit.engine.fleet_harness import FleetHarness, Member, eventually

pytestmark = pytest.mark.real_time

CONFIG = replace(FOR_TESTS, pulsar=PulsarSection(port=0, proxy_through_service_url=True))
PARTITIONS = 8
TOPIC = "persistent://public/default/t"


@pytest.fixture
def relays(monkeypatch: pytest.MonkeyPatch) -> list[Relay]:
    """All connections that brokers have led on."""
    made: list[Relay] = []

    class NotedRelay(Relay):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(session, "Relay", NotedRelay)
    return made


@asynccontextmanager
async def two_brokers() -> AsyncIterator[list[Member]]:
    """Two brokers, each of which leads a part of a topic."""
    async with FleetHarness(gather_s=0.05) as fleet:
        members = [await fleet.start(number, CONFIG) for number in (1, 2)]
        await members[0].engine.topics.create("t", PARTITIONS, {})
        await eventually(lambda: all(set(leaders(one)) == {1, 2} for one in members))
        yield members


def leaders(member: Member) -> list[int]:
    topic = member.engine.topics.find("t")
    if topic is None:
        return []
    leader_of = member.engine.cluster.leader_of
    return [leader_of(topic.folder(number)) for number in range(PARTITIONS)]


def place(member: Member) -> str:
    return str(member.broker.endpoints["PULSAR"])


def ask(member: Member, wanted: str | None, *commands: Command) -> list[Command]:
    """What a client hears that says CONNECT with this broker's address, and then all this."""
    port = member.broker.endpoints["PULSAR"].port
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        client = RawClient(sock)
        first = Connect(client_version="test", protocol_version=20, proxy_to_broker_url=wanted)
        client.say(first, *commands)
        return [client.hear() for _ in range(1 + len(commands))]


async def test_clients_are_sent_to_the_one_address_and_led_on_from_there(
    relays: list[Relay],
) -> None:
    async with two_brokers() as (first, second):
        number = leaders(first).index(2)
        partition = f"{TOPIC}-partition-{number}"
        wish = Producer(topic=partition, producer_id=1, request_id=7)
        asked = (first, None, Lookup(topic=partition, request_id=5), wish)
        _, found, refused = await asyncio.to_thread(ask, *asked)
        assert isinstance(found, LookupResponse)
        assert found.proxy_through_service_url
        assert found.broker_service_url == f"pulsar://{place(second)}"
        assert found.broker_service_url_tls == found.broker_service_url
        assert isinstance(refused, Error)
        assert not relays
        for address in (place(second), f"pulsar://{place(second)}"):
            answers = await asyncio.to_thread(ask, first, address, wish)
            assert [type(one) for one in answers] == [Connected, ProducerSuccess]
        assert len(relays) == 2
        answers = await asyncio.to_thread(ask, second, place(second), wish)
        assert isinstance(answers[1], ProducerSuccess)
        assert len(relays) == 2


async def test_no_address_outside_the_fleet_is_connected_to(relays: list[Relay]) -> None:
    async with two_brokers() as (first, _):
        with socket.create_server(("127.0.0.1", 0)) as other:
            wanted = f"127.0.0.1:{other.getsockname()[1]}"
            (answer,) = await asyncio.to_thread(ask, first, wanted)
    assert isinstance(answer, Error)
    assert answer.error == ServerError.SERVICE_NOT_READY
    assert not relays


async def test_a_client_hears_that_the_broker_behind_has_gone(relays: list[Relay]) -> None:
    async with two_brokers() as (first, second):
        endpoint = first.broker.endpoints["PULSAR"]
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        greeting = Connect(client_version="test", proxy_to_broker_url=place(second))
        writer.write(write_command(greeting))
        assert await reader.read(1)
        await second.broker.stop()
        assert len(await reader.read()) < 1000  # the rest of the greeting, and the end
        writer.close()
        assert len(relays) == 1
        await second.broker.start()


def write_and_read(url: str, count: int) -> list[bytes]:
    """What the client of PyPI reads of what it wrote to all partitions."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(TOPIC, "s")
    producer = client.create_producer(TOPIC, batching_enabled=False)
    for number in range(count):  # together more than what a connection sends unread
        producer.send_async(b"%d " % number * 60_000, lambda *_: None)
    producer.flush()
    found = []
    for _ in range(count):
        message = consumer.receive(60_000)
        consumer.acknowledge(message)
        found.append(message.data().partition(b" ")[0])
    client.close()
    return found


async def test_pulsars_client_reaches_all_partitions_by_one_broker(relays: list[Relay]) -> None:
    async with two_brokers() as (first, _):
        found = await asyncio.to_thread(write_and_read, f"pulsar://{place(first)}", 40)
    assert sorted(map(int, found)) == list(range(40))
    assert len(relays) == 1  # all producers and consumers of a broker share a connection
