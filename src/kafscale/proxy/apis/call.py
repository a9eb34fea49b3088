"""A request that the proxy answers itself, or passes on with changes."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from kafscale.model.endpoints import Endpoint
from kafscale.proxy.context import ProxyContext
from kafscale.proxy.upstream.link import Link
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.header import RequestHeader
from kafscale.wire.kafka.schema import Message

M = TypeVar("M", bound=Message)

# What a handler gives: the answer, or work that ends in it while later requests begin. None: the
# client wants no answer.
ProxyAnswer = Message | None | Coroutine[Any, Any, Message | None]


class ProxyCall(NamedTuple):
    """One request of a client."""

    context: ProxyContext
    request: RequestHeader
    message: Any
    node: int | None  # the upstream broker whose place the proxy takes; None: its own
    link: Callable[[], Awaitable[Link]]  # the connection to the upstream of this client alone
    listener: str = ""  # that the client came in by

    @property
    def doors(self) -> dict[int, Endpoint]:
        """Where this client finds the upstream's brokers."""
        return self.context.doors.get(self.listener, {})

    def peers(self) -> list[tuple[int, Endpoint]]:
        """The proxies that have the client's listener, and where it is."""
        found = ((peer.node, peer.endpoint(self.listener)) for peer in self.context.members.alive)
        return [(node, endpoint) for node, endpoint in found if endpoint is not None]

    @property
    def version(self) -> int:
        """Of the request, and of its answer."""
        return self.request.version

    async def ask(self, message: Message, kind: type[M]) -> M:
        """Ask the upstream in the client's place, in the same version. Raises UpstreamLost."""
        link = await self.link()
        sent = frame.request_frame(0, message, self.version, self.request.client_id)
        return frame.read_response(await link.send(sent), kind, self.version)[1]
