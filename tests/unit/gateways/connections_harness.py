"""Connections without sockets: the test is the network."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kafscale.gateways.audit_log import AuditLog
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.connection import Connection
from kafscale.gateways.connections import ConnectionLimits, Connections
from kafscale.model.buffers import Buffer
from kafscale.testing.clock import ManualClock


class FakeTransport:
    """Stands in for a transport."""

    def __init__(self, peer: str = "10.0.0.1") -> None:
        self._peer = peer
        self.is_reading = True
        self.is_aborted = False
        self.is_closed = False
        self.unsent = 0
        self.sent: list[bytes] = []

    def get_extra_info(self, name: str) -> Any:
        return (self._peer, 4711) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True

    def writelines(self, buffers: Sequence[Buffer]) -> None:
        self.sent.append(b"".join(buffers))

    def get_write_buffer_size(self) -> int:
        return self.unsent


class RecordingSession:
    """A session that writes down what it is given."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.frames: list[memoryview] = []
        self.closings = 0
        self.beginnings = 0
        self.wakings = 0
        self.writes = True

    def receive(self, frame: memoryview) -> None:
        self.frames.append(frame)

    def begin(self) -> None:
        self.beginnings += 1

    def writable(self) -> None:
        self.wakings += 1

    def closed(self) -> None:
        self.closings += 1

    def seen(self) -> list[bytes]:
        return [bytes(frame) for frame in self.frames]


class ConnectionsHarness:
    """The connections of a broker, and what was counted."""

    def __init__(self, limits: ConnectionLimits | None = None, *, by_turns: bool = False) -> None:
        """`by_turns`: what is left to the next turn of the loop waits for `turn`."""
        self.clock = ManualClock()
        self.refusals: Counter[str] = Counter()
        self.buffered = 0
        self._soon: list[Callable[[], None]] = []
        self.sessions: list[RecordingSession] = []
        self.connections = Connections(
            limits or ConnectionLimits(),
            self.clock,
            buffered_bytes=lambda: self.buffered,
            refusals=lambda reason: self.refusals.update([reason]),
            client_log=ClientLog(self.clock),
            audit=AuditLog(self.clock, lambda kind, outcome: None),
            soon=self._soon.append if by_turns else lambda call: call(),
        )

    def turn(self) -> None:
        """Let a turn of the event loop pass."""
        calls = list(self._soon)
        self._soon.clear()
        for call in calls:
            call()

    def _make_session(self, connection: Connection) -> RecordingSession:
        self.sessions.append(RecordingSession(connection))
        return self.sessions[-1]

    def connect(self, peer: str = "10.0.0.1") -> tuple[Connection, FakeTransport]:
        connection = Connection(self.connections, "TEST", self._make_session)
        transport = FakeTransport(peer)
        connection.connection_made(transport)  # type: ignore[arg-type]
        return connection, transport


def feed(connection: Connection, data: bytes, at_most: int = 1 << 30) -> None:
    """Bring bytes as a transport does: it still holds the memory while it tells of them."""
    rest = memoryview(data)
    while rest:
        memory = connection.get_buffer(-1)
        size = min(len(memory), len(rest), at_most)
        assert size > 0, "no room was offered"
        memory[:size] = rest[:size]
        connection.buffer_updated(size)
        rest = rest[size:]
