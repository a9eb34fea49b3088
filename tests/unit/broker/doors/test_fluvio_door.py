"""Which ports the Fluvio door takes, what a taken one means, and who gets in by certificates."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafscale.broker.doors import fluvio_door
from kafscale.broker.doors.other_doors import CannotListen
from kafscale.broker.operating import banner
from kafscale.model.endpoints import Endpoint
from kafscale.model.security.access import CLUSTER_NAME, Principal
from kafscale.settings.config import Config
from kafscale.settings.listeners import Listeners, read_listeners
from kafscale.settings.sections import FluvioSection
from kafscale.settings.security import TlsSection
from kafscale.testing import in_process
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.fluvio.errors import FluvioCode
from kafscale.wire.fluvio.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafscale.wire.fluvio.messages.change_objects import CreateTopic, Status
from tests.support.authorizers import Denies
from tests.support.certificates import Authority
from tests.support.fluvio_wire import FluvioConnection

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


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def secured(authority: Authority, **settings: object) -> Config:
    own = authority.issue("broker")
    section = TlsSection(
        cert_file=str(own.certificate),
        key_file=str(own.key),
        ca_file=str(authority.file),
        principal_mapping_rules="RULE:^CN=([^,]*),OU=tests$/$1/L",
    )
    door = {"sc_port": 0, "spu_port": 0, "protocol": "SSL", "client_auth": "required"}
    listeners = Listeners(read_listeners("SASL_PLAINTEXT://127.0.0.1:0"))
    return replace(with_fluvio(**door, **settings), tls=section, listeners=listeners)


def client_of(authority: Authority, *who: str) -> ssl.SSLContext:
    """What a client trusts and shows; `who`: its name and unit."""
    context = ssl.create_default_context(cafile=str(authority.file))
    if who:
        issued = authority.issue(*who)
        context.load_cert_chain(issued.certificate, issued.key)
    return context


async def test_certificates_open_the_door_where_a_listener_asks_for_logins(
    authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    config = secured(authority)
    denies = Denies(lambda kind, name: name in {"secret", CLUSTER_NAME})
    async with InProcessBroker(config=config, authorizer=denies) as broker:
        control = broker.endpoints["FLUVIO_SC"]
        banner.show(config, broker.endpoints, broker.parts.doors.notes)
        alice = client_of(authority, "Alice", "tests")
        async with await FluvioConnection.open(control, alice) as connection:
            number = connection.ask_about(1001, 19, "Topic", CreateTopic("secret"))
            status = await connection.next(number, Status, 19)
            assert status.error.code == FluvioCode.PERMISSION_DENIED
    assert denies.asked_for == {Principal("User", "alice")}
    assert f"  fluvio    {control} by TLS" in capsys.readouterr().out


async def ask_versions(endpoint: Endpoint, tls: ssl.SSLContext) -> None:
    async with await FluvioConnection.open(endpoint, tls) as connection:
        await connection.ask(18, 2, ApiVersionsRequest(), ApiVersionsResponse)


@pytest.mark.parametrize("who", [(), ("alice", "others")])
async def test_a_client_without_a_name_gets_no_further(
    authority: Authority, who: tuple[str, ...]
) -> None:
    async with InProcessBroker(config=secured(authority)) as broker:
        for name in ("FLUVIO_SC", "FLUVIO_SPU"):
            with pytest.raises((ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)):
                await ask_versions(broker.endpoints[name], client_of(authority, *who))
