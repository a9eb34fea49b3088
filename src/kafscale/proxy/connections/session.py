"""One client's connection to the proxy: requests begin in order, answers go out in order.

Here: which requests are read and which pass as they are, the client's own connection to the
upstream, logging in. A request that passes keeps its bytes, save its number on the way.
Next door: what is read (apis/table.py), the bytes of a connection (gateways/connection.py).
"""

import asyncio
import struct
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import structlog

from kafscale.gateways.connection import Connection
from kafscale.gateways.kafka.calls.call import Call
from kafscale.gateways.kafka.calls.login import (
    LOGIN_APIS,
    MOST_FRAME_BYTES,
    IllegalState,
    Login,
    LoginState,
)
from kafscale.model.buffers import Buffer
from kafscale.model.errors import AuthenticationFailed, KafscaleError
from kafscale.proxy.access.front import CHANGES_ACLS, HIDDEN, is_changed, versions_of
from kafscale.proxy.apis import cluster
from kafscale.proxy.apis.call import ProxyCall
from kafscale.proxy.apis.produce import UnansweredRefusal
from kafscale.proxy.apis.table import (
    API_VERSIONS,
    AT_OWN_ADDRESS,
    EVERYWHERE,
    PRODUCE,
    RequestHandler,
)
from kafscale.proxy.context import ProxyContext
from kafscale.proxy.upstream.link import Link, UpstreamLost, head_of, renumbered
from kafscale.wire import buffer
from kafscale.wire.kafka import frame as frames
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.frame import MalformedMessage, RequestHeader
from kafscale.wire.kafka.messages.api_versions import ApiVersionsResponse
from kafscale.wire.kafka.messages.produce import ProduceRequest
from kafscale.wire.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafscale.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafscale.wire.kafka.schema import Message

logger = structlog.get_logger()

_MOST_UNDER_WAY: Final = 128
_QUEUED_BYTES: Final = 512
_PRODUCE_FLEXIBLE: Final = 9
_ACKS: Final = struct.Struct(">h")
_NO_BYTES: Final[tuple[Buffer, ...]] = ()


class _Slot:
    """One request's place in the queue of answers."""

    __slots__ = ("answer", "held_bytes")

    def __init__(self, held_bytes: int) -> None:
        self.held_bytes = held_bytes
        self.answer: Sequence[Buffer] | None = None  # None: not yet


class _Stream:
    """Implements upstream.link.AnswerTaker: a large answer that passes while it arrives."""

    __slots__ = ("_session", "has_begun", "number", "slot")

    def __init__(self, session: "ProxySession", slot: _Slot, number: int) -> None:
        self._session = session
        self.slot = slot
        self.number = number  # that the client gave to its request
        self.has_begun = False

    def begins(self, size: int) -> bool:
        """See AnswerTaker."""
        self.has_begun = self._session.is_next(self.slot)
        if self.has_begun:
            self._session.send_piece(head_of(size, self.number))
        return self.has_begun

    def piece(self, data: memoryview) -> None:
        """See AnswerTaker."""
        self._session.send_piece(bytes(data))


class ProxySession:
    """Implements gateways.connection.Session."""

    def __init__(
        self,
        connection: Connection,
        context: ProxyContext,
        node: int | None,
        login: Login | None,
        listener: str = "",
    ) -> None:
        """`node`: the upstream broker in whose place the proxy listens; None: its own address.

        `listener`: by whose name the client is told addresses.
        """
        self._listener = listener
        self._connection = connection
        self._context = context
        self._node = node
        self._login = login
        self._handlers: dict[int, RequestHandler] = AT_OWN_ADDRESS if node is None else EVERYWHERE
        self._frames: deque[memoryview] = deque()
        self._slots: deque[_Slot] = deque()
        self._link: Link | None = None
        self._go_on = asyncio.Event()
        self._is_closed = False
        self.writes = False
        self._work = context.tasks.spawn(self._run(), "connection")
        if login is not None:
            connection.require_authentication(login.rules.timeout_s, MOST_FRAME_BYTES)

    # -- what the connection calls ------------------------------------------------------------

    def receive(self, frame: memoryview) -> None:
        """Queue a frame."""
        login = self._login
        if login is not None and login.state is not LoginState.DONE and not login.takes(len(frame)):
            self._give_up("too_much_before_authentication")
            return
        self._connection.hold(_QUEUED_BYTES)  # beside the frame, which the connection holds
        self._context.metrics.from_clients.inc(len(frame))
        self._frames.append(frame)

    def begin(self) -> None:
        """Begin what can be begun."""
        self._go_on.set()

    def writable(self) -> None:
        """Go on after the client has read some answers."""
        self._go_on.set()
        if self._link is not None:
            self._link.go_on()

    def closed(self) -> None:
        """End what serves this client alone; batches on their way are stored."""
        self._is_closed = True
        self._frames.clear()
        self._slots.clear()
        self._work.cancel()
        if self._link is not None:
            self._link.close()

    def _give_up(self, reason: str, detail: str = "") -> None:
        self._frames.clear()
        self._connection.abort(reason, detail)

    # -- requests -----------------------------------------------------------------------------

    async def _run(self) -> None:
        await self._context.opened.wait()
        while not self._is_closed:
            self._go_on.clear()
            may_begin = len(self._slots) < _MOST_UNDER_WAY and not self._connection.is_write_blocked
            if not self._frames or not may_begin:
                await self._go_on.wait()
                continue
            try:
                await self._begin(self._frames.popleft())
            except MalformedMessage as problem:
                self._give_up("malformed_request", str(problem))
            except (UpstreamLost, TimeoutError) as problem:
                self._give_up("upstream_lost", str(problem))
            except KafscaleError as problem:
                self._give_up("upstream_refused", str(problem))

    async def _begin(self, frame: memoryview) -> None:
        if self._login is not None and self._login.state is LoginState.RAW:
            await self._step_raw(frame, self._login)
            return
        request = frames.read_request(frame)
        slot = _Slot(len(frame) + _QUEUED_BYTES)
        self._slots.append(slot)
        key = request.api_key
        self._context.metrics.count(key)
        if self._login is not None and (
            self._login.state is not LoginState.DONE or key in LOGIN_APIS
        ):
            await self._log_in(request, frame, slot, self._login)
        elif key == API_VERSIONS:
            await self._answer_versions(request, frame, slot)
        elif key in LOGIN_APIS:
            self._give_up("unsupported_request", "the listener has no SASL")
        elif self._context.access is not None:
            await self._check(request, frame, slot)
        elif key in self._handlers:
            await self._handle(request, frame, slot)
        elif key in HIDDEN:
            self._give_up("unsupported_request", f"API {key} is not offered")
        else:
            await self._pass(request, frame, slot)

    async def _pass(self, request: RequestHeader, frame: memoryview, slot: _Slot) -> None:
        """Send a request to the upstream as it is."""
        link = await self._upstream()
        if request.api_key == PRODUCE and _acks(frame, request.version) == 0:
            link.forward_quietly(frame)
            self._fill(slot, _NO_BYTES)
            return
        stream = _Stream(self, slot, request.correlation_id)
        self._relay(link.forward(frame, stream), stream)

    def _relay(self, sent: "asyncio.Future[memoryview]", stream: "_Stream") -> None:
        """Give the client the upstream's answer as it is."""

        def answered(answer: "asyncio.Future[memoryview]") -> None:
            if answer.cancelled() or answer.exception() is not None:
                self._give_up("upstream_lost")
            elif stream.has_begun:
                self._fill(stream.slot, _NO_BYTES)
            else:
                self._fill(stream.slot, renumbered(answer.result(), stream.number))

        sent.add_done_callback(answered)

    def is_next(self, slot: _Slot) -> bool:
        """Whether a request is the next to be answered."""
        return bool(self._slots) and self._slots[0] is slot

    def send_piece(self, data: Buffer) -> None:
        """Send a part of the answer to the next request to be answered."""
        if self._is_closed or not data:
            return
        self._context.metrics.to_clients.inc(len(data))
        self._connection.send((data,))
        if self._connection.is_write_blocked and self._link is not None:
            self._link.hold_back()

    async def _handle(self, request: RequestHeader, frame: memoryview, slot: _Slot) -> None:
        if request.version not in BY_KEY[request.api_key].versions:
            self._give_up("unsupported_request", f"API {request.api_key} v{request.version}")
            return
        await self._answer_here(request, frames.read_body(request, frame), slot)

    async def _answer_here(
        self, request: RequestHeader, message: Message, slot: _Slot, checked: Call | None = None
    ) -> None:
        self.writes = self.writes or request.api_key == PRODUCE
        call = ProxyCall(
            self._context, request, message, self._node, self._upstream, self._listener
        )
        answer = await self._handlers[request.api_key](call)
        if answer is None or isinstance(answer, Message):
            self._answer(slot, request, answer, checked)
        else:
            self._context.tasks.spawn(self._finish(slot, request, answer, checked), "answer")

    async def _finish(
        self,
        slot: _Slot,
        request: RequestHeader,
        work: Coroutine[Any, Any, Message | None],
        checked: Call | None,
    ) -> None:
        try:
            self._answer(slot, request, await work, checked)
        except UnansweredRefusal as problem:
            self._give_up("unanswered_refusal", str(problem))
        except (KafscaleError, TimeoutError) as problem:
            self._give_up("upstream_lost", str(problem))

    # -- requests under rules -----------------------------------------------------------------

    async def _check(self, request: RequestHeader, frame: memoryview, slot: _Slot) -> None:
        """Take out what the client may not do, and go on with the rest."""
        access, key = self._context.access, request.api_key
        assert access is not None
        if request.version not in versions_of(key):
            self._give_up("unsupported_request", f"API {key} v{request.version}")
            return
        message = frames.read_body(request, frame)
        checked = access.call(self._connection, request, message)
        refusal = access.authorize(key, checked)
        if refusal is not None:
            self._answer(slot, request, refusal)
        elif key in self._handlers:
            await self._answer_here(request, message, slot, checked)
        elif not is_changed(key, checked):
            await self._pass(request, frame, slot)
        else:
            await self._pass_changed(request, message, slot, checked)

    async def _pass_changed(
        self, request: RequestHeader, message: Message, slot: _Slot, checked: Call
    ) -> None:
        link = await self._upstream()
        made = frames.request_frame(0, message, request.version, request.client_id)
        if isinstance(message, ProduceRequest) and message.acks == 0:
            link.send_quietly(made)
            self._answer(slot, request, None, checked)
            return
        if checked.amendments is None and request.api_key not in CHANGES_ACLS:
            stream = _Stream(self, slot, request.correlation_id)
            self._relay(link.send(made, stream), stream)
            return
        work = self._ask(request, link.send(made))
        self._context.tasks.spawn(self._finish(slot, request, work, checked), "answer")

    async def _ask(self, request: RequestHeader, sent: "asyncio.Future[memoryview]") -> Message:
        kind = BY_KEY[request.api_key].response
        answer = frames.read_response(await sent, kind, request.version)[1]
        if request.api_key in CHANGES_ACLS and self._context.acls is not None:
            await self._context.acls.load()
        return answer

    async def _answer_versions(
        self, request: RequestHeader, frame: memoryview, slot: _Slot
    ) -> None:
        if request.version not in ApiVersionsResponse.versions:
            refusal = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION)
            self._fill(slot, frames.response_frame(request.correlation_id, refusal, 0))
            return
        message = frames.read_body(request, frame)
        call = ProxyCall(
            self._context, request, message, self._node, self._upstream, self._listener
        )
        changed = frozenset(self._handlers) | {API_VERSIONS}
        checked = versions_of if self._context.access is not None else None
        self._answer(slot, request, await cluster.api_versions(call, changed, checked))

    async def _upstream(self) -> Link:
        """This client's connection to the upstream. Raises UpstreamLost."""
        is_lost = self._link is not None and not self._link.is_open
        if self._link is None or (is_lost and self._node is None):  # any other broker will do
            link = await self._context.upstream.dial(self._node)
            if self._is_closed:
                link.close()
            self._link = link
        if not self._link.is_open:
            raise UpstreamLost("the upstream's broker has closed the connection")
        return self._link

    # -- answers ------------------------------------------------------------------------------

    def _answer(
        self,
        slot: _Slot,
        request: RequestHeader,
        message: Message | None,
        checked: Call | None = None,
    ) -> None:
        amendments = () if checked is None else checked.amendments or ()
        if message is None and amendments:
            self._give_up("not_authorized", "the client wants no answer that says so")
            return
        for amendment in amendments:
            amendment(message)
        if message is None:
            self._fill(slot, _NO_BYTES)
        else:
            made = frames.response_frame(request.correlation_id, message, request.version)
            self._fill(slot, made)

    def _fill(self, slot: _Slot, answer: Sequence[Buffer]) -> None:
        slot.answer = answer
        ready: list[Buffer] = []
        released = 0
        while self._slots and self._slots[0].answer is not None:
            done = self._slots.popleft()
            ready += done.answer or ()
            released += done.held_bytes
        if ready:
            self._context.metrics.to_clients.inc(sum(map(len, ready)))
            self._connection.send(ready)
        if released:
            self._connection.release(released)
            self._go_on.set()

    # -- logging in ---------------------------------------------------------------------------

    async def _log_in(
        self, request: RequestHeader, frame: memoryview, slot: _Slot, login: Login
    ) -> None:
        if request.api_key == API_VERSIONS and login.state is LoginState.HANDSHAKE:
            await self._answer_versions(request, frame, slot)
            return
        if request.api_key not in LOGIN_APIS:
            self._give_up("not_authenticated", f"API {request.api_key}")
            return
        if request.version not in BY_KEY[request.api_key].versions:
            self._give_up("unsupported_request", f"API {request.api_key} v{request.version}")
            return
        message = frames.read_body(request, frame)
        if isinstance(message, SaslHandshakeRequest):
            self._answer(slot, request, _shake(login, message, request.version))
        else:
            assert isinstance(message, SaslAuthenticateRequest)
            self._answer(slot, request, await _step(login, message))
        self._go_by_login(login)

    async def _step_raw(self, frame: memoryview, login: Login) -> None:
        slot = _Slot(len(frame) + _QUEUED_BYTES)
        self._slots.append(slot)
        self._fill(slot, await login.step_raw(bytes(frame)))
        self._go_by_login(login)

    def _go_by_login(self, login: Login) -> None:
        if login.state is LoginState.FAILED:
            self._frames.clear()
            self._connection.finish()
        elif login.state is LoginState.DONE and login.identity is not None:
            self._connection.authenticated(login.identity.principal)


def _shake(login: Login, message: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
    offered = list(login.mechanisms)
    try:
        is_offered = login.handshake(message.mechanism, version)
    except IllegalState:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, offered)
    code = ErrorCode.NONE if is_offered else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return SaslHandshakeResponse(code, offered)


async def _step(login: Login, message: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    try:
        said = await login.step(bytes(message.auth_bytes))
    except IllegalState as problem:
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, str(problem))
    except AuthenticationFailed as problem:
        await asyncio.sleep(login.rules.failure_delay_s)
        return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, str(problem))
    return SaslAuthenticateResponse(auth_bytes=said.message, session_lifetime_ms=said.lifetime_ms)


def _acks(frame: memoryview, version: int) -> int:
    """How many acknowledgements a Produce request wants, whatever its version."""
    _, at = buffer.nullable_string(frame, 8)
    if version >= _PRODUCE_FLEXIBLE:
        at = buffer.skip_tags(frame, at)
        size, at = buffer.unsigned_varint(frame, at)
        at += max(size - 1, 0)
    elif version >= 3:
        _, at = buffer.nullable_string(frame, at)
    try:
        acks: int = _ACKS.unpack_from(frame, at)[0]
    except struct.error:
        raise MalformedMessage("a Produce request is cut off") from None
    return acks
