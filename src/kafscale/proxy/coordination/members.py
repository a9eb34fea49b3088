"""Which proxies are there, and which of them serves which physical partition.

Here: rows in the ledger that are written again and again, and a choice that all proxies make alike
from them. It only says who *should* write. If two proxies differ for a moment, both may write, and
the upstream's log decides (partitions/partition.py).
"""

import asyncio
import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
import structlog

from kafscale.model.clock import Clock
from kafscale.model.endpoints import Endpoint
from kafscale.model.errors import KafscaleError
from kafscale.proxy.upstream.ledger import Ledger

logger = structlog.get_logger()

KEY: Final = b"proxy\0"
FIRST_NODE: Final = 1_000_000  # the node id of proxy 0; brokers of the upstream have smaller ones
BEAT_S: Final = 0.5
SILENT_S: Final = 2.0
LATELY_S: Final = 60.0


class ProxyRow(msgspec.Struct, frozen=True):
    """What a proxy says of itself."""

    host: str
    port: int
    beat: int
    listeners: dict[str, Endpoint] = {}


class Peer(NamedTuple):
    """A proxy that is there."""

    node: int
    host: str
    port: int
    listeners: Mapping[str, Endpoint] = MappingProxyType({})  # by name; none: it has only one

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where the clients of a listener find this proxy; None: it has no such listener."""
        if not listener or not self.listeners:
            return Endpoint(self.host, self.port)
        return self.listeners.get(listener)


class Members:
    """The proxies of an upstream, this one included."""

    def __init__(self, own_id: int, ledger: Ledger, clock: Clock) -> None:
        self.own_node = FIRST_NODE + own_id
        self._ledger = ledger
        self._clock = clock
        self._own: Peer | None = None
        self._heard: dict[int, tuple[Peer, float]] = {}
        self._beat = 0
        self._gone: dict[int, tuple[Peer, float]] = {}  # that left, and when they were last heard
        ledger.watch(KEY, self._hear)

    def _hear(self, key: bytes, value: bytes | None) -> None:
        node = int(key[len(KEY) :])
        if value is None:
            left = self._heard.pop(node, None)
            if left is not None:
                self._gone[node] = left
            return
        row = msgspec.json.decode(value, type=ProxyRow)
        own = self._own
        if own is not None and node == own.node and (row.host, row.port) != (own.host, own.port):
            logger.error("id_in_use", node=node, by=f"{row.host}:{row.port}")
        self._heard[node] = Peer(node, row.host, row.port, row.listeners), self._clock.elapsed_s()

    @property
    def alive(self) -> list[Peer]:
        """All proxies that were heard of lately, in the order of their numbers."""
        since_s = self._clock.elapsed_s() - SILENT_S
        others = [
            peer
            for node, (peer, heard_s) in self._heard.items()
            if heard_s >= since_s and node != self.own_node
        ]
        every = [*others, self._own] if self._own is not None else others
        return sorted(every, key=lambda peer: peer.node)

    def owner(self, topic_id: bytes, index: int) -> Peer | None:
        """The proxy that serves a physical partition; None if there is none."""
        return max(self.alive, key=lambda peer: _weight(peer.node, topic_id, index), default=None)

    def is_own(self, topic_id: bytes, index: int) -> bool:
        """Whether this proxy serves a physical partition."""
        owner = self.owner(topic_id, index)
        return owner is not None and owner.node == self.own_node

    def former_owner(self, topic_id: bytes, index: int) -> Peer | None:
        """The proxy that served a partition of this one lately and is gone; None: none did."""
        alive = self.alive
        since_s = self._clock.elapsed_s() - LATELY_S
        here = {peer.node for peer in alive}
        gone = [
            peer
            for peer, heard_s in (*self._gone.values(), *self._heard.values())
            if heard_s >= since_s and peer.node not in here and peer.node != self.own_node
        ]
        before = max([*alive, *gone], key=lambda peer: _weight(peer.node, topic_id, index))
        return before if before in gone else None

    async def join(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Begin to serve at these endpoints, by listener; that of an only listener has no name."""
        first = next(iter(endpoints.values()))
        named = {name: endpoint for name, endpoint in endpoints.items() if name}
        own = Peer(self.own_node, first.host, first.port, named)
        await self._say(own)
        self._own = own

    async def _say(self, own: Peer) -> None:
        self._beat += 1
        row = msgspec.json.encode(ProxyRow(own.host, own.port, self._beat, dict(own.listeners)))
        await self._ledger.write({KEY + str(self.own_node).encode(): row})

    async def keep_saying(self) -> None:
        """Say again and again that this proxy is there, until cancelled."""
        while True:
            await asyncio.sleep(BEAT_S)
            own = self._own
            if own is not None:
                try:
                    await self._say(own)
                except (KafscaleError, TimeoutError) as problem:
                    logger.info("beat_failed", reason=str(problem))

    async def leave(self) -> None:
        """Serve nothing any more; the others take over at once."""
        self._own = None
        await self._ledger.write({KEY + str(self.own_node).encode(): None})


def _weight(node: int, topic_id: bytes, index: int) -> bytes:
    return hashlib.blake2b(b"%d %b %d" % (node, topic_id, index), digest_size=8).digest()
