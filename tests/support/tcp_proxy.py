"""A wire between a client and a server that loses, holds and later delivers what it is told to.

In this room: bytes of TCP connections, both ways. Never here: what the bytes mean.
"""

import asyncio
from types import TracebackType
from typing import Self


class Wire:
    """One connection. What is held goes to the server when released, even if the client left."""

    def __init__(self, to_client: asyncio.StreamWriter, to_server: asyncio.StreamWriter) -> None:
        self.to_client = to_client
        self.to_server = to_server
        self.held = bytearray()

    def release(self) -> None:
        """Deliver now what the client said long ago."""
        self.to_server.write(bytes(self.held))
        self.held.clear()


class TcpProxy:
    """Listens on a free port of loopback. Use with `async with`."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self.wires: list[Wire] = []
        self.hold_requests = False
        self.lose_answers = False
        self.lost_bytes = 0

    @property
    def endpoint(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Hang up on all clients; the server is not told."""
        for wire in self.wires:
            wire.to_client.close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for wire in self.wires:
            wire.to_client.close()
            wire.to_server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _accept(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        wire = Wire(to_client, to_server)
        self.wires.append(wire)
        for work in (self._requests(wire, from_client), self._answers(wire, from_server)):
            pump = asyncio.ensure_future(work)
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _requests(self, wire: Wire, source: asyncio.StreamReader) -> None:
        while data := await source.read(65536):
            if self.hold_requests:
                wire.held += data
            else:
                wire.to_server.write(data)
        # A client that leaves takes nothing back: its connection to the server stays open.

    async def _answers(self, wire: Wire, source: asyncio.StreamReader) -> None:
        while data := await source.read(65536):
            if self.lose_answers or wire.to_client.is_closing():
                self.lost_bytes += len(data)
            else:
                wire.to_client.write(data)
        wire.to_client.close()
