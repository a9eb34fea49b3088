"""Listeners with real sockets: accepting, closing, and limits that several of them share."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kafscale.gateways.audit_log import AuditLog
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection
from kafscale.gateways.connections import ConnectionLimits, Connections
from kafscale.gateways.listener import Listener
from kafscale.gateways.tls import Tls, TlsFiles
from kafscale.testing.clock import ManualClock
from tests.unit.gateways.connections_harness import RecordingSession


class TwoListeners:
    """Two listeners that share their limits."""

    def __init__(self, limits: ConnectionLimits, penalty_s: float = 0.0) -> None:
        self.refusals: list[str] = []
        self.penalty_s = penalty_s
        self.charged: list[str] = []  # addresses
        self.sessions: list[RecordingSession] = []
        clock = ManualClock()
        self.connections = Connections(
            limits,
            clock,
            buffered_bytes=lambda: 0,
            refusals=self.refusals.append,
            client_log=ClientLog(clock),
            audit=AuditLog(clock, lambda kind, outcome: None),
            penalty_s=self._charge,
        )
        self.listeners = [
            Listener(name, self._make_session, self.connections) for name in ("INNER", "OUTER")
        ]

    def _charge(self, address: str) -> float:
        self.charged.append(address)
        return self.penalty_s

    def _make_session(self, connection: Connection) -> RecordingSession:
        self.sessions.append(RecordingSession(connection))
        return self.sessions[-1]

    async def open(self) -> list[int]:
        return [await listener.open("127.0.0.1", 0) for listener in self.listeners]

    async def frames(self, session: int, count: int = 1) -> list[bytes]:
        async with asyncio.timeout(20):
            while len(self.sessions) <= session or len(self.sessions[session].frames) < count:
                await asyncio.sleep(0.01)
        return self.sessions[session].seen()


async def test_a_closed_listener_accepts_nothing_and_its_connections_end_last() -> None:
    two = TwoListeners(ConnectionLimits(send_buffer=65536, receive_buffer=65536))
    port, _ = await two.open()
    assert all(listener.is_open for listener in two.listeners)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\0\0\0\5hello")
    assert await two.frames(0) == [b"hello"]
    for listener in two.listeners:
        listener.close()
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)
    assert not any(listener.is_open for listener in two.listeners)
    await two.connections.aclose()
    assert await reader.read(1) == b""
    writer.close()
    await writer.wait_closed()
    assert two.sessions[0].closings >= 1
    assert two.refusals == [], "leaving is no refusal"


async def test_a_connection_knows_its_listener() -> None:
    two = TwoListeners(ConnectionLimits())
    for number, port in enumerate(await two.open()):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\0\0\0\1x")
        await two.frames(number)
        writer.close()
    assert [one.connection.listener for one in two.sessions] == ["INNER", "OUTER"]
    for listener in two.listeners:
        listener.close()
    await two.connections.aclose()


async def test_two_listeners_share_the_limits_of_the_broker() -> None:
    two = TwoListeners(ConnectionLimits(max_connections=1))
    first, second = await two.open()
    _, writer = await asyncio.open_connection("127.0.0.1", first)
    writer.write(b"\0\0\0\1x")
    await two.frames(0)
    reader, refused = await asyncio.open_connection("127.0.0.1", second)
    with contextlib.suppress(ConnectionError):
        assert await reader.read(1) == b""
    assert two.refusals == ["too_many_connections"]
    for one in (writer, refused):
        one.close()
    for listener in two.listeners:
        listener.close()
    await two.connections.aclose()


def self_signed(folder: Path) -> Path:
    """A key and a certificate for localhost in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin.replace(year=2100))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "listener.pem"
    plain = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    file.write_bytes(key.private_bytes(pem, pkcs8, plain) + certificate.public_bytes(pem))
    return file


async def test_a_listener_with_a_certificate_takes_frames_over_tls(tmp_path: Path) -> None:
    file = self_signed(tmp_path)
    tls = Tls("one", TlsFiles(str(file), str(file)))
    two = TwoListeners(ConnectionLimits())
    port = await two.listeners[0].open("127.0.0.1", 0, tls)
    trusting = ssl.create_default_context(cafile=str(file))
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=trusting, server_hostname="localhost"
    )
    large = bytes(300_000)
    writer.write(b"\0\0\0\5hello" + len(large).to_bytes(4, "big") + large)
    assert await two.frames(0, count=2) == [b"hello", large]
    two.sessions[0].connection.send([b"answer"])
    assert await reader.readexactly(6) == b"answer"
    writer.close()
    two.listeners[0].close()
    await two.connections.aclose()


@contextlib.asynccontextmanager
async def encrypted(two: TwoListeners, own: Path) -> AsyncIterator[int]:
    """The port of a listener with TLS."""
    port = await two.listeners[0].open("127.0.0.1", 0, Tls("one", TlsFiles(str(own), str(own))))
    yield port
    two.listeners[0].close()
    await two.connections.aclose()


async def test_an_address_with_too_many_new_connections_gets_no_handshake(tmp_path: Path) -> None:
    """A handshake costs more than all else that a connection does before it logs in."""
    own = self_signed(tmp_path)
    two = TwoListeners(ConnectionLimits(), penalty_s=0.01)
    context = ssl.create_default_context(cafile=str(own))
    async with encrypted(two, own) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("localhost", port, ssl=context)
        assert (two.refusals, two.charged) == (["connection_quota"], ["127.0.0.1"])
        two.penalty_s = 0.0
        _, writer = await asyncio.open_connection("localhost", port, ssl=context)
        writer.write(b"\0\0\0\1x")
        await two.frames(0)
        assert len(two.charged) == 2, "each connection counts once"
        writer.close()


async def test_an_address_with_too_many_open_connections_gets_no_handshake(tmp_path: Path) -> None:
    own = self_signed(tmp_path)
    two = TwoListeners(ConnectionLimits(max_connections_per_ip=1))
    context = ssl.create_default_context(cafile=str(own))
    async with encrypted(two, own) as port:
        _, writer = await asyncio.open_connection("localhost", port, ssl=context)
        writer.write(b"\0\0\0\1x")
        await two.frames(0)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("localhost", port, ssl=context)
        assert two.refusals == ["too_many_connections_from_address"]
        assert len(two.charged) == 1
        writer.close()
