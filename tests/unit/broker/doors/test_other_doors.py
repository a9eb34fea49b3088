"""Doors that do not ask clients who they are, are closed where a Kafka listener does."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafscale.gateways.fluvio.listener_names import CONTROL_LISTENER, DATA_LISTENER
from kafscale.gateways.pulsar.listener_names import PULSAR, PULSAR_HTTP
from kafscale.settings.config import Config
from kafscale.settings.listeners import Listeners, read_listeners
from kafscale.settings.sections import FluvioSection, PulsarSection
from kafscale.settings.security import TlsSection
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.support.certificates import Authority
from tests.support.ports import free_port

pytestmark = pytest.mark.real_time
OTHERS = {PULSAR, PULSAR_HTTP, CONTROL_LISTENER, DATA_LISTENER}
OPEN = "PLAINTEXT://127.0.0.1:0"
SASL = "SASL_PLAINTEXT://127.0.0.1:0"
SSL = "SSL://127.0.0.1:0"


def certificates(folder: Path, client_auth: str) -> TlsSection:
    authority = Authority(folder, "authority")
    own = authority.issue("broker")
    return TlsSection(
        cert_file=str(own.certificate),
        key_file=str(own.key),
        ca_file=str(authority.file),
        client_auth=client_auth,  # type: ignore[arg-type]
    )


def all_doors(listeners: str, allow_insecure_bind: bool = False) -> Config:
    return replace(
        FOR_TESTS,
        broker=replace(FOR_TESTS.broker, allow_insecure_bind=allow_insecure_bind),
        listeners=Listeners(read_listeners(listeners)),
        pulsar=PulsarSection(port=free_port(), http_port=free_port()),
        fluvio=FluvioSection(sc_port=free_port(), spu_port=free_port()),
    )


async def accepting(config: Config) -> set[int]:
    """Which ports of the other doors accept a connection while a broker of these settings runs."""
    pulsar, fluvio = config.pulsar, config.fluvio
    found = set()
    async with InProcessBroker(config=config) as broker:
        for port in (pulsar.port, pulsar.http_port, fluvio.sc_port, fluvio.spu_port):
            assert port is not None
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                continue
            found.add(port)
            writer.close()
        is_told = OTHERS & set(broker.endpoints)
        notes = broker.parts.doors.notes
        assert broker.parts.doors.why_not_ready() == []
    if found:
        assert (is_told, notes) == (OTHERS, {})
    else:
        assert is_told == set()
        assert set(notes) == {"pulsar", "fluvio"}
        assert "cannot prove who they are" in notes["pulsar"]
        assert "fluvio.clientAuth required" in notes["fluvio"]
    return found


@pytest.mark.parametrize("listeners", [SASL, f"{OPEN},{SASL}"])
async def test_they_are_closed_where_a_listener_asks_for_a_login(listeners: str) -> None:
    assert await accepting(all_doors(listeners)) == set()


async def test_they_are_closed_where_a_listener_requires_certificates(tmp_path: Path) -> None:
    config = replace(all_doors(f"{OPEN},{SSL}"), tls=certificates(tmp_path, "required"))
    assert await accepting(config) == set()


async def test_they_are_open_where_no_listener_asks(tmp_path: Path) -> None:
    assert len(await accepting(all_doors(OPEN))) == 4
    requested = replace(all_doors(SSL), tls=certificates(tmp_path, "requested"))
    assert len(await accepting(requested)) == 4  # a client without a certificate comes in there


async def test_they_are_open_where_the_operator_allows_it() -> None:
    assert len(await accepting(all_doors(SASL, allow_insecure_bind=True))) == 4
