"""A large answer of the upstream passes to its client in pieces, while the rest of it arrives."""

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

SIZE = 300_000


class Passed:
    """A client's connection and its connection to the upstream, with a test at both ends."""

    def __init__(self) -> None:
        self.tasks = Tasks()
        self.link = link = Link()
        self.opened = asyncio.Event()
        self.opened.set()
        count = SimpleNamespace(inc=lambda size: None)

        async def dial(node: int | None) -> Link:
            return link

        context: Any = SimpleNamespace(
            upstream=SimpleNamespace(dial=dial),
            tasks=self.tasks,
            access=None,
            opened=self.opened,
            metrics=SimpleNamespace(from_clients=count, to_clients=count, count=lambda key: None),
        )

        def below(connection: Connection) -> Link:
            link._connection = connection
            connection.pieces = link
            link.is_open = True
            return link

        self.below, self.asked = self._connect(below)
        self.client, self.answers = self._connect(
            lambda connection: ProxySession(connection, context, 1, None)
        )

    def _connect(self, make: Any) -> tuple[Connection, FakeTransport]:
        connection = Connection(ConnectionsHarness().connections, "any", make)
        transport = FakeTransport()
        connection.connection_made(transport)  # type: ignore[arg-type]
        return connection, transport

    async def ask(self, number: int) -> bytes:
        """Send a request; gives the number that it has upstream."""
        feed(self.client, b"".join(frame.request_frame(number, ListGroupsRequest(), 0, "c")))
        for _ in range(3):
            await asyncio.sleep(0)
        return self.asked.sent[-1][8:12]

    @property
    def got(self) -> bytes:
        return b"".join(self.answers.sent)


def an_answer(number: bytes, size: int = SIZE) -> bytes:
    return struct.pack(">i", size) + number + bytes(at % 251 for at in range(size - 4))


async def test_a_client_has_the_first_bytes_before_the_last_have_arrived() -> None:
    passed = Passed()
    answer = an_answer(await passed.ask(7))
    feed(passed.below, answer[:100_000])
    assert passed.got == answer[:4] + struct.pack(">i", 7) + answer[8:100_000]
    following = an_answer(await passed.ask(8), 100)
    feed(passed.below, answer[100_000:] + following)
    await asyncio.sleep(0)
    assert passed.got == (
        answer[:4] + struct.pack(">i", 7) + answer[8:]
        + following[:4] + struct.pack(">i", 8) + following[8:]
    )  # fmt: skip
    assert passed.client.held_bytes == passed.below.held_bytes == 0
    await passed.tasks.aclose()


async def test_a_client_that_does_not_read_stops_the_upstream() -> None:
    passed = Passed()
    answer = an_answer(await passed.ask(1))
    passed.client.pause_writing()
    feed(passed.below, answer[:100_000])
    assert not passed.asked.is_reading
    passed.client.resume_writing()
    assert passed.asked.is_reading
    feed(passed.below, answer[100_000:])
    assert passed.got[8:] == answer[8:]
    await passed.tasks.aclose()


async def test_an_answer_that_is_not_the_next_one_waits_whole() -> None:
    passed = Passed()
    first = await passed.ask(1)
    second = await passed.ask(2)
    feed(passed.below, an_answer(first, 50_000))  # small enough to arrive whole
    answer = an_answer(second)
    feed(passed.below, answer[:90_000])  # before the loop has sent the first one on
    assert passed.got == b""
    await asyncio.sleep(0)
    feed(passed.below, answer[90_000:])
    await asyncio.sleep(0)
    assert passed.got.startswith(struct.pack(">ii", 50_000, 1))
    assert passed.got[50_004:] == struct.pack(">ii", SIZE, 2) + answer[8:]
    await passed.tasks.aclose()


@pytest.mark.parametrize("sent", [50_000, SIZE - 1])
async def test_half_an_answer_ends_the_clients_connection(sent: int) -> None:
    passed = Passed()
    answer = an_answer(await passed.ask(1))
    feed(passed.below, answer[:sent])
    passed.below.connection_lost(None)
    await asyncio.sleep(0)
    assert passed.answers.is_aborted
    await passed.tasks.aclose()


async def test_requests_wait_until_the_proxy_is_among_its_peers() -> None:
    passed = Passed()
    passed.opened.clear()
    feed(passed.client, b"".join(frame.request_frame(1, ListGroupsRequest(), 0, "c")))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not passed.asked.sent
    passed.opened.set()
    assert await passed.ask(2)
    assert len(passed.asked.sent) == 2
    await passed.tasks.aclose()
