"""Tools read the page for operators over TLS, and only from brokers that they trust."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from kafscale.admin import diagnosis
from kafscale.admin.brokers import members
from kafscale.admin.brokers.page_trust import trust_of_broker, trust_of_client
from kafscale.admin.cost.metrics_page import fetch
from kafscale.admin.errors import AdminError
from kafscale.broker.doors.door_security import make_tls
from kafscale.cli import main
from kafscale.cli.brokers.records.stalls import ask_brokers
from kafscale.gateways.ops_http import OpsServer
from kafscale.settings.security import TlsSection, metrics_tls
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.support.certificates import Authority, Issued

pytestmark = pytest.mark.real_time
METRICS = b"kafscale_up 1\nprocess_start_time_seconds 1\n"


class Page(NamedTuple):
    """A page for operators that has TLS and wants certificates of clients."""

    port: int
    authority: Authority
    stranger: Authority
    tls: TlsSection
    own: Issued

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def client(self, authority: Authority) -> dict[str, str]:
        """librdkafka's settings of a client that trusts an authority."""
        return {
            "ssl.ca.location": str(authority.file),
            "ssl.certificate.location": str(self.own.certificate),
            "ssl.key.location": str(self.own.key),
        }


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    own = authority.issue("broker")
    section = TlsSection(
        cert_file=str(own.certificate),
        key_file=str(own.key),
        ca_file=str(authority.file),
        client_auth="required",
        metrics=True,
    )

    async def metrics() -> bytes:
        return METRICS

    async def checks() -> dict[str, str | None]:
        return {"store": "the disk is full"}

    server = OpsServer(metrics, checks)
    port = await server.start("127.0.0.1", 0, make_tls("metrics", metrics_tls(section)))
    yield Page(port, authority, stranger, section, own)
    await server.stop()


async def test_the_doctor_trusts_the_certificate_of_the_settings_and_no_other(page: Page) -> None:
    own = trust_of_broker(page.tls)
    assert await asyncio.to_thread(diagnosis.broker_answers, "0.0.0.0", page.port, own)
    said = await asyncio.to_thread(diagnosis.check_running, "127.0.0.1", page.port, own)
    assert said == ("fail", "broker", "running, not ready: store: the disk is full")

    other = page.authority.issue("other")  # of the same authority, yet not this broker
    section = replace(page.tls, cert_file=str(other.certificate), key_file=str(other.key))
    trust = trust_of_broker(section)
    assert not await asyncio.to_thread(diagnosis.broker_answers, "127.0.0.1", page.port, trust)
    assert not await asyncio.to_thread(diagnosis.broker_answers, "127.0.0.1", page.port)


def test_certificates_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    section = TlsSection(cert_file=missing, key_file=missing, metrics=True)
    config = replace(FOR_TESTS, tls=section)
    (found,) = [one for one in diagnosis.check_all(config) if one.subject == "certificates"]
    assert found.verdict == "fail"
    assert missing in found.text
    with pytest.raises(AdminError, match=r"missing\.pem"):
        trust_of_client({"ssl.ca.location": missing}, ["https://one"])
    assert trust_of_client({"ssl.ca.location": missing}, ["http://one"]) is None
    assert trust_of_broker(TlsSection()) is None


async def test_pages_are_read_by_the_certificates_of_the_client(page: Page) -> None:
    trust = trust_of_client(page.client(page.authority), [page.url])
    assert (await asyncio.to_thread(fetch, page.url, trust)).encode() == METRICS
    assert await asyncio.to_thread(members.why_not_ready, page.url, trust) == [
        "store: the disk is full"
    ]
    for wrong in (trust_of_client(page.client(page.stranger), [page.url]), None):
        with pytest.raises(AdminError, match="CERTIFICATE_VERIFY_FAILED"):
            await asyncio.to_thread(fetch, page.url, wrong)
        with pytest.raises(AdminError, match="CERTIFICATE_VERIFY_FAILED"):
            await asyncio.to_thread(members.why_not_ready, page.url, wrong)


async def test_brokers_say_that_their_pages_are_encrypted_and_commands_go_by_it(
    page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    place = replace(FOR_TESTS.broker, metrics_port=page.port)
    config = replace(FOR_TESTS, broker=place, tls=page.tls)
    client = page.client(page.authority)
    async with InProcessBroker(config=config) as broker:
        bootstrap = f"127.0.0.1:{broker.port}"
        settings = {"bootstrap.servers": bootstrap, "log_level": 0, **client}
        assert await asyncio.to_thread(ask_brokers, settings) == "store: the disk is full"
        command = ["cost", "--json", "--bootstrap", bootstrap]
        command += ["--ca", client.pop("ssl.ca.location"), "-Xsecurity.protocol=PLAINTEXT"]
        command += [f"-X{name}={value}" for name, value in client.items()]
        assert await asyncio.to_thread(main.main, command) == 0
    assert '"brokers":1,' in capsys.readouterr().out  # among lines of the broker's log
