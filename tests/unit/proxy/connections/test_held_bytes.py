"""Answered requests and taken answers leave nothing on the account of the connection's memory.

A connection that holds its limit is read no more: what is never given back ends as a client that
waits without end.
"""

import asyncio
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from kafscale.gateways.connection import Connection
from kafscale.proxy.connections.session import ProxySession
from kafscale.proxy.upstream.link import Link
from kafscale.tasks import Tasks
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.messages.list_groups import ListGroupsRequest
from tests.unit.gateways.connections_harness import ConnectionsHarness, FakeTransport, feed


def opened() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class FakeUpstream:
    """Gives each client a link whose other end is the test."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def dial(self, node: int | None) -> Link:
        return self._link


def connect(
    harness: ConnectionsHarness, make: Any, listener: str
) -> tuple[Connection, FakeTransport]:
    connection, transport = Connection(harness.connections, listener, make), FakeTransport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


@pytest.fixture
def upstream() -> tuple[ConnectionsHarness, Link, Connection, FakeTransport]:
    harness, link = ConnectionsHarness(), Link()

    def make(connection: Connection) -> Link:
        link._connection = connection
        link.is_open = True
        return link

    return harness, link, *connect(harness, make, "upstream")


async def test_a_request_that_was_answered_is_held_no_more(
    upstream: tuple[ConnectionsHarness, Link, Connection, FakeTransport],
) -> None:
    _, link, below, sent = upstream
    harness, tasks = ConnectionsHarness(), Tasks()
    count = SimpleNamespace(inc=lambda size: None)
    context: Any = SimpleNamespace(
        upstream=FakeUpstream(link),
        tasks=tasks,
        access=None,
        opened=opened(),
        metrics=SimpleNamespace(from_clients=count, to_clients=count, count=lambda key: None),
    )
    client, answers = connect(
        harness, lambda connection: ProxySession(connection, context, 1, None), "proxy"
    )
    for number in range(3):
        feed(client, b"".join(frame.request_frame(number, ListGroupsRequest(), 0, "x" * 1000)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert harness.connections.held_bytes > 1000
        asked = sent.sent[-1]
        answer = asked[8:12] + bytes(6)
        feed(below, struct.pack(">i", len(answer)) + answer)
        await asyncio.sleep(0)
        assert answers.sent[-1][4:8] == struct.pack(">i", number)
        assert harness.connections.held_bytes == 0
    client.connection_lost(None)
    await tasks.aclose()


async def test_an_answer_of_the_upstream_is_held_no_more_once_it_is_taken(
    upstream: tuple[ConnectionsHarness, Link, Connection, FakeTransport],
) -> None:
    harness, link, connection, transport = upstream
    answers = []
    for _ in range(3):
        answers.append(link.forward(memoryview(bytearray(12))))
        number = transport.sent[-1][8:12]
        feed(connection, struct.pack(">i", 1_000_004) + number + bytes(1_000_000))
        assert answers[-1].done()
    assert harness.connections.held_bytes == 0
