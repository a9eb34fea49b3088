"""Which ports the Fluvio door takes, and what a taken one means."""

import socket
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from kafscale.broker import banner, fluvio_door
from kafscale.broker.other_doors import CannotListen
from kafscale.settings.config import Config
from kafscale.settings.sections import FluvioSection
from kafscale.testing import in_process
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker

pytestmark = pytest.mark.real_time


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program has."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def with_fluvio(**settings: object) -> Config:
    return replace(FOR_TESTS, fluvio=FluvioSection(**settings))  # type: ignore[arg-type]


async def test_both_ports_are_open_and_the_banner_has_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = with_fluvio(sc_port=0, spu_port=0, advertised_host="far", advertised_spu_port=77)
    async with InProcessBroker(config=config) as broker:
        control, data = broker.endpoints["FLUVIO_SC"], broker.endpoints["FLUVIO_SPU"]
        assert (control.host, data.host, data.port) == ("far", "far", 77)
        assert broker.parts.doors.why_not_ready() == []
        banner.show(config, broker.endpoints, broker.parts.doors.notes)
    shown = capsys.readouterr().out
    assert f"  fluvio    fluvio profile add kafscale far:{control.port}\n" in shown
    assert "FLUVIO" not in shown


async def test_a_default_port_that_is_taken_closes_this_door_alone(
    taken: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fluvio_door, "SC_PORT", 0)
    monkeypatch.setattr(fluvio_door, "SPU_PORT", taken)
    monkeypatch.setattr(in_process, "fluvio_if_asked", lambda config: config.fluvio)
    async with InProcessBroker(config=with_fluvio()) as broker:
        assert list(broker.endpoints) == ["PLAINTEXT"]
        assert broker.parts.doors.why_not_ready() == []
        banner.show(broker.config, broker.endpoints, broker.parts.doors.notes)
    assert f"  fluvio    off: cannot listen on 127.0.0.1:{taken}" in capsys.readouterr().out


async def test_a_port_that_was_asked_for_must_be_free(taken: int) -> None:
    broker = InProcessBroker(config=with_fluvio(sc_port=0, spu_port=taken))
    with pytest.raises(CannotListen, match=f"127.0.0.1:{taken}"):
        await broker.start()
    await broker.__aexit__(None, None, None)


async def test_the_door_can_be_closed_by_its_setting() -> None:
    async with InProcessBroker(config=with_fluvio(enabled=False, sc_port=0)) as broker:
        assert list(broker.endpoints) == ["PLAINTEXT"]
