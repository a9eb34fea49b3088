"""One client's TCP connection, cut into length-prefixed frames.

Here: receiving without copying, deadlines, back-pressure in both directions. Every protocol of
this broker puts a 4-byte length in front of a frame, so this file knows none of them.
Next door: accepting connections (listener.py), all connections together (connections.py), what
frames mean (kafka/session.py).

Large frames are received straight into the memory that later becomes the stored batch. That
memory grows with the bytes that arrive: the length that a client announces proves nothing.
"""

import asyncio
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from kafscale.model.buffers import Buffer
from kafscale.model.security.access import ANONYMOUS, Principal

_LENGTH: Final = struct.Struct(">i")
_FIRST_ALLOCATION: Final = 32 << 10
_GROWTH: Final = 4
_WRITE_HIGH: Final = 4 << 20
_ANY_SIZE: Final = 1 << 31


class Session(Protocol):
    """What a protocol does with the frames of one connection."""

    @property
    def writes(self) -> bool:
        """Whether this client sends data to be stored: it waits when the store is slow."""
        ...

    def receive(self, frame: memoryview) -> None:
        """Take one whole frame, without its length. The memory is the session's to keep."""
        ...

    def begin(self) -> None:
        """Work on the frames that were received."""
        ...

    def writable(self) -> None:
        """The client has begun to read again, or need not wait any longer."""
        ...

    def closed(self) -> None:
        """The connection is gone."""
        ...


class PieceTaker(Protocol):
    """What takes large frames in pieces, as they arrive."""

    def takes(self, head: memoryview, size: int) -> bool:
        """Whether it takes this frame; `head`: what has arrived. Else it is received whole."""
        ...

    def piece(self, data: memoryview) -> None:
        """Take the next bytes of the frame, the head first. The memory is used again."""
        ...


class ConnectionOwner(Protocol):
    """What a connection needs of the broker that it is one connection of."""

    held_bytes: int  # of all connections together, as in Connection
    partial_bytes: int
    shared: memoryview  # where small frames of all connections arrive, one callback at a time

    def now_s(self) -> float:
        """The time that deadlines are measured by."""
        ...

    def admit(self, connection: "Connection") -> bool:
        """Count a new connection; False if there are too many."""
        ...

    def penalty_of(self, connection: "Connection") -> float:
        """The seconds after which it is ended, if its address opens too many; 0: it stays."""
        ...

    def first_frame(self, connection: "Connection") -> None:
        """Note that a connection has sent a whole frame."""
        ...

    def dismiss(self, connection: "Connection") -> None:
        """Forget a connection that has ended."""
        ...

    def refused(self, connection: "Connection", reason: str, detail: str = "") -> None:
        """Count and log why a connection is ended."""
        ...

    def accepts_size(self, size: int) -> bool:
        """Whether a frame of this size may arrive."""
        ...

    def refuse_size(self, connection: "Connection", size: int) -> None:
        """End a connection that announces a frame of such a size."""
        ...

    def is_over_limit(self, connection: "Connection") -> bool:
        """Whether the connection must wait before it may send more."""
        ...

    def received(self, connection: "Connection", size: int) -> None:
        """Count bytes of a large frame; the connection may have to wait for the next turn."""
        ...

    def make_wait(self, connection: "Connection") -> None:
        """Stop reading from the connection until there is room."""
        ...

    def let_go_on(self) -> None:
        """Read again from waiting connections, as far as there is room."""
        ...


class Connection(asyncio.BufferedProtocol):
    """A connection. Its session sees frames; its owner sees bytes held and time passing."""

    def __init__(
        self,
        owner: ConnectionOwner,
        listener: str,
        make_session: Callable[["Connection"], Session],
        *,
        is_charged: bool = False,
    ) -> None:
        """`listener`: the name of the one that accepted this connection.

        `is_charged`: its address was asked for a penalty when the connection was accepted.
        """
        self._owner = owner
        self._make_session = make_session
        self._is_charged = is_charged
        self.listener = listener
        self.principal: Principal = ANONYMOUS
        self.may_be_silent = False  # a session whose protocol has no heartbeats sets it
        self.pieces: PieceTaker | None = None  # a session that passes large frames on sets it
        self._pieces_left = 0  # bytes of a frame that is taken in pieces
        self._authenticate_by_s = math.inf
        self._most_frame_bytes = _ANY_SIZE  # beside the owner's own limit
        self._transport: asyncio.Transport | None = None
        self._session: Session | None = None
        self._left = b""  # up to three bytes of a length that has not arrived whole
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._frame_filled = 0
        self._frame_since_s = 0.0
        self._is_reading = True
        self._has_ended = False
        self._is_deaf = False  # it takes nothing more: it has ended, or will
        self._has_sent_frame = False
        self._unsent_bytes = 0
        self.peer = ""
        self.held_bytes = 0  # of requests received and not yet answered
        self.partial_bytes = 0  # memory of a frame that has not arrived whole
        self._largest_whole = 0
        self.is_write_blocked = False
        self.is_behind = False
        self.is_muted = False  # its client is over a quota
        self.is_put_off = False  # until a later turn of the loop: this one has received enough
        self._muted_until_s = 0.0
        self._unmuting: asyncio.TimerHandle | None = None
        self.blocked_since_s = 0.0
        self.last_active_s = 0.0

    # -- life --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, or end it if there are too many."""
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._transport = transport
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if address else ""
        transport.set_write_buffer_limits(high=_WRITE_HIGH)
        self.last_active_s = self._owner.now_s()
        if not self._owner.admit(self):
            transport.abort()
            return
        penalty_s = 0.0 if self._is_charged else self._owner.penalty_of(self)
        if penalty_s > 0:
            # As in Kafka it ends later: a client that comes back at once would come too often.
            self.pause_reading()
            asyncio.get_running_loop().call_later(penalty_s, transport.abort)
        else:
            self._session = self._make_session(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what the connection holds."""
        self._owner.dismiss(self)
        self._transport = None
        self.is_muted = False  # what it has sent whole is still begun
        if self._unmuting is not None:
            self._unmuting.cancel()
        self._frame = None
        if self._session is not None:
            self._session.closed()

    def eof_received(self) -> bool:
        """Close the connection of a client that stops sending, after what was written is sent."""
        return False

    def abort(self, reason: str, detail: str = "") -> None:
        """End the connection at once; `reason` is counted, `detail` only logged.

        Requests that came after the bad one never begin.
        """
        if self._transport is not None and not self._has_ended:
            self._has_ended = self._is_deaf = True
            self._owner.refused(self, reason, detail)
            self._transport.abort()
            if self._session is not None:
                self._session.closed()

    def finish(self) -> None:
        """End the connection after what was written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def finish_after(self, seconds: float) -> None:
        """Take nothing more, and end the connection then, unless the client ends it before.

        Some clients forget an answer that comes together with the end of the connection.
        """
        if self._transport is not None:
            self._is_deaf = True
            asyncio.get_running_loop().call_later(seconds, self.finish)

    @property
    def writes(self) -> bool:
        """Whether this client sends data to be stored."""
        return self._session is not None and self._session.writes

    @property
    def is_stopped(self) -> bool:
        """Whether nothing is read from it, however much room there is."""
        return self.is_write_blocked or self.is_behind or self.is_muted or self.is_put_off

    @property
    def room(self) -> int:
        """How much may arrive at once."""
        if self._frame is None:
            return len(self._owner.shared)
        return len(self._frame) - self._frame_filled or (_GROWTH - 1) * self._frame_filled

    @property
    def certificate(self) -> dict[str, Any] | None:
        """The client's certificate, which its authority has signed; None if it has shown none."""
        return self._transport.get_extra_info("peercert") if self._transport is not None else None

    # -- authentication ----------------------------------------------------------------------

    def require_authentication(self, within_s: float, most_frame_bytes: int) -> None:
        """Until `authenticated`, take small frames only, and end the connection after some time.

        Where there are too many connections, one that is not authenticated goes first.
        """
        self._authenticate_by_s = self._owner.now_s() + within_s
        self._most_frame_bytes = most_frame_bytes
        self._has_sent_frame = True

    def authenticated(self, principal: Principal) -> None:
        """The client has proved who it is."""
        self.principal = principal
        self._authenticate_by_s = math.inf
        self._most_frame_bytes = _ANY_SIZE
        self._owner.first_frame(self)

    # -- receiving ---------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: into the large frame that is arriving, or the shared buffer."""
        if self._frame is not None:
            return memoryview(self._frame)[self._frame_filled :]
        left = len(self._left)
        shared = self._owner.shared
        if left:
            shared[:left] = self._left
        return shared[left:]

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that have arrived in the buffer."""
        if self._session is None or self._is_deaf:
            return
        if self._frame is None:
            filled = len(self._left) + nbytes
            self._left = b""
            received = self._owner.shared[:filled]
            if self._pieces_left:
                received = self._pass_piece(received)
            self._cut_frames(received)
            if not self._has_ended:
                self._session.begin()
            return
        self._frame_filled += nbytes
        if self._frame_filled == self._frame_size:
            frame, self._frame = self._frame, None
            self._largest_whole = max(self._largest_whole, len(frame))
            self._hold_partial(0)
            self._deliver(memoryview(frame))
            self._session.begin()
        elif self._frame_filled == len(self._frame):
            self._grow()
        self._owner.received(self, nbytes)

    def _grow(self) -> None:
        """Allocate more, if there is room: all that was allocated so far has been filled."""
        assert self._frame is not None
        if self._owner.is_over_limit(self):
            self._owner.make_wait(self)
            self._owner.let_go_on()
            return
        # Copied, because the transport still holds the old memory.
        grown = bytearray(min(self._frame_size, _GROWTH * self._frame_filled))
        grown[: self._frame_filled] = self._frame
        self._frame = grown
        self._hold_partial(len(grown))

    def _cut_frames(self, received: memoryview) -> None:
        """Deliver the small frames that arrived whole; begin a large one if need be."""
        assert self._session is not None
        position = 0
        filled = len(received)
        while filled - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(received, position)
            if size > self._most_frame_bytes or not self._owner.accepts_size(size):
                self._session.begin()  # what came before it is answered
                self._owner.refuse_size(self, size)
                return
            begin = position + _LENGTH.size
            if filled - begin < size:
                self._begin_frame(received[begin:], size)
                return
            position = begin + size
            # Copied: the next connection that receives uses the same buffer.
            self._deliver(memoryview(bytearray(received[begin:position])))
            if self._has_ended:
                return
        self._left = bytes(received[position:])
        if self._left:
            self._frame_since_s = self._owner.now_s()

    def _pass_piece(self, received: memoryview) -> memoryview:
        """Give the taker its bytes of what has arrived; gives what follows them."""
        assert self.pieces is not None
        size = min(self._pieces_left, len(received))
        self._pieces_left -= size
        self._frame_since_s = self.last_active_s = self._owner.now_s()
        self.pieces.piece(received[:size])
        return received[size:]

    def _begin_frame(self, head: memoryview, size: int) -> None:
        if self.pieces is not None and self.pieces.takes(head, size):
            self._pieces_left = size
            self._pass_piece(head)
            return
        # A client that has sent a whole frame of some size before gets that much memory at once.
        proven = 0 if self._owner.is_over_limit(self) else self._largest_whole
        frame = bytearray(min(size, max(_FIRST_ALLOCATION, _GROWTH * len(head), proven)))
        frame[: len(head)] = head
        self._frame = frame
        self._frame_size = size
        self._frame_filled = len(head)
        self._frame_since_s = self._owner.now_s()
        self._hold_partial(len(frame))
        self._owner.received(self, len(head))

    def _hold_partial(self, size: int) -> None:
        """Account for the memory of a frame that has not arrived whole."""
        self._owner.partial_bytes += size - self.partial_bytes
        self.partial_bytes = size

    def _deliver(self, frame: memoryview) -> None:
        assert self._session is not None
        self.last_active_s = self._owner.now_s()
        if not self._has_sent_frame:
            self._has_sent_frame = True
            self._owner.first_frame(self)
        self.hold(len(frame))
        self._session.receive(frame)

    def overdue(self, now_s: float, frame_s: float, idle_s: float) -> str | None:
        """Why this connection must end, if it must: a slow frame, a slow reader, or silence."""
        partial = self._frame is not None or bool(self._left) or self._pieces_left > 0
        if partial and self._is_reading and now_s - self._frame_since_s > frame_s:
            return "slow_frame"
        if self._reads_nothing(now_s) and now_s - self.blocked_since_s > frame_s:
            return "slow_reader"
        if now_s > self._authenticate_by_s:
            return "not_authenticated_in_time"
        is_silent = now_s - self.last_active_s > idle_s and not self.may_be_silent
        if self.held_bytes == 0 and is_silent and not self.is_muted:
            return "idle"
        return None

    def _reads_nothing(self, now_s: float) -> bool:
        """Whether the client has read none of its answers since the last check."""
        if not self.is_write_blocked or self._transport is None:
            return False
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent_bytes:
            self.blocked_since_s = now_s  # slow, but reading
        self._unsent_bytes = unsent
        return True

    # -- back-pressure -----------------------------------------------------------------------

    def hold(self, size: int) -> None:
        """Account for a request that is being worked on."""
        self.held_bytes += size
        self._owner.held_bytes += size
        if self._is_reading and self._owner.is_over_limit(self):
            self._owner.make_wait(self)

    def release(self, size: int) -> None:
        """Account for a request that was answered. A closed connection holds nothing."""
        if self._transport is None:
            return
        self.held_bytes -= size
        self._owner.held_bytes -= size
        self._owner.let_go_on()

    def pause_reading(self) -> None:
        """Leave the client's bytes in the network until `resume_reading`."""
        if self._is_reading and self._transport is not None:
            self._is_reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        if not self._is_reading and self._transport is not None:
            self._is_reading = True
            self._frame_since_s = self._owner.now_s()
            self._transport.resume_reading()
            if self._frame is not None and self._frame_filled == len(self._frame):
                self._grow()

    def fall_behind(self) -> None:
        """Read nothing more until `catch_up`: the session has not begun what it was given."""
        if not self.is_behind:
            self.is_behind = True
            self._owner.make_wait(self)

    def catch_up(self) -> None:
        """The session has begun all that it was given."""
        if self.is_behind:
            self.is_behind = False
            self._owner.let_go_on()

    def mute(self, seconds: float) -> None:
        """Read nothing more for so long: the client is over its quota. Answers still go out."""
        if self._transport is None or seconds <= 0:
            return
        self._muted_until_s = max(self._muted_until_s, self._owner.now_s() + seconds)
        if not self.is_muted:
            self.is_muted = True
            self._owner.make_wait(self)
            self._unmute_after(seconds)

    def _unmute_after(self, seconds: float) -> None:
        self._unmuting = asyncio.get_running_loop().call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        left_s = self._muted_until_s - self._owner.now_s()
        if left_s > 0:  # another answer has said a longer time
            self._unmute_after(left_s)
            return
        self.is_muted = False
        self.last_active_s = self._owner.now_s()
        self._owner.let_go_on()
        if self._session is not None:
            self._session.writable()

    def pause_writing(self) -> None:
        """The client does not read its answers: stop making more of them."""
        self.is_write_blocked = True
        self.blocked_since_s = self._owner.now_s()
        self._unsent_bytes = 0
        self._owner.make_wait(self)

    def resume_writing(self) -> None:
        """The client reads again."""
        self.is_write_blocked = False
        self.last_active_s = self._owner.now_s()
        self._owner.let_go_on()
        if self._session is not None:
            self._session.writable()

    # -- sending -----------------------------------------------------------------------------

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send a frame whose length is already in front."""
        if self._transport is not None and not self._transport.is_closing():
            self.last_active_s = self._owner.now_s()
            self._transport.writelines(buffers)
