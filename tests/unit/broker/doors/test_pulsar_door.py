"""The port for Pulsar clients: asked for, taken, closed."""

import socket
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from kafscale.broker.doors import pulsar_door
from kafscale.broker.doors.other_doors import CannotListen
from kafscale.gateways.pulsar.listener_names import PULSAR
from kafscale.settings.sections import PulsarSection
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker

pytestmark = pytest.mark.real_time


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield int(other.getsockname()[1])


def broker(**settings: object) -> InProcessBroker:
    return InProcessBroker(config=replace(FOR_TESTS, pulsar=PulsarSection(**settings)))  # type: ignore[arg-type]


async def test_clients_are_told_the_port_that_was_found() -> None:
    async with broker(port=0, advertised_host="broker.example") as running:
        endpoint = running.endpoints[PULSAR]
        assert (endpoint.host, endpoint.protocol) == ("broker.example", PULSAR)
        assert endpoint.port
        assert running.parts.doors.notes == {}
        assert running.parts.doors.why_not_ready() == []


async def test_a_port_that_was_asked_for_and_is_taken_is_an_error(taken: int) -> None:
    one = broker(port=taken)
    with pytest.raises(CannotListen, match=rf"127.0.0.1:{taken}.*Pulsar"):
        await one.start()
    await one.__aexit__(None, None, None)  # removes its folder


async def test_a_default_port_that_is_taken_closes_the_door_with_a_line(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulsar_door, "_USUAL_PORT", taken)
    async with broker() as running:
        assert PULSAR not in running.endpoints
        assert "pulsar.port" in running.parts.doors.notes["pulsar"]
        assert running.parts.doors.why_not_ready() == []


async def test_a_door_that_is_not_wanted_is_not_there() -> None:
    async with broker(enabled=False) as running:
        assert PULSAR not in running.endpoints
        assert running.parts.doors.notes == {}
