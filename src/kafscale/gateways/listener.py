"""Accepting connections at one address, for one protocol and one kind of client.

Here: the listening socket. Next door: all connections together (connections.py), a single one
(connection.py), certificates (tls.py), which listeners a broker has (broker/doors.py).
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import Connections
from kafscale.gateways.tls import HANDSHAKE_WITHIN_S, Tls


class Listener:
    """A listening socket with a name. Every connection it accepts gets a session."""

    def __init__(
        self, name: str, make_session: Callable[[Connection], Session], connections: Connections
    ) -> None:
        """Its connections are counted in `connections`, with those of other listeners."""
        self.name = name
        self._make_session = make_session
        self._connections = connections
        self._server: asyncio.Server | None = None

    @property
    def is_open(self) -> bool:
        """Whether clients can connect."""
        return self._server is not None and self._server.is_serving()

    async def open(self, host: str, port: int, tls: Tls | None = None) -> int:
        """Begin to listen; gives the port. With `tls` every connection is encrypted."""
        loop = asyncio.get_running_loop()
        encrypted: dict[str, Any] = {}
        if tls is not None:
            encrypted = {"ssl": tls.context, "ssl_handshake_timeout": HANDSHAKE_WITHIN_S}
        self._connections.watch_deadlines()
        self._server = await loop.create_server(
            lambda: Connection(self._connections, self.name, self._make_session),
            host,
            port,
            backlog=1024,
            reuse_address=True,
            **encrypted,
        )
        for listening in self._server.sockets:
            self._set_buffers(listening)
        return int(self._server.sockets[0].getsockname()[1])

    def _set_buffers(self, listening: socket.socket) -> None:
        limits = self._connections.limits
        for option, size in (
            (socket.SO_SNDBUF, limits.send_buffer),
            (socket.SO_RCVBUF, limits.receive_buffer),
        ):
            if size is not None:
                listening.setsockopt(socket.SOL_SOCKET, option, size)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def close(self) -> None:
        """Accept no new connections; those that are open go on."""
        if self._server is not None:
            self._server.close()
