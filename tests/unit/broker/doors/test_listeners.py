"""Certificates of clients at a Kafka listener: who is let in, and what a strange one costs."""

import asyncio
import ssl
from pathlib import Path
from typing import Self

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kafscale.settings.listeners import Listeners, read_listeners
from kafscale.settings.security import TlsSection
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from kafscale.wire.kafka.messages.metadata import MetadataRequest
from tests.support.certificates import Authority, Issued
from tests.unit.gateways.kafka.caller import Caller

pytestmark = pytest.mark.real_time


class TlsCaller(Caller):
    """Shows a certificate."""

    def __init__(self, port: int, authority: Authority, own: Issued) -> None:
        super().__init__(port)
        self._context = ssl.create_default_context(cafile=str(authority.file))
        self._context.load_cert_chain(own.certificate, own.key)

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._context
        )
        return self


async def test_a_certificate_that_no_rule_fits_is_refused_counted_and_in_the_audit_log(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path, "authority")
    own = authority.issue("broker")
    tls = TlsSection(
        cert_file=str(own.certificate),
        key_file=str(own.key),
        ca_file=str(authority.file),
        client_auth="required",
        principal_mapping_rules="RULE:^CN=(known),.*$/$1/",
    )
    listeners = Listeners(read_listeners("SSL://127.0.0.1:0"))
    config = replace(FOR_TESTS, listeners=listeners, tls=tls)
    with capture_logs() as logged:
        async with InProcessBroker(config=config) as broker:
            async with TlsCaller(broker.port, authority, authority.issue("known")) as caller:
                assert (await caller.ask(MetadataRequest(topics=[]), 12)).brokers
            async with TlsCaller(broker.port, authority, authority.issue("strange")) as caller:
                caller.send(MetadataRequest(topics=[]), 12)
                assert await caller.is_closed()
            metrics = broker.metrics().decode()
    name = 'kafscale_authentications_total{mechanism="SSL",outcome="not_mapped"}'
    assert f"{name} 1" in metrics
    (line,) = [one for one in logged if one["event"] == "audit"]
    assert line["kind"] == "authentication_failed"
    assert (line["outcome"], line["address"]) == ("not_mapped", "127.0.0.1")
    assert (line["listener"], line["operation"]) == ("SSL", "SSL")
    assert line["detail"] == "no rule fits the certificate's subject CN=strange,OU=tests"
