"""One Fluvio connection: its requests begin in their order, and answers come when they are there.

Here: the queue of frames that have not begun, and what both ports have in common. A request's
answer carries its number, so that no answer waits for another one. A request that must be prepared
(its log opened, its records unpacked) holds up the requests behind it on the same connection. What
waits longer (a commit, a stream) does not.
No connection keeps the event loop for long: after a piece of its time others have their turn.
Next door: the two ports (control/session.py, data/session.py), the bytes of a connection
(gateways/connection.py).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import structlog

from kafscale.access.quotas import QuotaKey
from kafscale.gateways.byte_quota import charge_bytes
from kafscale.gateways.client_mistakes import Blame, blame_of, reason_of
from kafscale.gateways.connection import Connection
from kafscale.gateways.fluvio.context import FluvioContext
from kafscale.gateways.fluvio.errors import words_of
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.model.security.audit import DENIED, AuditEvent, AuditKind
from kafscale.tasks import Tasks
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.fluvio.frame import FluvioRequest, read_request, response_frame
from kafscale.wire.fluvio.messages import api_versions
from kafscale.wire.fluvio.messages.api_versions import ApiVersionKey, ApiVersionsResponse
from kafscale.wire.fluvio.schema import FluvioTable

logger = structlog.get_logger()

_QUEUED_BYTES: Final = 512  # what a request takes beside its bytes
_MOST_UNDER_WAY: Final = 1000
_MOST_NAME: Final = 100  # characters of a name that a client chose

# What a request leaves under way: its bytes are held until that is done.
UnderWay = asyncio.Future[Any] | None


class FluvioApi(NamedTuple):
    """An API of one of the ports: its name, the versions it is read in, and what answers it."""

    name: str
    versions: range
    answer: Callable[[Any, FluvioRequest, memoryview], Awaitable[UnderWay]]


class FluvioSession:
    """Implements gateways.connection.Session, without the APIs of a port."""

    apis: Mapping[int, FluvioApi] = {}
    platform_version = ""

    def __init__(self, connection: Connection, context: FluvioContext, tasks: Tasks) -> None:
        """Speak Fluvio on `connection`."""
        self.connection = connection
        self.context = context
        self.engine = context.engine
        self.tasks = tasks
        self.is_closed = False
        self.writes = False
        self._frames: deque[memoryview] = deque()
        self._work: asyncio.Task[None] | None = None
        self._under_way = 0  # requests that have begun and are not answered

    # -- called by the connection ------------------------------------------------------------

    def receive(self, frame: memoryview) -> None:
        """Queue a frame."""
        self.connection.hold(_QUEUED_BYTES)
        self._frames.append(frame)

    def begin(self) -> None:
        """Begin what can be begun."""
        if self._work is None and self._may_go_on():
            self._work = self.tasks.spawn(self._begin_requests(), "fluvio requests")

    def writable(self) -> None:
        """Go on after the client has read some answers."""
        self.begin()

    def closed(self) -> None:
        """Drop the requests that have not begun."""
        self.is_closed = True
        self._frames.clear()

    # -- requests ----------------------------------------------------------------------------

    async def _begin_requests(self) -> None:
        turns = self.engine.turns
        end_s = turns.piece_end_s()
        try:
            while self._may_go_on():
                if turns.is_over(end_s):
                    await turns.next()
                    end_s = turns.piece_end_s()
                    continue  # the client may have gone meanwhile
                await self._begin(self._frames.popleft())
        except MalformedMessage as problem:
            self.end("malformed_request", str(problem))
        finally:
            self._work = None

    def _may_go_on(self) -> bool:
        """Whether another request may begin; answers that the client does not read hold it up."""
        is_full = self.connection.is_write_blocked or self._under_way >= _MOST_UNDER_WAY
        return bool(self._frames) and not is_full

    async def _begin(self, frame: memoryview) -> None:
        request = read_request(frame)
        api = self.apis.get(request.api_key)
        if api is None:
            self.end("unsupported_api", f"API {request.api_key} is not offered")
            return
        if request.version not in api.versions:
            self.end("unsupported_version", f"version {request.version} of {api.name}")
            return
        self.connection.may_be_silent = True  # the protocol has no heartbeats
        self.engine.metrics.requests.labels(f"Fluvio{api.name}").inc()
        size = len(frame) + _QUEUED_BYTES
        under_way: UnderWay = None
        try:
            under_way = await api.answer(self, request, frame)
        finally:
            if under_way is None:
                self.connection.release(size)
            else:
                self._under_way += 1
                under_way.add_done_callback(lambda _: self._finish(size))

    def _finish(self, size: int) -> None:
        """What a request has left under way is done."""
        self._under_way -= 1
        self.connection.release(size)
        self.begin()

    def end(self, reason: str, detail: str) -> None:
        """End the connection: the protocol has no error for a request that cannot be read."""
        self.connection.abort(reason, detail[:_MOST_NAME])

    # -- for the APIs ------------------------------------------------------------------------

    def send(self, request: FluvioRequest, message: FluvioTable) -> None:
        """Answer a request, or a stream once more."""
        self.connection.send(response_frame(request.correlation_id, message, request.version))

    def may(self, operation: AccessOperation, kind: ResourceType, name: str) -> bool:
        """Whether the client may do this."""
        authorizer, connection = self.context.authorizer, self.connection
        return authorizer.allows_all or authorizer.allows(
            connection.principal, connection.peer, operation, kind, name
        )

    def allows(
        self, request: FluvioRequest, operation: AccessOperation, kind: ResourceType, name: str
    ) -> bool:
        """Whether the client may do this; the audit log hears of it if not."""
        if self.may(operation, kind, name):
            return True
        self.engine.metrics.client_errors.labels("denied").inc()
        self.audit(AuditKind.DENIED, DENIED, request, operation, kind, name)
        return False

    def audit(
        self,
        event: AuditKind,
        outcome: str,
        request: FluvioRequest,
        operation: AccessOperation,
        kind: ResourceType,
        name: str,
        detail: str = "",
    ) -> None:
        """Write a line of who did what, or was kept from it."""
        connection = self.connection
        self.context.audit.write(
            AuditEvent(
                event,
                outcome,
                str(connection.principal),
                connection.peer,
                operation.name,
                kind.name,
                (name,),
                client_id=request.client_id,
                api=f"Fluvio{self.apis[request.api_key].name}",
                listener=connection.listener,
                detail=detail,
            )
        )

    def charge(self, request: FluvioRequest, key: QuotaKey, size: int) -> None:
        """Charge a quota of bytes. A client that is over it is not read from for a while."""
        charge_bytes(self.engine, self.connection, request.client_id, key, size)

    def note_refusal(self, request: FluvioRequest, problem: KafscaleError) -> None:
        """Count and log an error that a client is told, if the client caused it."""
        blame = blame_of(problem)
        if blame is Blame.NONE:
            return
        reason, peer = reason_of(type(problem)), self.connection.peer
        metrics = self.engine.metrics
        facts = {
            "listener": self.connection.listener,
            "client": request.client_id[:_MOST_NAME],
            "api": self.apis[request.api_key].name,
            "version": request.version,
            "detail": words_of(problem),
        }
        if blame is Blame.BAD:
            metrics.bad_requests.labels(reason).inc()
            self.context.client_log.write("bad_request", peer, reason, **facts)
        else:
            metrics.client_errors.labels(reason).inc()
            logger.debug("client_error", peer=peer, reason=reason, **facts)

    async def answer_api_versions(self, request: FluvioRequest, frame: memoryview) -> None:
        """Say which APIs there are; a client takes the newest version that both know."""
        keys = [
            ApiVersionKey(key, api.versions[0], api.versions[-1])
            for key, api in self.apis.items()
            if key != api_versions.API_KEY
        ]
        self.send(
            request, ApiVersionsResponse(api_keys=keys, platform_version=self.platform_version)
        )
