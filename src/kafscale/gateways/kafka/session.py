"""One Kafka connection: many requests under way, answers strictly in order.

Here: the queue of frames that have not begun, and the queue of answers that are not sent.
Requests begin in the order they came, so that a producer's batches keep their order. A request
that waits (for a commit, in a long poll) does not hold up the requests behind it, only their
answers. If a request needs a log or a group that is not open yet, it is blocked, and the requests
behind it with it; they have their own logs opened at the same time.
Next door: which handler answers (router.py), the bytes of a connection (gateways/connection.py).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine
from enum import Enum
from typing import Any, Final

import structlog

from kafscale.gateways.connection import Connection
from kafscale.gateways.kafka import router
from kafscale.gateways.kafka.call import Call, CloseConnection, Deferred, KafkaContext
from kafscale.model.buffers import Buffer
from kafscale.model.errors import KafscaleError
from kafscale.tasks import Tasks
from kafscale.wire.kafka.frame import MalformedMessage, RequestHeader, read_request, response_frame
from kafscale.wire.kafka.schema import Message

logger = structlog.get_logger()

_MOST_UNDER_WAY: Final = 1000
_MOST_READS_UNDER_WAY: Final = 4  # their answers are large; clients send one at a time
_MOST_BLOCKED: Final = 64
_MOST_READY_BYTES: Final = 4 << 20  # of answers that an earlier one holds up
_QUEUED_BYTES: Final = 512  # what a request takes beside its bytes


class SessionState(Enum):
    """How far a connection is."""

    OPEN = "open"
    CLOSED = "closed"  # the client has gone


# Which requests begin in which state; others are dropped. After the client has gone, requests that
# were received whole and change something still begin: a producer that wants no answers may leave
# as soon as its last bytes are sent. Authentication will add a state with few requests.
MAY_BEGIN: Final[dict[SessionState, frozenset[int]]] = {
    SessionState.OPEN: frozenset(router.NAMES),
    SessionState.CLOSED: frozenset(router.NAMES) - router.READING,
}


class _Slot:
    """One request's place in the queue of answers."""

    __slots__ = ("answer", "answer_bytes", "held_bytes", "is_read", "request", "task")

    def __init__(self, request: RequestHeader, frame_bytes: int) -> None:
        self.request = request
        self.held_bytes = frame_bytes + _QUEUED_BYTES
        self.answer_bytes = 0
        self.is_read = request.api_key in router.READING
        self.task: asyncio.Task[None] | None = None
        self.answer: list[Buffer] | None = None  # None: not yet


class _Blocked:
    """A request that cannot begin yet, or that came behind a request that cannot."""

    __slots__ = ("call", "is_ready", "slot")

    def __init__(self, slot: _Slot, call: Call, *, is_ready: bool) -> None:
        self.slot = slot
        self.call = call
        self.is_ready = is_ready


class KafkaSession:
    """Implements gateways.connection.Session."""

    def __init__(self, connection: Connection, context: KafkaContext, tasks: Tasks) -> None:
        """Speak Kafka on `connection`."""
        self._connection = connection
        self._context = context
        self._tasks = tasks
        self._frames: deque[memoryview] = deque()
        self._slots: deque[_Slot] = deque()
        self._reads_under_way = 0
        self._ready_bytes = 0
        self._blocked: deque[_Blocked] = deque()
        self._is_beginning = False
        self._enter(SessionState.OPEN)
        self.writes = False

    def _enter(self, state: SessionState) -> None:
        self._state = state
        self._may_begin_now = MAY_BEGIN[state]

    def receive(self, frame: memoryview) -> None:
        """Queue a frame and begin what can be begun."""
        self._connection.hold(_QUEUED_BYTES)
        self._frames.append(frame)
        self._begin_requests()

    def writable(self) -> None:
        """Go on after the client has read some answers."""
        self._begin_requests()

    def closed(self) -> None:
        """End reads. Requests that change something go on without an answer."""
        self._enter(SessionState.CLOSED)
        for slot in self._slots:
            if slot.is_read and slot.task is not None:
                slot.task.cancel()
        self._slots.clear()
        self._reads_under_way = self._ready_bytes = 0
        self._begin_requests()

    def _give_up(self, reason: str, detail: str = "") -> None:
        """End the connection and drop the requests that have not begun."""
        self._frames.clear()
        self._connection.abort(reason, detail)

    def _begin_requests(self) -> None:
        if self._is_beginning:
            return  # called by an answer that was given at once: the loop below goes on anyway
        self._is_beginning = True
        try:
            self._answer_unblocked()
            while (
                self._frames
                and len(self._blocked) < _MOST_BLOCKED
                and not self._connection.is_write_blocked
                and len(self._slots) < _MOST_UNDER_WAY
                and self._reads_under_way < _MOST_READS_UNDER_WAY
                and self._ready_bytes < _MOST_READY_BYTES
            ):
                self._begin(self._frames.popleft())
        finally:
            self._is_beginning = False

    def _begin(self, frame: memoryview) -> None:
        try:
            request = read_request(frame)
            slot = _Slot(request, len(frame))
            if not self._may_begin(request):
                return
            began_s = self._context.engine.clock.elapsed_s()
            name = request.client_id or ""
            connection = self._connection
            call = Call(
                self._context,
                None,
                request.version,
                began_s,
                connection.peer,
                name,
                connection.listener,
                connection.principal,
            )
            refusal = router.refuse(request, call)
            self._context.engine.metrics.requests.labels(router.NAMES[request.api_key]).inc()
            if refusal is not None:
                self._queue(slot)
                self._fill(slot, refusal, 0)
                return
            router.read_body(request, frame, call)
        except MalformedMessage as problem:
            self._give_up("malformed_request", str(problem))
            return
        except CloseConnection as problem:
            self._give_up("unsupported_request", str(problem))
            return
        self._queue(slot)
        refusal = router.authorize(request, call)
        if refusal is not None:
            self._fill(slot, refusal, request.version)
            return
        self.writes = self.writes or router.writes(request)
        preparation = router.prepare(request, call)
        if preparation is None and not self._blocked:
            self._answer(slot, call)
            return
        blocked = _Blocked(slot, call, is_ready=preparation is None)
        self._blocked.append(blocked)
        if preparation is not None:
            self._tasks.spawn(self._prepare(preparation, blocked), "prepare")

    def _may_begin(self, request: RequestHeader) -> bool:
        """Whether the state allows it. An API that is not offered is for the router to refuse."""
        key = request.api_key
        return key in self._may_begin_now or key not in router.NAMES

    def _queue(self, slot: _Slot) -> None:
        self._slots.append(slot)
        self._reads_under_way += slot.is_read

    async def _prepare(self, preparation: Coroutine[Any, Any, None], blocked: _Blocked) -> None:
        """Wait until the request can begin. Those behind it wait too, and prepare meanwhile."""
        try:
            await preparation
        except KafscaleError as problem:
            # The handler meets the same problem again and answers with its own error.
            logger.debug("preparation_failed", reason=str(problem))
        except Exception:
            while self._blocked.pop() is not blocked:
                pass  # the requests behind it have not begun
            self._fail(blocked.slot)
            return
        blocked.is_ready = True
        self._begin_requests()

    def _answer_unblocked(self) -> None:
        while self._blocked and self._blocked[0].is_ready:
            blocked = self._blocked.popleft()
            if self._may_begin(blocked.slot.request):
                self._answer(blocked.slot, blocked.call)

    def _answer(self, slot: _Slot, call: Call) -> None:
        try:
            answer = router.answer(slot.request, call)
            if answer is None or isinstance(answer, Message):
                self._fill(slot, answer, slot.request.version)
            elif isinstance(answer, Deferred):
                answer.then(lambda message: self._fill_later(slot, message))
            else:
                slot.task = self._tasks.spawn(self._answer_later(slot, answer), "answer")
        except CloseConnection as problem:
            self._give_up("refused_request", str(problem))
        except Exception:
            self._fail(slot)

    def _fill_later(self, slot: _Slot, message: Message | None) -> None:
        try:
            self._fill(slot, message, slot.request.version)
        except Exception:
            self._fail(slot)

    async def _answer_later(self, slot: _Slot, answer: Awaitable[Message | None]) -> None:
        try:
            self._fill(slot, await answer, slot.request.version)
        except CloseConnection as problem:
            self._give_up("refused_request", str(problem))
        except Exception:
            self._fail(slot)

    def _fail(self, slot: _Slot) -> None:
        """End the connection after a fault of the broker: there is no true answer to give."""
        logger.exception("request_failed", api_key=slot.request.api_key)
        self._give_up("internal_error")

    def _fill(self, slot: _Slot, message: Message | None, version: int) -> None:
        if message is None:
            slot.answer = []
        else:
            slot.answer = response_frame(slot.request.correlation_id, message, version)
        if self._state is SessionState.OPEN:
            slot.answer_bytes = sum(map(len, slot.answer))
            self._ready_bytes += slot.answer_bytes
        self._send_finished()

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
