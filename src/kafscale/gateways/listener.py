"""Accepting connections, and what all of them together may take.

Here: the one asyncio server for every door: connection caps, the memory budget, deadlines,
leaving. Next door: a single connection (connection.py).
"""

import asyncio
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kafscale.gateways.connection import Connection, Session
from kafscale.model.clock import Clock

logger = structlog.get_logger()

_LAST_ANSWERS_S = 1.0  # for clients to take what has been written to them
_LAST_LOOKS = 20
_SHARED_BYTES = 64 * 1024
_LITTLE_BYTES = 64 * 1024
_LOOK_EVERY_S = 0.5  # deadlines are kept to within this
_HTTP_VERBS = {b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"PRI "}


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """What clients may take."""

    max_connections: int = 10_000
    max_connections_per_ip: int = 0  # 0: no cap
    max_frame_bytes: int = 100 << 20
    max_held_bytes: int = 256 << 20
    max_held_bytes_per_connection: int = 64 << 20
    frame_s: float = 30.0
    idle_s: float = 600.0
    send_buffer: int | None = None
    receive_buffer: int | None = None


def _guess(size: int) -> str:
    """What a length that makes no sense may be instead, for whoever reads the log."""
    first = size.to_bytes(4, "big", signed=True)
    if first[:2] == b"\x16\x03":
        return "; this looks like TLS, which is not spoken here"
    if first in _HTTP_VERBS:
        return "; this looks like HTTP, which is not spoken here"
    return ""


class Listener:
    """Owns the listening socket and every connection made to it."""

    def __init__(
        self,
        name: str,
        make_session: Callable[[Connection], Session],
        limits: ListenerLimits,
        clock: Clock,
        *,
        buffered_bytes: Callable[[], int],
        refusals: Callable[[str], None],
    ) -> None:
        """Give each connection a session. `buffered_bytes`: what logs hold beyond requests."""
        self._name = name
        self._make_session = make_session
        self._limits = limits
        self._clock = clock
        self._buffered_bytes = buffered_bytes
        self._refusals = refusals
        self._connections: dict[Connection, Session] = {}
        self._per_ip: Counter[str] = Counter()
        self._waiting: OrderedDict[Connection, None] = OrderedDict()
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None
        self.held_bytes = 0
        self.partial_bytes = 0
        self._finisher: Connection | None = None
        self._is_leaving = False
        # One for all: filled and emptied within one callback, so connections never meet in it.
        self.shared = memoryview(bytearray(_SHARED_BYTES))

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._connections)

    async def open(self, host: str, port: int) -> int:
        """Begin to listen; gives the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=1024, reuse_address=True
        )
        for listening in self._server.sockets:
            self._set_buffers(listening)
        self._watch = loop.create_task(self._watch_clock())
        return int(self._server.sockets[0].getsockname()[1])

    def _set_buffers(self, listening: socket.socket) -> None:
        for option, size in (
            (socket.SO_SNDBUF, self._limits.send_buffer),
            (socket.SO_RCVBUF, self._limits.receive_buffer),
        ):
            if size is not None:
                listening.setsockopt(socket.SOL_SOCKET, option, size)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def close_door(self) -> None:
        """Accept nobody new."""
        if self._server is not None:
            self._server.close()

    def stop_reading(self) -> None:
        """Take no more requests; those under way will be answered."""
        self._is_leaving = True
        for connection in self._connections:
            self.make_wait(connection)

    async def aclose(self) -> None:
        """End every connection."""
        self.close_door()
        if self._watch is not None:
            self._watch.cancel()
        for connection in list(self._connections):
            connection.finish()
        for _ in range(_LAST_LOOKS):
            await asyncio.sleep(_LAST_ANSWERS_S / _LAST_LOOKS if self._connections else 0)
        for connection in list(self._connections):
            connection.abort("shutdown")

    # -- called by connections ---------------------------------------------------------------

    def now_s(self) -> float:
        """The clock connections judge deadlines by."""
        return self._clock.elapsed_s()

    def admit(self, connection: Connection) -> Session | None:
        """A session for a new connection, or None if there are too many."""
        limits = self._limits
        if len(self._connections) >= limits.max_connections:
            self.refused(connection, "too_many_connections")
            return None
        if 0 < limits.max_connections_per_ip <= self._per_ip[connection.peer]:
            self.refused(connection, "too_many_connections_from_address")
            return None
        session = self._make_session(connection)
        self._connections[connection] = session
        self._per_ip[connection.peer] += 1
        return session

    def dismiss(self, connection: Connection) -> None:
        """Forget a connection that is gone."""
        if self._connections.pop(connection, None) is None:
            return
        self._per_ip[connection.peer] -= 1
        if not self._per_ip[connection.peer]:
            del self._per_ip[connection.peer]
        self._waiting.pop(connection, None)
        self.held_bytes -= connection.held_bytes
        self.partial_bytes -= connection.partial_bytes
        connection.held_bytes = connection.partial_bytes = 0
        if self._finisher is connection:
            self._finisher = None
        self.let_go_on()

    def refused(self, connection: Connection, reason: str, detail: str = "") -> None:
        """Count and log why a client was turned away."""
        self._refusals(reason)
        facts = {"detail": detail} if detail else {}
        logger.info(
            "connection_refused", door=self._name, peer=connection.peer, reason=reason, **facts
        )

    def accepts_size(self, connection: Connection, size: int) -> bool:
        """Whether a frame of this size may come; ends the connection if not."""
        if 0 < size <= self._limits.max_frame_bytes:
            return True
        reason = "bad_frame_length" if size <= 0 else "frame_too_large"
        connection.abort(reason, f"{size} bytes{_guess(size)}")
        return False

    def is_over_limit(self, connection: Connection) -> bool:
        """Whether this client, or all of them, hold as much as they may."""
        limits = self._limits
        if connection.is_write_blocked:
            return True
        if connection.held_bytes >= limits.max_held_bytes_per_connection:
            return True
        if connection is self._finisher and connection.partial_bytes:
            return False
        held = self.held_bytes + self.partial_bytes + self._buffered_bytes()
        if held < limits.max_held_bytes:
            return False
        if connection.partial_bytes >= _LITTLE_BYTES:
            return True
        # Writers wait for the store. Who only reads and asks goes on: it adds next to nothing.
        session = self._connections.get(connection)
        return connection.held_bytes >= _LITTLE_BYTES or (session is not None and session.writes)

    def make_wait(self, connection: Connection) -> None:
        """Stop reading from a client until there is room."""
        self._waiting[connection] = None
        connection.pause_reading()

    def let_go_on(self) -> None:
        """Read again from those who waited, longest first, as far as there is room."""
        if self._is_leaving:
            return
        for connection in list(self._waiting):
            if not self.is_over_limit(connection):
                self._resume(connection)
        self._let_one_finish()

    def _let_one_finish(self) -> None:
        """When half-received frames alone fill the memory, the longest-waiting one may come whole.

        Otherwise all of them would wait for room that only a finished one can make.
        """
        if self._finisher is not None and self._finisher.partial_bytes:
            return
        self._finisher = None
        if self.held_bytes or self._buffered_bytes():
            return  # what is being worked on will make room
        for connection in self._waiting:
            if connection.partial_bytes and not connection.is_write_blocked:
                self._finisher = connection
                self._resume(connection)
                return

    def _resume(self, connection: Connection) -> None:
        del self._waiting[connection]
        connection.resume_reading()

    async def _watch_clock(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self.end_overdue()

    def end_overdue(self) -> None:
        """End what takes too long, and look again at those who wait."""
        now_s = self.now_s()
        for connection in list(self._connections):
            reason = connection.overdue(now_s, self._limits.frame_s, self._limits.idle_s)
            if reason is not None:
                connection.abort(reason)
        self.let_go_on()
