"""Handshakes: how many at a time, and what is told of those that fail. On both event loops."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from kafscale.gateways.tls import Tls, TlsFiles
from kafscale.gateways.tls_server import FAILED, REFUSED_CERTIFICATE, TOO_MANY, TlsServer
from tests.support.certificates import Authority, Issued

WITHIN_S = 20.0


class Echo(asyncio.Protocol):
    """Says hello when its life begins, after the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        transport.write(b"hello")  # type: ignore[attr-defined]


class Guarded:
    """A server with few handshakes at a time, and clients."""

    def __init__(self, folder: Path, client_auth: str = "none") -> None:
        self.authority, self.stranger = Authority(folder, "ours"), Authority(folder, "theirs")
        own = self.authority.issue("broker")
        files = TlsFiles(
            str(own.certificate), str(own.key), str(self.authority.file), client_auth=client_auth
        )
        self.reports: list[tuple[str, str]] = []
        self.server = TlsServer(Tls("one", files), Echo, self._report, most_handshakes=3)
        self.port = 0

    def _report(self, address: str, reason: str, detail: str) -> None:
        assert address == "127.0.0.1"
        self.reports.append((reason, detail))

    async def greeted(self, own: Issued | None = None) -> bytes:
        """What a client hears; if it is refused, the alert."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if own is not None:
            context.load_cert_chain(own.certificate, own.key)
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=context, server_hostname="localhost"
            )
            heard = await reader.read(5)
        except ssl.SSLError as problem:
            return (problem.reason or "").encode()
        writer.close()
        return heard

    async def wait_for_reports(self, count: int) -> list[str]:
        async with asyncio.timeout(WITHIN_S):
            while len(self.reports) < count:
                await asyncio.sleep(0.01)
        return [reason for reason, _ in self.reports]


Story = Callable[[Guarded], Awaitable[None]]


def told(folder: Path, story: Story, client_auth: str = "none") -> None:
    """On asyncio's own loop, and on that of the broker's process."""

    async def tell() -> None:
        guarded = Guarded(folder, client_auth)
        guarded.port = await guarded.server.open("127.0.0.1", 0)
        assert guarded.server.is_serving()
        try:
            async with asyncio.timeout(4 * WITHIN_S):
                await story(guarded)
        finally:
            guarded.server.close()
            await guarded.server.wait_closed()
        assert not guarded.server.is_serving()

    asyncio.run(tell())
    uvloop.run(tell())


def test_of_too_many_handshakes_the_oldest_ends_and_a_new_client_gets_in(tmp_path: Path) -> None:
    async def story(guarded: Guarded) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", guarded.port) for _ in range(5)]
        assert await guarded.wait_for_reports(2) == [TOO_MANY] * 2
        assert await guarded.greeted() == b"hello"
        assert await guarded.wait_for_reports(3) == [TOO_MANY] * 3
        for reader, writer in silent[:3]:  # the broker has ended these, the oldest ones
            assert await reader.read(1) == b""
            writer.close()
        assert await guarded.greeted() == b"hello"
        for _, writer in silent[3:]:
            writer.close()

    told(tmp_path, story)


def test_clients_without_a_certificate_that_counts_are_told_of(tmp_path: Path) -> None:
    async def story(guarded: Guarded) -> None:
        assert await guarded.greeted(guarded.authority.issue("client")) == b"hello"
        assert b"CERTIFICATE_REQUIRED" in await guarded.greeted()
        assert b"UNKNOWN_CA" in await guarded.greeted(guarded.stranger.issue("client"))
        assert await guarded.wait_for_reports(2) == [REFUSED_CERTIFICATE] * 2
        details = [detail for _, detail in guarded.reports]
        assert details[0] == "peer did not return a certificate"
        assert "issuer" in details[1]

    told(tmp_path, story, "required")


def test_what_is_no_tls_is_told_of(tmp_path: Path) -> None:
    async def story(guarded: Guarded) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.read()
        writer.close()
        _, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
        writer.close()  # a client that goes away in the middle
        assert await guarded.wait_for_reports(2) == [FAILED] * 2
        assert all(detail for _, detail in guarded.reports)

    told(tmp_path, story)


def test_closing_ends_handshakes_and_leaves_encrypted_connections(tmp_path: Path) -> None:
    async def story(guarded: Guarded) -> None:
        context = ssl.create_default_context(cafile=str(guarded.authority.file))
        open_one, writing = await asyncio.open_connection(
            "127.0.0.1", guarded.port, ssl=context, server_hostname="localhost"
        )
        assert await open_one.read(5) == b"hello"
        reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
        await asyncio.sleep(0.05)
        guarded.server.close()
        assert await reader.read(1) == b""
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_connection("127.0.0.1", guarded.port)
        writing.write(b"still there")
        await writing.drain()
        assert not open_one.at_eof()
        writer.close()
        writing.close()

    told(tmp_path, story)
