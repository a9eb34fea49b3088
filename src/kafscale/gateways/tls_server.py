"""Accepting connections that are encrypted: a bounded number of handshakes at a time.

Here: the listening sockets of a TLS listener, and each connection from its acceptance to the end of
its handshake. A client that begins handshakes and goes no further costs a socket and some memory
for each. When there are too many of them the oldest ends, so that a new client gets in.
Next door: certificates (tls.py), connections after the handshake (connection.py).
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import structlog

from kafscale.gateways.tls import HANDSHAKE_WITHIN_S, Tls, alert_of
from kafscale.tasks import Tasks

logger = structlog.get_logger()

MOST_HANDSHAKES: Final = 1000
TOO_MANY: Final = "too_many_handshakes"
FAILED: Final = "handshake_failed"
REFUSED_CERTIFICATE: Final = "certificate_refused"
_BACKLOG: Final = 1024
_ACCEPT_AGAIN_S: Final = 1.0  # after an error, such as too many open files
_LEAVE_WITHIN_S: Final = 1.0  # a client that was told why its handshake failed
_NO_CERTIFICATE: Final = "PEER_DID_NOT_RETURN_A_CERTIFICATE"


class HandshakeReport(Protocol):
    """Is told of each connection that is not encrypted in the end."""

    def __call__(self, address: str, reason: str, detail: str) -> None:
        """`reason`: one of the constants of this file."""
        ...


class _Handshake(NamedTuple):
    accepted: socket.socket
    address: str


# Is asked whether an address may begin a handshake: 0 if so; else the seconds after which its
# connection ends, unread.
Penalty = Callable[[str], float]
REFUSED_AT_ONCE: Final = -1.0  # a penalty: the connection ends now


class TlsServer:
    """Listens, and lets clients begin once their connections are encrypted."""

    def __init__(
        self,
        tls: Tls,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        report: HandshakeReport,
        most_handshakes: int = MOST_HANDSHAKES,
        penalty: Penalty = lambda address: 0.0,
    ) -> None:
        """`make_protocol` is called for each connection; its life begins after the handshake."""
        self._tls = tls
        self._make_protocol = make_protocol
        self._report = report
        self._most = most_handshakes
        self._penalty = penalty
        self._sockets: list[socket.socket] = []
        self._tasks = Tasks()
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[asyncio.Task[None], _Handshake] = {}  # the oldest first

    @property
    def sockets(self) -> list[socket.socket]:
        """The sockets that listen."""
        return self._sockets

    def is_serving(self) -> bool:
        """Whether clients can connect."""
        return bool(self._sockets)

    async def open(self, host: str, port: int) -> int:
        """Begin to listen at every address of the host; gives the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                self._sockets.append(_listen(family, address))
        except OSError:
            self._close_sockets()
            raise
        for listening in self._sockets:
            self._accepting.append(self._tasks.spawn(self._accept(listening), "TLS listener"))
        return int(self._sockets[0].getsockname()[1])

    def close(self) -> None:
        """Accept no more, and end handshakes; connections that are encrypted go on."""
        for task in [*self._accepting, *self._handshakes]:
            task.cancel()
        self._close_sockets()

    def _close_sockets(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._sockets = []

    async def wait_closed(self) -> None:
        """Wait for what `close` has ended."""
        await self._tasks.aclose()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as problem:
                logger.warning("accept_failed", error=problem.strerror or str(problem))
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            self._begin(_Handshake(accepted, str(address[0])))
            await asyncio.sleep(0)  # clients that come one after the other hold up no others

    def _begin(self, handshake: _Handshake) -> None:
        penalty_s = self._penalty(handshake.address)
        if penalty_s < 0:
            handshake.accepted.close()
            return
        if len(self._handshakes) >= self._most:
            oldest, given_up = next(iter(self._handshakes.items()))
            oldest.cancel()
            del self._handshakes[oldest]
            self._report(given_up.address, TOO_MANY, "its client had not finished")
        steps = self._hold(handshake, penalty_s) if penalty_s else self._encrypt(handshake)
        task = self._tasks.spawn(steps, "TLS handshake")
        self._handshakes[task] = handshake
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)

    async def _hold(self, handshake: _Handshake, seconds: float) -> None:
        """Let a client wait that comes too often, and end its connection."""
        try:
            await asyncio.sleep(seconds)
        finally:
            handshake.accepted.close()

    async def _encrypt(self, handshake: _Handshake) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as spares:
            undo.callback(handshake.accepted.close)
            try:
                spare = spares.enter_context(handshake.accepted.dup())
                await loop.connect_accepted_socket(
                    self._make_protocol,
                    handshake.accepted,
                    ssl=self._tls.context,
                    ssl_handshake_timeout=HANDSHAKE_WITHIN_S,
                )
            except OSError as problem:  # what TLS finds wrong is one, too
                self._report(handshake.address, _reason_of(problem), _text_of(problem))
                if alert := alert_of(problem):
                    await _say_why(spare, alert)
            else:
                undo.pop_all()


async def open_server(
    make_protocol: Callable[[], asyncio.Protocol],
    host: str,
    port: int,
    tls: Tls | None,
    most_handshakes: int,
) -> asyncio.Server | TlsServer:
    """Listen with or without TLS; handshakes that fail are not reported. Raises OSError."""
    if tls is None:
        return await asyncio.get_running_loop().create_server(make_protocol, host, port)
    server = TlsServer(tls, make_protocol, _leave_unreported, most_handshakes)
    await server.open(host, port)
    return server


def _leave_unreported(address: str, reason: str, detail: str) -> None:
    pass


async def _say_why(refused: socket.socket, alert: bytes) -> None:
    """Send the alert, and leave the client a moment to read it.

    `refused`: a second handle; the event loop has closed its own by now. What the client still
    sends is read: if it were not, the alert could be lost on the way.
    """
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        refused.send(alert)
        refused.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(_LEAVE_WITHIN_S):
            while await loop.sock_recv(refused, 4096):
                pass


def _listen(family: int, address: object) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)  # type: ignore[arg-type]
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def _reason_of(problem: OSError) -> str:
    is_about_certificate = isinstance(problem, ssl.SSLCertVerificationError) or (
        isinstance(problem, ssl.SSLError) and problem.reason == _NO_CERTIFICATE
    )
    return REFUSED_CERTIFICATE if is_about_certificate else FAILED


def _text_of(problem: OSError) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return problem.verify_message
    if isinstance(problem, ssl.SSLError):
        return (problem.reason or "TLS failed").lower().replace("_", " ")
    return problem.strerror or str(problem) or "the client has gone"
