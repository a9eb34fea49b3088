"""One connection to a broker of the upstream: requests out, answers in, in order.

Here: framing (that of the doors, used from the other side), numbers of requests, logging in, which
versions both sides know. Next door: which broker to ask (cluster.py), how a proxy proves who it is
(login.py).
"""

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeVar, cast

from kafscale.gateways.connection import Connection, ConnectionOwner
from kafscale.model.buffers import Buffer
from kafscale.model.errors import KafscaleError
from kafscale.model.metrics.meters import Counter
from kafscale.proxy.upstream.login import Secrets, log_in
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafscale.wire.kafka.schema import Message

M = TypeVar("M", bound=Message)

CLIENT_ID: Final = "kafscale-proxy"
_CORRELATION: Final = struct.Struct(">i")
_REQUEST_CORRELATION_AT: Final = 4
_LENGTH: Final = struct.Struct(">i")
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 30.0
_MOST_NUMBER: Final = 1 << 31


class UpstreamLost(KafscaleError):
    """The connection to the upstream broke; what was asked may have been done, or not."""


class UpstreamAddress(NamedTuple):
    """Where a broker of the upstream listens."""

    host: str
    port: int


class LinkCounts(NamedTuple):
    """What is counted of all connections to the upstream."""

    sent_bytes: Counter = Counter("")
    received_bytes: Counter = Counter("")
    failures: Counter = Counter("")


class Dialling(NamedTuple):
    """What every connection to the upstream needs."""

    owner: ConnectionOwner
    tls: ssl.SSLContext | None = None
    secrets: Secrets | None = None
    counts: LinkCounts = LinkCounts()


class AnswerTaker(Protocol):
    """Who passes a large answer on while it arrives."""

    def begins(self, size: int) -> bool:
        """Whether the answer of this size is passed on in pieces. Else it is received whole."""
        ...

    def piece(self, data: memoryview) -> None:
        """Take bytes of the answer, which follow its number. The memory is used again."""
        ...


class _Awaited(NamedTuple):
    number: int
    answer: "asyncio.Future[memoryview]"
    taker: AnswerTaker | None


class Link:
    """Implements gateways.connection.Session and PieceTaker for one upstream broker's answers."""

    writes = False

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._waiting: deque[_Awaited] = deque()
        self._arriving: _Awaited | None = None  # its answer is passed on in pieces
        self._size = self._left = 0  # of that answer, and how much of it is to come
        self._number = 0
        self._counts = LinkCounts()
        self.is_open = False
        self.offered = ApiVersionsResponse()
        self.versions: dict[int, range] = {}

    # -- life ---------------------------------------------------------------------------------

    async def open(self, address: UpstreamAddress, dialling: Dialling) -> "Link":
        """Connect and log in. Raises UpstreamLost."""

        def make(connection: Connection) -> "Link":
            self._connection = connection
            connection.may_be_silent = True
            connection.pieces = self
            return self

        loop = asyncio.get_running_loop()
        self._counts = dialling.counts
        try:
            async with asyncio.timeout(_CONNECT_S):
                await loop.create_connection(
                    lambda: Connection(dialling.owner, "upstream", make),
                    address.host,
                    address.port,
                    ssl=dialling.tls,
                    server_hostname=address.host if dialling.tls else None,
                )
                self.is_open = self._connection is not None
                if dialling.secrets is not None:
                    await log_in(self, dialling.secrets)
                await self._ask_versions()
        except (OSError, TimeoutError) as problem:
            self._counts.failures.inc()
            self.close()
            raise UpstreamLost(f"{address.host}:{address.port}: {problem or 'no answer'}") from None
        except BaseException:
            self.close()
            raise
        return self

    async def _ask_versions(self) -> None:
        asked = ApiVersionsRequest("kafscale-proxy", "1")
        self.offered = await self.ask(asked, ApiVersionsResponse, 3)
        if self.offered.error_code:
            self.offered = await self.ask(asked, ApiVersionsResponse, 0)
        self.versions = {
            one.api_key: range(one.min_version, one.max_version + 1)
            for one in self.offered.api_keys
        }

    def close(self) -> None:
        """End the connection."""
        self.is_open = False
        if self._connection is not None:
            self._connection.finish()
        self._fail()

    # -- asking -------------------------------------------------------------------------------

    def version_of(self, kind: type[Message], most: int = 99) -> int:
        """The newest version of a request that both sides know. Raises UpstreamLost if none."""
        theirs = self.versions.get(kind.api_key, range(0))
        both = [one for one in kind.versions if one in theirs and one <= most]
        if not both:
            raise UpstreamLost(f"the upstream does not offer {kind.__name__}")
        return both[-1]

    async def ask(self, request: Message, kind: type[M], version: int | None = None) -> M:
        """Send a request and give its answer. Raises UpstreamLost, TimeoutError."""
        chosen = self.version_of(type(request)) if version is None else version
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await self.send(frame.request_frame(0, request, chosen, CLIENT_ID))
        except TimeoutError:  # answers come in order: nothing else would be answered either
            self.close()
            raise
        return frame.read_response(answer, kind, chosen)[1]

    def begin(self) -> None:
        """See Session: answers are taken when they arrive."""

    def writable(self) -> None:
        """See Session."""

    def send(
        self, buffers: Sequence[Buffer], taker: AnswerTaker | None = None
    ) -> "asyncio.Future[memoryview]":
        """Send a framed request; gives its answer's frame. The number in it is overwritten.

        An answer that the taker takes in pieces is empty here, and done when the last one is there.
        """
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        if not self.is_open or self._connection is None:
            answer.set_exception(UpstreamLost("the connection to the upstream is closed"))
            return answer
        self._number = (self._number + 1) % _MOST_NUMBER
        first = cast(bytearray, buffers[0])
        _CORRELATION.pack_into(first, _LENGTH.size + _REQUEST_CORRELATION_AT, self._number)
        self._waiting.append(_Awaited(self._number, answer, taker))
        self._counts.sent_bytes.inc(sum(map(len, buffers)))
        self._connection.send(buffers)
        return answer

    def forward(
        self, request: memoryview, taker: AnswerTaker | None = None
    ) -> "asyncio.Future[memoryview]":
        """Send a client's request as it is, save its number; gives the answer's frame: see send."""
        head = bytearray(_LENGTH.size + 8)
        _LENGTH.pack_into(head, 0, len(request))
        head[_LENGTH.size :] = request[:8]
        return self.send([head, request[8:]], taker)

    def forward_quietly(self, request: memoryview) -> None:
        """Send a client's request that has no answer."""
        self.send_quietly([_LENGTH.pack(len(request)), request])

    def send_quietly(self, buffers: Sequence[Buffer]) -> None:
        """Send a framed request that has no answer."""
        if self.is_open and self._connection is not None:
            self._counts.sent_bytes.inc(sum(map(len, buffers)))
            self._connection.send(buffers)

    # -- answers ------------------------------------------------------------------------------

    def receive(self, answer: memoryview) -> None:
        """Give an answer to the one who waits for it."""
        self._counts.received_bytes.inc(len(answer))
        if self._connection is not None:
            self._connection.release(len(answer))  # it is held for the client that asked
        if len(answer) < _CORRELATION.size or not self._waiting:
            self._broken("an answer that nothing asked for")
            return
        number, waiting, _ = self._waiting.popleft()
        if _CORRELATION.unpack_from(answer)[0] != number:
            waiting.cancel()
            self._broken("answers in another order than the requests")
        elif not waiting.done():
            waiting.set_result(answer)

    def takes(self, head: memoryview, size: int) -> bool:
        """See PieceTaker."""
        if len(head) < _CORRELATION.size or not self._waiting:
            return False
        first = self._waiting[0]
        is_first = _CORRELATION.unpack_from(head)[0] == first.number
        if not is_first or first.taker is None or not first.taker.begins(size):
            return False
        self._arriving = self._waiting.popleft()
        self._size = self._left = size
        self._counts.received_bytes.inc(size)
        return True

    def piece(self, data: memoryview) -> None:
        """See PieceTaker."""
        arriving = self._arriving
        assert arriving is not None
        assert arriving.taker is not None
        number_left = max(0, self._left - self._size + _CORRELATION.size)
        self._left -= len(data)
        arriving.taker.piece(data[number_left:])
        if not self._left:
            self._arriving = None
            if not arriving.answer.done():
                arriving.answer.set_result(memoryview(b""))

    def hold_back(self) -> None:
        """Read nothing more until `go_on`: the client does not take what it gets."""
        if self._connection is not None:
            self._connection.fall_behind()

    def go_on(self) -> None:
        """Read again."""
        if self._connection is not None:
            self._connection.catch_up()

    def _broken(self, why: str) -> None:
        self.is_open = False
        if self._connection is not None:
            self._connection.abort("upstream", why)

    def closed(self) -> None:
        """Tell all that wait."""
        if self.is_open:
            self._counts.failures.inc()
        self.is_open = False
        self._fail()

    def _fail(self) -> None:
        if self._arriving is not None:
            self._waiting.appendleft(self._arriving)
            self._arriving = None
        while self._waiting:
            waiting = self._waiting.popleft().answer
            if not waiting.done():
                waiting.set_exception(UpstreamLost("the connection to the upstream broke"))
                waiting.exception()  # it may be that nothing waits any more


def number_of(request: memoryview) -> int:
    """The number that a client gave to its request."""
    number: int = _CORRELATION.unpack_from(request, _REQUEST_CORRELATION_AT)[0]
    return number


def renumbered(answer: memoryview, number: int) -> list[Buffer]:
    """An upstream's answer as a frame for the client that gave its request this number."""
    return [head_of(len(answer), number), answer[_CORRELATION.size :]]


def head_of(size: int, number: int) -> bytes:
    """What a client gets before the bytes of an answer: its size, and the number of its request."""
    return _LENGTH.pack(size) + _CORRELATION.pack(number)
