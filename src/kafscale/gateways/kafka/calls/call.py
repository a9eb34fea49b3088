"""What a handler gets and what it may give back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from kafscale.access.quotas import ClientLimits
from kafscale.engine.cluster.membership import Node
from kafscale.engine.engine import Engine
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.kafka.calls.fetch_sessions import FetchSessions
from kafscale.gateways.kafka.calls.login import Login
from kafscale.gateways.kafka.calls.request_order import Standing
from kafscale.gateways.kafka.calls.share_sessions import ShareSessions
from kafscale.gateways.workers import Workers, WorkQueue
from kafscale.model.endpoints import PLAINTEXT, Endpoint
from kafscale.model.errors import KafscaleError, OutcomeUnknown
from kafscale.model.security.access import (
    ANONYMOUS,
    AccessOperation,
    AllowAll,
    Authorizer,
    Principal,
    ResourceType,
)
from kafscale.model.security.audit import Audit, AuditEvent, NoAudit
from kafscale.model.tenancy import Tenancy
from kafscale.wire.kafka.schema import Message

_LEAST_S: Final = 1.0
_MOST_S: Final = 60.0

T = TypeVar("T")


class CloseConnection(Exception):
    """The protocol's way to refuse: no answer can be given, so the connection ends."""


@dataclass(slots=True)
class KafkaContext:
    """What all Kafka connections of a broker share."""

    engine: Engine
    fetch_sessions: FetchSessions
    longest_wait_s: float
    offered: tuple[tuple[int, range], ...]  # API keys and their versions
    client_log: ClientLog
    workers: Workers = field(default_factory=Workers)
    authorizer: Authorizer = field(default_factory=AllowAll)
    audit: Audit = field(default_factory=NoAudit)
    tenancy: Tenancy = field(default_factory=Tenancy)
    share_sessions: ShareSessions = field(default_factory=ShareSessions)


Place = tuple[int, int]  # of a record set: which topic of the request, which partition of that
CheckedSet = list[memoryview] | KafscaleError  # the batches to store, or why there are none

Amendment = Callable[[Any], None]  # takes the response of the API at hand


@dataclass(slots=True)
class ClientError:
    """What is wrong with a request, for the log: the first of its rows, and how many are alike."""

    detail: str
    is_bad: bool  # no correct client sends this
    count: int = 1
    denial: AuditEvent | None = None  # for the audit log, too


@dataclass(slots=True)
class Call:
    """One request on its way."""

    context: KafkaContext
    message: Any  # the request type of the API at hand
    version: int
    began_s: float  # by the engine's clock
    work: WorkQueue  # of the connection
    errors: dict[str, ClientError]  # what the client has done wrong, by reason
    peer: str = ""  # the client's address
    client_id: str = ""  # what the client calls itself
    listener: str = PLAINTEXT  # the name of the listener that the client came in by
    principal: Principal = ANONYMOUS
    login: Login | None = None  # of a listener with SASL
    checked: dict[Place, CheckedSet] | None = None  # record sets that were checked early
    refused: dict[Place, KafscaleError] | None = None  # batches that their transaction refuses
    is_long: bool = False  # has very many rows: it is worked on in pieces, see `each`
    until_s: float | None = None  # by the loop's clock; see `in_time`
    amendments: list[Amendment] | None = None  # of the answer, by what was not authorized
    limits: ClientLimits | None = None  # of the client's quotas, if there are any quotas
    throttle_s: float = 0.0  # how long the client must wait, by its quotas
    busy_s: float = 0.0  # of the event loop's time, where a quota limits it
    # How the client writes names of topics, by the names that these are kept under: in its fetch
    # sessions, and in this request if any name differs.
    spelled: dict[str, str] = field(default_factory=dict)
    # What is done when the connection has closed, by what it is for; of all requests.
    at_close: dict[object, Callable[[], None]] = field(default_factory=dict)
    spellings: dict[str, list[str]] | None = None

    @property
    def engine(self) -> Engine:
        """The engine this call is for."""
        return self.context.engine

    def each(self, rows: Iterable[T]) -> AsyncIterator[T]:
        """Give the rows one by one; other connections are served in between if it takes long."""
        return self.context.engine.turns.each(rows)

    def allows(self, operation: AccessOperation, kind: ResourceType, name: str) -> bool:
        """Whether the client may do this."""
        return self.context.authorizer.allows(self.principal, self.peer, operation, kind, name)

    def allows_any(self, operation: AccessOperation, kind: ResourceType) -> bool:
        """Whether the client may do this to some resource of the type."""
        return self.context.authorizer.allows_any(self.principal, self.peer, operation, kind)

    def amend(self, amendment: Amendment) -> None:
        """Change the handler's answer before it is sent."""
        if self.amendments is None:
            self.amendments = []
        self.amendments.append(amendment)

    def throttle(self, quota: str, seconds: float) -> None:
        """Let the client wait for so long after the answer; the longest of its waits counts."""
        if seconds > 0:
            self.context.engine.metrics.throttled(quota, seconds)
            self.throttle_s = max(self.throttle_s, seconds)

    def reachable(self, nodes: Iterable[Node]) -> Iterator[tuple[Node, Endpoint]]:
        """The brokers that have the client's listener, and where; others are left out."""
        for node in nodes:
            endpoint = node.endpoints.get(self.listener)
            if endpoint is not None:
                yield node, endpoint


def api_name(message: Message) -> str:
    """The name of the API whose request this is."""
    return type(message).__name__.removesuffix("Request")


async def in_time(call: Call, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    """Wait for work that changes topics, up to a limit: the store may be down.

    The limit is that of the whole request. Work that comes after it does not begin.
    """
    now_s = asyncio.get_running_loop().time()
    if call.until_s is None:
        call.until_s = now_s + min(max(timeout_s, _LEAST_S), _MOST_S)
    if now_s >= call.until_s:
        work.close()
        raise OutcomeUnknown("the store has not answered in time; this was not begun")
    try:
        async with asyncio.timeout_at(call.until_s):
            return await work
    except TimeoutError:
        raise OutcomeUnknown("the store has not answered in time; it may still happen") from None


class Deferred:
    """An answer that will be given by a callback: cheaper than a task for the busiest path."""

    __slots__ = ("_answer", "_given", "_then")

    def __init__(self) -> None:
        self._given = False
        self._answer: Message | None = None
        self._then: Callable[[Message | None], None] | None = None

    @property
    def is_given(self) -> bool:
        """Whether the answer is there."""
        return self._given

    def give(self, answer: Message | None) -> None:
        """Answer, once."""
        self._given, self._answer = True, answer
        if self._then is not None:
            self._then(answer)

    def then(self, take: Callable[[Message | None], None]) -> None:
        """Hand the answer to `take` as soon as it is there."""
        self._then = take
        if self._given:
            take(self._answer)


# A response, None where the protocol wants none, or either of them later.
Answer = Message | None | Deferred | Awaitable[Message | None]


class Requirement(Protocol):
    """One thing that a request must be authorized for."""

    def check(self, call: Call) -> Message | None:
        """Take out what is denied; gives the answer if the request is denied as a whole."""
        ...


class Handler(Protocol):
    """A module of the apis folder: everything the router knows of an API."""

    @property
    def API_KEY(self) -> int:  # noqa: N802 - modules spell their constants so
        """Its number."""
        ...

    @property
    def VERSIONS(self) -> range:  # noqa: N802
        """What it understands."""
        ...

    @property
    def ORDER(self) -> Standing:  # noqa: N802
        """Which earlier requests of the connection its requests wait for."""
        ...

    @property
    def REQUIREMENTS(self) -> tuple[Requirement, ...]:  # noqa: N802
        """What its requests must be authorized for; an empty tuple asks for nothing."""
        ...

    def answer(self, call: Call) -> Answer:
        """Begin to answer, in the order requests came; slow work is returned as an awaitable."""
        ...
