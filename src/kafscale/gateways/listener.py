"""Accepting connections at one address, for one protocol and one kind of client.

Here: the listening socket. Next door: all connections together (connections.py), a single one
(connection.py), certificates (tls.py), handshakes (tls_server.py), which listeners a broker has
(broker/doors/listeners.py).
"""

import asyncio
import socket
from collections.abc import Callable

from kafscale.gateways.connection import Connection, Session
from kafscale.gateways.connections import Connections
from kafscale.gateways.tls import Tls
from kafscale.gateways.tls_server import REFUSED_AT_ONCE, REFUSED_CERTIFICATE, TlsServer

# Is told the address of a client whose certificate is refused, and why.
CertificateReport = Callable[[str, str], None]


class Listener:
    """A listening socket with a name. Every connection it accepts gets a session."""

    def __init__(
        self,
        name: str,
        make_session: Callable[[Connection], Session],
        connections: Connections,
        report_certificate: CertificateReport = lambda address, reason: None,
    ) -> None:
        """Its connections are counted in `connections`, with those of other listeners."""
        self.name = name
        self._make_session = make_session
        self._connections = connections
        self._report_certificate = report_certificate
        self._server: asyncio.Server | TlsServer | None = None

    @property
    def is_open(self) -> bool:
        """Whether clients can connect."""
        return self._server is not None and self._server.is_serving()

    async def open(self, host: str, port: int, tls: Tls | None = None) -> int:
        """Begin to listen; gives the port. With `tls` every connection is encrypted."""
        self._connections.watch_deadlines()
        if tls is not None:
            self._server = TlsServer(
                tls, self._new_encrypted, self._handshake_failed, penalty=self._penalty
            )
            await self._server.open(host, port)
        else:
            self._server = await asyncio.get_running_loop().create_server(
                self._new_connection, host, port, backlog=1024, reuse_address=True
            )
        for listening in self._server.sockets:
            self._set_buffers(listening)
        return int(self._server.sockets[0].getsockname()[1])

    def _new_connection(self) -> Connection:
        return Connection(self._connections, self.name, self._make_session)

    def _new_encrypted(self) -> Connection:
        return Connection(self._connections, self.name, self._make_session, is_charged=True)

    def _penalty(self, address: str) -> float:
        """What a client waits for in place of a handshake, where its address has too much."""
        if self._connections.is_full_of(address, self.name):
            return REFUSED_AT_ONCE
        return self._connections.penalty_at(address, self.name)

    def _handshake_failed(self, address: str, reason: str, detail: str) -> None:
        self._connections.refused_at(address, self.name, reason, detail)
        if reason == REFUSED_CERTIFICATE:
            self._report_certificate(address, detail)

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
