"""Clients that are silent are asked whether they are there."""

import asyncio
import socket

import pytest
from msgspec.structs import replace

from kafscale.gateways.pulsar import session
from kafscale.settings.sections import PulsarSection
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.pulsar.messages.commands import Ping, Pong
from tests.support.pulsar_wire import RawClient

pytestmark = pytest.mark.real_time

CONFIG = replace(FOR_TESTS, pulsar=PulsarSection(port=0))


def stay(port: int, *, answers: int) -> int:
    """How many questions a client hears that answers so many, and none after."""
    heard = 0
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        client = RawClient(sock)
        client.connect()
        try:
            while True:
                assert isinstance(client.hear(), Ping)
                heard += 1
                if heard <= answers:
                    client.say(Pong())
        except (AssertionError, ConnectionError):
            return heard


async def test_a_client_that_does_not_answer_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_KEEP_ALIVE_S", 0.3)
    async with InProcessBroker(config=CONFIG) as broker:
        port = broker.endpoints["PULSAR"].port
        assert await asyncio.to_thread(stay, port, answers=0) == 1
        assert await asyncio.to_thread(stay, port, answers=2) == 3
