"""One Kafka connection: many requests under way, answers strictly in order.

Here: the queue of frames that have not begun, and the queue of answers that are not sent.
Requests begin in the order they came, so that a producer's batches keep their order. A request
that waits (for a commit, in a long poll) does not hold up the requests behind it, only their
answers, unless they would see too early what it changes. A request is blocked, and the requests
behind it with it, until the earlier requests that it waits for are answered, and until the log or
group that it needs is open. Blocked requests that need not wait for earlier ones have their own
logs opened at the same time.
No connection keeps the event loop for long. Requests begin for as long as a piece of its time
lasts, then other connections have their turn. A request with very many rows is opened and answered
in such pieces, and the requests behind it begin when it is answered.
A client of a listener with SASL authenticates first. Until then few requests begin, one at a time.
Next door: which request waits for which (calls/request_order.py), which handler answers
(router.py), how far the authentication is (calls/login.py), the bytes of a connection
(gateways/connection.py).
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from enum import Enum
from typing import Any, Final

import structlog

from kafscale.gateways.connection import Connection
from kafscale.gateways.kafka import router, throttling
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import (
    Call,
    ClientError,
    CloseConnection,
    Deferred,
    KafkaContext,
)
from kafscale.gateways.kafka.calls.login import (
    LOGIN_APIS,
    MOST_FRAME_BYTES,
    SASL_AUTHENTICATE,
    SERVED,
    Login,
    LoginState,
)
from kafscale.model.buffers import Buffer
from kafscale.model.errors import KafscaleError
from kafscale.tasks import Tasks
from kafscale.wire.kafka.frame import (
    MalformedMessage,
    RequestHeader,
    read_request,
    response_frame,
    response_frame_in_steps,
)
from kafscale.wire.kafka.schema import Message

logger = structlog.get_logger()

_MOST_UNDER_WAY: Final = 1000
_MOST_READS_UNDER_WAY: Final = 4  # their answers are large; clients send one at a time
_MOST_BLOCKED: Final = 64
_MOST_READY_BYTES: Final = 4 << 20  # of answers that an earlier one holds up
_QUEUED_BYTES: Final = 512  # what a request takes beside its bytes
_SHORT_BYTES: Final = 4 << 10  # a frame up to this size has few rows


_DONE: Final = object()


class SessionState(Enum):
    """How far a connection is."""

    AUTHENTICATING = "authenticating"  # calls/login.py says which requests begin
    OPEN = "open"
    CLOSED = "closed"  # the client has gone


# Which requests begin in which state; others are dropped. After the client has gone, requests that
# were received whole and change something still begin: a producer that wants no answers may leave
# as soon as its last bytes are sent.
MAY_BEGIN: Final[dict[SessionState, frozenset[int]]] = {
    SessionState.AUTHENTICATING: SERVED[LoginState.HANDSHAKE] or frozenset(),
    SessionState.OPEN: frozenset(router.NAMES),
    SessionState.CLOSED: frozenset(router.NAMES) - router.READING,
}


class _Slot:
    """One request's place in the queue of answers."""

    __slots__ = ("answer", "answer_bytes", "errors", "held_bytes", "is_read", "request", "task")

    def __init__(self, request: RequestHeader, frame_bytes: int) -> None:
        self.request = request
        self.held_bytes = frame_bytes + _QUEUED_BYTES
        self.answer_bytes = 0
        self.is_read = request.api_key in router.READING
        self.task: asyncio.Task[None] | None = None
        self.answer: Sequence[Buffer] | None = None  # None: not yet
        self.errors: dict[str, ClientError] = {}  # of the call


class _Progress(Enum):
    """How far a blocked request is."""

    ORDERED = "ordered"  # earlier requests must be answered first
    PREPARING = "preparing"  # what it needs is being opened
    READY = "ready"  # only requests before it hold it up


class _Blocked:
    """A request that cannot begin yet, or that came behind a request that cannot."""

    __slots__ = ("call", "progress", "slot")

    def __init__(self, slot: _Slot, call: Call, progress: _Progress) -> None:
        self.slot = slot
        self.call = call
        self.progress = progress


class KafkaSession:
    """Implements gateways.connection.Session."""

    def __init__(
        self,
        connection: Connection,
        context: KafkaContext,
        tasks: Tasks,
        login: Login | None = None,
    ) -> None:
        """Speak Kafka on `connection`. With `login` the client has to authenticate first."""
        self._connection = connection
        self._login = login
        self._expires_s = math.inf  # of the authentication
        self._context = context
        self._tasks = tasks
        self._work = context.workers.new_queue()
        self._spelled: dict[str, str] = {}  # names of topics in fetch sessions, see Call
        self._at_close: dict[object, Callable[[], None]] = {}  # see Call
        self._frames: deque[memoryview] = deque()
        self._slots: deque[_Slot] = deque()
        self._reads_under_way = 0
        self._ready_bytes = 0
        self._blocked: deque[_Blocked] = deque()
        self._under_way: dict[int, int] = {}  # requests begun and not answered, by API key
        self._is_beginning = False
        self._is_in_line = False  # for another piece of the loop's time
        # A request with very many rows, or one of the authentication, until it is answered.
        self._long: _Slot | None = None
        self._enter(SessionState.OPEN if login is None else SessionState.AUTHENTICATING)
        self.writes = False
        if login is not None:
            connection.require_authentication(login.rules.timeout_s, MOST_FRAME_BYTES)

    def _enter(self, state: SessionState) -> None:
        self._state = state
        self._may_begin_now = MAY_BEGIN[state]

    def receive(self, frame: memoryview) -> None:
        """Queue a frame."""
        if self._state is SessionState.AUTHENTICATING and not self._takes(frame):
            return
        self._connection.hold(_QUEUED_BYTES)
        self._frames.append(frame)

    def begin(self) -> None:
        """Begin what can be begun."""
        self._begin_requests()

    def writable(self) -> None:
        """Go on after the client has read some answers, or has waited long enough."""
        self._begin_requests()

    def closed(self) -> None:
        """End reads. Requests that change something go on without an answer."""
        if self._state is SessionState.AUTHENTICATING:
            self._frames.clear()
        self._enter(SessionState.CLOSED)
        for slot in self._slots:
            if slot.task is not None and slot.request.api_key in router.ONLY_READING:
                # In a later turn: a task that has not begun would never await its handler.
                asyncio.get_running_loop().call_soon(slot.task.cancel)
        self._slots.clear()
        self._reads_under_way = self._ready_bytes = 0
        while self._at_close:
            self._at_close.popitem()[1]()
        self._begin_requests()

    def _give_up(self, reason: str, detail: str = "") -> None:
        """End the connection and drop the requests that have not begun."""
        self._frames.clear()
        self._connection.abort(reason, detail)

    def _begin_requests(self) -> None:
        if self._is_beginning:
            return  # called by an answer that was given at once: the loop below goes on anyway
        self._is_beginning = True
        turns = self._context.engine.turns
        end_s = math.inf  # until the first one has begun
        try:
            self._answer_unblocked()
            while (
                self._frames
                and self._long is None
                and len(self._blocked) < _MOST_BLOCKED
                and not self._connection.is_write_blocked
                and not self._connection.is_muted
                and len(self._slots) < _MOST_UNDER_WAY
                and self._reads_under_way < _MOST_READS_UNDER_WAY
                and self._ready_bytes < _MOST_READY_BYTES
            ):
                if self._is_in_line or (end_s < math.inf and turns.is_over(end_s)):
                    self._get_in_line()
                    break
                if end_s == math.inf:
                    end_s = turns.piece_end_s()
                self._begin(self._frames.popleft())
        finally:
            self._is_beginning = False

    def _get_in_line(self) -> None:
        """Go on in a later turn of the loop: other connections come first."""
        if not self._is_in_line:
            self._is_in_line = True
            self._connection.fall_behind()
            self._context.engine.turns.soon(self._have_turn)

    def _have_turn(self) -> None:
        self._is_in_line = False
        self._begin_requests()
        if not self._is_in_line:
            self._connection.catch_up()

    def _takes(self, frame: memoryview) -> bool:
        """Whether a client that is not authenticated may send this much."""
        assert self._login is not None
        is_little = self._login.takes(len(frame))
        if not is_little:
            self._give_up("too_much_before_authentication")
        return is_little

    def _begin(self, frame: memoryview) -> None:
        if self._login is not None and self._login.state is LoginState.RAW:
            self._begin_raw(frame, self._login)
            return
        try:
            request = read_request(frame)
            slot = _Slot(request, len(frame))
            if not self._may_begin(request):
                if self._state is SessionState.AUTHENTICATING:
                    self._give_up("not_authenticated", f"API {request.api_key}")
                return
            began_s = self._context.engine.clock.elapsed_s()
            if began_s > self._expires_s and request.api_key not in LOGIN_APIS:
                self._give_up("session_expired")
                return
            name = request.client_id or ""
            connection = self._connection
            call = Call(
                self._context,
                None,
                request.version,
                began_s,
                self._work,
                slot.errors,
                connection.peer,
                name,
                connection.listener,
                connection.principal,
                self._login,
                spelled=self._spelled,
                at_close=self._at_close,
            )
            refusal = router.refuse(request, call)
            self._context.engine.metrics.requests.labels(router.NAMES[request.api_key]).inc()
            if refusal is not None:
                self._queue(slot)
                self._fill(slot, response_frame(request.correlation_id, refusal, 0))
                return
            if len(frame) > _SHORT_BYTES:
                steps = router.read_body_in_steps(request, frame, call)
                if next(steps, _DONE) is not _DONE:
                    self._long, call.is_long = slot, True
                    self._tasks.spawn(self._open_long(slot, call, steps), "open")
                    return
            else:
                router.read_body(request, frame, call)
        except MalformedMessage as problem:
            self._give_up("malformed_request", str(problem))
            return
        except CloseConnection as problem:
            self._give_up("unsupported_request", str(problem))
            return
        self._begin_opened(slot, call)

    async def _open_long(self, slot: _Slot, call: Call, steps: Generator[None, None, None]) -> None:
        """Open a request with very many rows, while other connections are served."""
        try:
            await self._context.engine.turns.finish(steps)
        except MalformedMessage as problem:
            self._give_up("malformed_request", str(problem))
            return
        is_begun = self._may_begin(slot.request)
        if is_begun:
            self._begin_opened(slot, call)
        key = slot.request.api_key
        if not is_begun or slot.is_read or key in router.WAITING_FOR_MEMBERS:
            self._end_long(slot)  # it may wait for long; what it brings is used up

    def _begin_opened(self, slot: _Slot, call: Call) -> None:
        """Begin a request whose body is open, or block it."""
        request = slot.request
        if request.api_key in LOGIN_APIS:
            self._long = slot
        self._queue(slot)
        refusal = router.authorize(request, call)
        if refusal is not None:
            self._fill(slot, _framed(request, refusal))
            return
        self.writes = self.writes or router.writes(request)
        if self._context.engine.quotas.limits_clients:
            throttling.charge_request(request, call, slot.held_bytes - _QUEUED_BYTES)
            if call.throttle_s:
                self._connection.mute(call.throttle_s)
        is_settled = self._is_settled(request.api_key)
        preparation = router.prepare(request, call) if is_settled else None
        if is_settled and preparation is None and not self._blocked:
            self._answer(slot, call)
            return
        blocked = _Blocked(slot, call, _Progress.READY if is_settled else _Progress.ORDERED)
        self._blocked.append(blocked)
        if preparation is not None:
            self._spawn_preparation(blocked, preparation)

    def _may_begin(self, request: RequestHeader) -> bool:
        """Whether the state allows it. An API that is not offered is for the router to refuse."""
        key = request.api_key
        return key in self._may_begin_now or key not in router.NAMES

    def _queue(self, slot: _Slot) -> None:
        self._slots.append(slot)
        self._reads_under_way += slot.is_read

    def _is_settled(self, api_key: int) -> bool:
        """Whether no earlier request is open that this one waits for."""
        waits_for = router.WAITS_FOR[api_key]
        return waits_for.isdisjoint(self._under_way) and not (
            self._blocked
            and any(blocked.slot.request.api_key in waits_for for blocked in self._blocked)
        )

    def _spawn_preparation(self, blocked: _Blocked, preparation: Coroutine[Any, Any, None]) -> None:
        blocked.progress = _Progress.PREPARING
        self._tasks.spawn(self._prepare(preparation, blocked), "prepare")

    async def _prepare(self, preparation: Coroutine[Any, Any, None], blocked: _Blocked) -> None:
        """Wait until the request can begin. Those behind it wait too, and prepare meanwhile."""
        try:
            await preparation
        except KafscaleError as problem:
            # The handler meets the same problem again and answers with its own error.
            logger.debug("preparation_failed", reason=str(problem))
        except Exception:
            while self._blocked and self._blocked.pop() is not blocked:
                pass  # the requests behind it have not begun
            self._fail(blocked.slot)
            return
        blocked.progress = _Progress.READY
        self._begin_requests()

    def _answer_unblocked(self) -> None:
        while self._blocked and self._is_unblocked(self._blocked[0]):
            blocked = self._blocked.popleft()
            if self._may_begin(blocked.slot.request):
                self._answer(blocked.slot, blocked.call)

    def _is_unblocked(self, first: _Blocked) -> bool:
        """Whether the first blocked request can begin; what it needs is opened if it can soon."""
        request = first.slot.request
        if first.progress is _Progress.ORDERED:
            if not router.WAITS_FOR[request.api_key].isdisjoint(self._under_way):
                return False
            first.progress = _Progress.READY
            preparation = router.prepare(request, first.call)
            if preparation is not None:
                self._spawn_preparation(first, preparation)
        return first.progress is _Progress.READY

    def _answer(self, slot: _Slot, call: Call) -> None:
        try:
            is_timed = self._context.engine.quotas.times_requests
            begin = throttling.answer_timed if is_timed else router.answer
            answer = begin(slot.request, call)
            if answer is None or isinstance(answer, Message):
                if call.limits is not None:
                    self._throttle(slot, call, answer)
                self._fill(slot, _framed(slot.request, answer))
                return
            key = slot.request.api_key
            self._under_way[key] = self._under_way.get(key, 0) + 1
            if isinstance(answer, Deferred):
                answer.then(lambda message: self._fill_deferred(slot, call, message))
            else:
                if slot.request.api_key in router.WAITING_FOR_MEMBERS:
                    self._let_go_of_frame(slot)
                slot.task = self._tasks.spawn(self._answer_later(slot, call, answer), "answer")
        except Exception as problem:
            self._end_at(slot, problem)

    async def _answer_later(
        self, slot: _Slot, call: Call, answer: Awaitable[Message | None]
    ) -> None:
        request = slot.request
        try:
            message = await answer
            if call.limits is not None:
                self._throttle(slot, call, message)
            frame: Sequence[Buffer] = ()
            if message is not None:
                steps = response_frame_in_steps(request.correlation_id, message, request.version)
                frame = await self._context.engine.turns.finish(steps)
        except Exception as problem:
            self._end_at(slot, problem)
        else:
            self._fill_later(slot, frame)

    def _throttle(self, slot: _Slot, call: Call, message: Message | None) -> None:
        """Let a client that is over its quota wait after this answer."""
        throttling.charge_answer(slot.request, call, message)
        if call.throttle_s:
            self._connection.mute(call.throttle_s)

    def _fill_deferred(self, slot: _Slot, call: Call, message: Message | None) -> None:
        try:
            if call.limits is not None:
                self._throttle(slot, call, message)
            frame = _framed(slot.request, message)
        except Exception as problem:
            self._end_at(slot, problem)
        else:
            self._fill_later(slot, frame)

    def _fill_later(self, slot: _Slot, frame: Sequence[Buffer]) -> None:
        """Fill the slot of a request that was under way, and begin what waited for it."""
        key = slot.request.api_key
        self._under_way[key] -= 1
        if not self._under_way[key]:
            del self._under_way[key]
        self._fill(slot, frame)
        if self._blocked:
            self._begin_requests()

    def _end_at(self, slot: _Slot, problem: Exception) -> None:
        """End the connection at a request that has begun: those behind it never begin."""
        self._blocked.clear()
        self._tell_errors(slot)
        if isinstance(problem, CloseConnection):
            self._give_up("refused_request", str(problem))
        else:
            self._fail(slot)

    def _fail(self, slot: _Slot) -> None:
        """End the connection after a fault of the broker: there is no true answer to give."""
        logger.exception("request_failed", api_key=slot.request.api_key)
        self._give_up("internal_error")

    def _tell_errors(self, slot: _Slot) -> None:
        if slot.errors:
            client_errors.tell(self._context, self._connection.peer, slot.errors)

    def _fill(self, slot: _Slot, frame: Sequence[Buffer]) -> None:
        """Give a request its answer; an empty one where the protocol wants none."""
        self._tell_errors(slot)
        slot.answer = frame
        if self._state is SessionState.OPEN:
            slot.answer_bytes = sum(map(len, slot.answer))
            self._ready_bytes += slot.answer_bytes
            if slot is not self._slots[0]:
                self._let_go_of_frame(slot)
        self._send_finished()
        self._end_long(slot)

    def _end_long(self, slot: _Slot) -> None:
        """Begin the requests that came behind one with very many rows, or of authentication."""
        if slot is self._long:
            self._long = None
            if self._login is not None and slot.request.api_key in LOGIN_APIS:
                self._go_by_login(self._login)
            self._begin_requests()

    # -- authentication ----------------------------------------------------------------------

    def _go_by_login(self, login: Login) -> None:
        """Serve what the state of the authentication allows, after each of its requests."""
        if self._state is SessionState.CLOSED:
            return
        if login.state is LoginState.FAILED:
            self._enter(SessionState.AUTHENTICATING)
            self._may_begin_now = frozenset()
            self._frames.clear()
            self._connection.finish_after(login.rules.failure_delay_s)
            return
        if login.state is LoginState.DONE and login.identity is not None:
            self._expires_s = login.expires_s
            self._connection.authenticated(login.identity.principal)
            self._enter(SessionState.OPEN)
            return
        self._enter(SessionState.AUTHENTICATING)
        self._may_begin_now = SERVED[login.state] or frozenset()

    def _begin_raw(self, frame: memoryview, login: Login) -> None:
        """Begin a frame that is a mechanism's message and nothing else."""
        slot = _Slot(RequestHeader(SASL_AUTHENTICATE, 0, 0, None, 0), len(frame))
        self._long = slot
        self._queue(slot)
        self._tasks.spawn(self._answer_raw(slot, login, bytes(frame)), "authenticate")

    async def _answer_raw(self, slot: _Slot, login: Login, message: bytes) -> None:
        try:
            frame = await login.step_raw(message)
        except Exception as problem:
            self._end_at(slot, problem)
        else:
            self._fill(slot, frame)

    def _let_go_of_frame(self, slot: _Slot) -> None:
        """Take a request that waits off the account of bytes in flight: its frame is used up."""
        self._connection.release(slot.held_bytes - _QUEUED_BYTES)
        slot.held_bytes = _QUEUED_BYTES

    def _send_finished(self) -> None:
        """Send the answers that no earlier one holds up."""
        ready: list[Buffer] = []
        released = 0
        slots = self._slots
        while slots and slots[0].answer is not None:
            slot = slots.popleft()
            ready += slot.answer or ()
            released += slot.held_bytes
            self._ready_bytes -= slot.answer_bytes
            self._reads_under_way -= slot.is_read
        if not released:
            return
        if ready:
            self._connection.send(ready)
        self._connection.release(released)
        if self._frames:
            self._begin_requests()


def _framed(request: RequestHeader, message: Message | None) -> Sequence[Buffer]:
    """An answer of few rows, ready to be sent; an empty one where the protocol wants none."""
    if message is None:
        return ()
    return response_frame(request.correlation_id, message, request.version)
