"""All open connections of a broker, whichever listener accepted them, and what they may take.

Here: connection caps, the memory budget, how much is received in a turn of the event loop,
deadlines, leaving. The limits are the broker's: two listeners do not double them.
Next door: a single connection (connection.py), accepting connections (listener.py).
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from kafscale.gateways.audit_log import AuditLog
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection
from kafscale.model.clock import Clock

_LAST_ANSWERS_S = 1.0  # for clients to take their last answers
_LAST_CHECKS = 20
_SHARED_BYTES = 64 * 1024
_LITTLE_BYTES = 64 * 1024
# Of large frames, in one turn of the loop. An event loop reads from a connection up to 32 times
# before it goes on, and the first use of memory costs up to 2.6 ms for each MB.
_TURN_BYTES = 4 << 20
_CHECK_EVERY_S = 0.5  # deadlines are kept to within this
HARMLESS = frozenset(
    {"connection_quota", "idle", "shutdown"}
)  # reasons for ending the connection of a correct client
_HTTP_VERBS = {b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"PRI "}


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one client, and all of them together, may take."""

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
    """What a length that makes no sense may be instead, as a hint in the log."""
    first = size.to_bytes(4, "big", signed=True)
    if first[:2] == b"\x16\x03":
        return "; this looks like TLS, which is not spoken here"
    if first in _HTTP_VERBS:
        return "; this looks like HTTP, which is not spoken here"
    return ""


def _soon(call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(call)


class Connections:
    """Implements gateways.connection.ConnectionOwner for every connection of a broker."""

    def __init__(
        self,
        limits: ConnectionLimits,
        clock: Clock,
        *,
        buffered_bytes: Callable[[], int],
        refusals: Callable[[str], None],
        client_log: ClientLog,
        audit: AuditLog,
        penalty_s: Callable[[str], float] = lambda address: 0.0,
        soon: Callable[[Callable[[], None]], object] = _soon,
    ) -> None:
        """`buffered_bytes`: what logs hold beyond requests. `penalty_s`: see `penalty_of`.

        `soon` calls a function in the next turn of the loop.
        """
        self.limits = limits
        self.now_s = clock.elapsed_s  # the time that deadlines are measured by
        self._buffered_bytes = buffered_bytes
        self._refusals = refusals
        self._client_log = client_log
        self._audit = audit
        self._penalty_s = penalty_s
        self._soon = soon
        self._open: dict[Connection, None] = {}
        # Without a whole frame yet, or without the authentication they need; the oldest first.
        self._silent: dict[Connection, None] = {}
        self._per_ip: Counter[str] = Counter()
        self._waiting: OrderedDict[Connection, None] = OrderedDict()
        # Those that wait for a turn of the loop in which there is time to receive more.
        self._put_off: OrderedDict[Connection, None] = OrderedDict()
        self._turn_bytes = 0  # received since the last of these turns began
        self._watch: asyncio.Task[None] | None = None
        self.held_bytes = 0
        self.partial_bytes = 0
        self._finisher: Connection | None = None
        self._is_leaving = False
        # One for all: filled and emptied within one callback, so connections never meet in it.
        self.shared = memoryview(bytearray(_SHARED_BYTES))

    def __len__(self) -> int:
        """Count the open connections."""
        return len(self._open)

    def watch_deadlines(self) -> None:
        """Begin to end connections that take too long; must be called before any is accepted."""
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._watch_clock())

    def stop_reading(self) -> None:
        """Take no more requests; those under way will be answered."""
        self._is_leaving = True
        for connection in self._open:
            self.make_wait(connection)

    async def aclose(self) -> None:
        """End every connection, after a moment for clients to take their last answers."""
        if self._watch is not None:
            self._watch.cancel()
        for connection in list(self._open):
            connection.finish()
        for _ in range(_LAST_CHECKS):
            await asyncio.sleep(_LAST_ANSWERS_S / _LAST_CHECKS if self._open else 0)
        for connection in list(self._open):
            connection.abort("shutdown")
        self._client_log.aclose()
        self._audit.aclose()

    # -- called by listeners -----------------------------------------------------------------

    def is_full_of(self, address: str, listener: str) -> bool:
        """Whether an address has as many connections as it may have; counted if so."""
        is_full = 0 < self.limits.max_connections_per_ip <= self._per_ip.get(address, 0)
        if is_full:
            self.refused_at(address, listener, "too_many_connections_from_address")
        return is_full

    def penalty_at(self, address: str, listener: str) -> float:
        """Count a new connection of an address; the seconds of its penalty if it is too many."""
        seconds = self._penalty_s(address)
        if seconds > 0:
            self.refused_at(address, listener, "connection_quota")
        return seconds

    # -- called by connections ---------------------------------------------------------------

    def admit(self, connection: Connection) -> bool:
        """Count a new connection; False if there are too many.

        One that has never sent a whole frame, or has to authenticate and has not, must go for a new
        one: half frames keep no client out.
        """
        limits = self.limits
        if self.is_full_of(connection.peer, connection.listener):
            return False
        if len(self._open) >= limits.max_connections:
            silent = next(iter(self._silent), None)
            if silent is None:
                self.refused(connection, "too_many_connections")
                return False
            silent.abort("too_many_connections", "its client had not begun")
            self.dismiss(silent)
        self._open[connection] = self._silent[connection] = None
        self._per_ip[connection.peer] += 1
        return True

    def penalty_of(self, connection: Connection) -> float:
        """The seconds after which a new connection ends, if its address has opened too many."""
        return self.penalty_at(connection.peer, connection.listener)

    def first_frame(self, connection: Connection) -> None:
        """Note that a connection has sent a whole frame, or is authenticated."""
        self._silent.pop(connection, None)

    def dismiss(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        if connection not in self._open:
            return
        del self._open[connection]
        self._silent.pop(connection, None)
        self._per_ip[connection.peer] -= 1
        if not self._per_ip[connection.peer]:
            del self._per_ip[connection.peer]
        self._waiting.pop(connection, None)
        self._put_off.pop(connection, None)
        self.held_bytes -= connection.held_bytes
        self.partial_bytes -= connection.partial_bytes
        connection.held_bytes = connection.partial_bytes = 0
        if self._finisher is connection:
            self._finisher = None
        self.let_go_on()

    def refused(self, connection: Connection, reason: str, detail: str = "") -> None:
        """Count and log why a connection is ended or not accepted."""
        self.refused_at(connection.peer, connection.listener, reason, detail)

    def refused_at(self, address: str, listener: str, reason: str, detail: str = "") -> None:
        """Count and log why a client of a listener gets no connection."""
        self._refusals(reason)
        facts = {"detail": detail} if detail else {}
        self._client_log.write("connection_refused", address, reason, listener=listener, **facts)

    def accepts_size(self, size: int) -> bool:
        """Whether a frame of this size may arrive."""
        return 0 < size <= self.limits.max_frame_bytes

    def refuse_size(self, connection: Connection, size: int) -> None:
        """End a connection that announces a frame of such a size."""
        reason = "bad_frame_length" if size <= 0 else "frame_too_large"
        connection.abort(reason, f"{size} bytes{_guess(size)}")

    def is_over_limit(self, connection: Connection) -> bool:
        """Whether this connection, or all of them together, hold as much as they may."""
        limits = self.limits
        if connection.is_stopped:
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
        # Writers wait for the store. Clients that only read go on: they add next to nothing.
        return connection.held_bytes >= _LITTLE_BYTES or connection.writes

    def received(self, connection: Connection, size: int) -> None:
        """Count bytes of a large frame. After many of them others have their turn.

        However many connections send at full speed, a turn of the loop takes some of them.
        """
        self._turn_bytes += size
        if self._turn_bytes >= _TURN_BYTES and connection in self._open:
            is_first = not self._put_off
            self._put_off[connection] = None
            connection.is_put_off = True
            self.make_wait(connection)
            if is_first:
                self._soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Read again from those who were put off, the longest-waiting first: as many as fit."""
        self._turn_bytes = expected = 0
        while self._put_off and expected < _TURN_BYTES:
            connection, _ = self._put_off.popitem(last=False)
            connection.is_put_off = False
            expected += connection.room
        if self._put_off:
            self._soon(self._begin_turn)
        self.let_go_on()

    def make_wait(self, connection: Connection) -> None:
        """Stop reading from a connection until there is room."""
        self._waiting[connection] = None
        connection.pause_reading()

    def let_go_on(self) -> None:
        """Read again from waiting connections, the longest-waiting first, while there is room."""
        if self._is_leaving:
            return
        for connection in list(self._waiting):
            if not self.is_over_limit(connection):
                self._resume(connection)
        self._let_one_finish()

    def _let_one_finish(self) -> None:
        """When half-received frames alone fill the memory, let the longest-waiting one arrive.

        Otherwise all of them would wait for room that only a finished one can make.
        """
        if self._finisher is not None and self._finisher.partial_bytes:
            return
        self._finisher = None
        if self.held_bytes or self._buffered_bytes():
            return  # what is being worked on will make room
        for connection in self._waiting:
            if connection.partial_bytes and not connection.is_stopped:
                self._finisher = connection
                self._resume(connection)
                return

    def _resume(self, connection: Connection) -> None:
        del self._waiting[connection]
        connection.resume_reading()

    async def _watch_clock(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            self.end_overdue()

    def end_overdue(self) -> None:
        """End connections that take too long, and let waiting ones go on if there is room."""
        now_s = self.now_s()
        for connection in list(self._open):
            reason = connection.overdue(now_s, self.limits.frame_s, self.limits.idle_s)
            if reason is not None:
                connection.abort(reason)
        self._client_log.end_windows()
        self._audit.end_windows()
        self.let_go_on()
