"""Certificates that change while the broker runs, and who they stand for."""

import asyncio
import ssl
from pathlib import Path

import pytest

from kafscale.gateways.connections import ConnectionLimits
from kafscale.gateways.tls import Tls, TlsFiles, UnusableCertificates
from kafscale.model.security.access import ANONYMOUS
from tests.support.certificates import Authority, Issued
from tests.unit.gateways.test_listener import TwoListeners

pytestmark = pytest.mark.real_time
REFUSED = (ConnectionResetError, ssl.SSLError)


def files_of(issued: Issued, **more: str) -> TlsFiles:
    return TlsFiles(str(issued.certificate), str(issued.key), **more)


async def shown_by(port: int, trusted: Path, own: Issued | None = None) -> str:
    """The name in the certificate that a listener shows."""
    context = ssl.create_default_context(cafile=str(trusted))
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    found = writer.get_extra_info("peercert")
    writer.write(b"\0\0\0\5hello")
    await writer.drain()
    try:
        async with asyncio.timeout(0.2):
            if await reader.read(1) == b"":
                raise ConnectionResetError
    except TimeoutError:
        pass  # the listener has taken the frame
    finally:
        writer.close()
    return str(dict(part[0] for part in found["subject"])["commonName"])


async def test_new_certificates_and_authorities_are_taken_without_a_restart(
    tmp_path: Path,
) -> None:
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(first.file.read_bytes())
    own = first.issue("before", file_name="own")
    tls = Tls("one", files_of(own, ca_file=str(trusted), client_auth="required"))
    two = TwoListeners(ConnectionLimits())
    port = await two.listeners[0].open("127.0.0.1", 0, tls)
    of_first, of_second = first.issue("client"), second.issue("client")
    assert await shown_by(port, first.file, of_first) == "before"
    with pytest.raises(REFUSED):
        await shown_by(port, first.file, of_second)

    second.issue("after", file_name="own")
    trusted.write_bytes(second.file.read_bytes())
    tls.reread()
    assert await shown_by(port, second.file, of_second) == "after"
    with pytest.raises(REFUSED):
        await shown_by(port, second.file, of_first)

    own.certificate.write_text("not a certificate")
    tls.reread()
    assert await shown_by(port, second.file, of_second) == "after"
    two.listeners[0].close()
    await two.connections.aclose()


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    own, other = authority.issue("own"), authority.issue("other")
    missing = str(tmp_path / "missing.pem")
    for files, words in (
        (files_of(own)._replace(cert_file=missing), "No such file"),
        (files_of(own)._replace(key_file=str(other.key)), "KEY_VALUES_MISMATCH"),
        (files_of(own, ca_file=str(own.key)), "authorities"),
    ):
        with pytest.raises(UnusableCertificates, match=words):
            Tls("one", files)


def test_a_client_without_a_certificate_is_anonymous(tmp_path: Path) -> None:
    own = Authority(tmp_path, "authority").issue("own")
    tls = Tls("one", files_of(own, mapping_rules="RULE:^CN=(.*)$/$1/"))
    assert tls.principal_of(None) == ANONYMOUS
    assert str(tls.principal_of({"subject": ((("commonName", "bob"),),)})) == "User:bob"
