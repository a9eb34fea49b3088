"""The upstream cluster: its brokers, its topics, and connections to them that many share.

Here: what Metadata says, kept until something shows that it is old; connections by broker and
purpose. A connection serves one request at a time at the other end, so what may take long has a
connection of its own.
Next door: one connection (link.py), reading and writing (fetching.py, appending.py).
"""

import asyncio
import base64
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafscale.model.clock import Dice
from kafscale.model.errors import KafscaleError
from kafscale.proxy.upstream.link import Dialling, Link, UpstreamAddress, UpstreamLost
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafscale.wire.kafka.schema import NO_UUID

_NONCE_BYTES: Final = 18
_REFRESH_PAUSE_S: Final = 0.05


class UpstreamRefused(KafscaleError):
    """The upstream answered with an error."""

    def __init__(self, code: int, what: str) -> None:
        self.code = code
        name = ErrorCode(code).name if code in set(ErrorCode) else str(code)
        super().__init__(f"{what}: {name}")


class Leader(NamedTuple):
    """Which broker leads a partition."""

    node: int
    epoch: int


class UpstreamTopic(NamedTuple):
    """What the upstream says of a topic."""

    name: str
    topic_id: bytes
    is_internal: bool
    leaders: tuple[Leader, ...]


class Upstream:
    """The cluster behind the proxy."""

    def __init__(
        self, bootstrap: Sequence[UpstreamAddress], dialling: Dialling, dice: Dice
    ) -> None:
        self._bootstrap = list(bootstrap)
        self._dialling = dialling
        self._dice = dice
        self.nodes: dict[int, UpstreamAddress] = {}
        self.topics: dict[str, UpstreamTopic] = {}
        self._shared: dict[tuple[int, str], Link] = {}
        self._opening: dict[tuple[int, str], asyncio.Lock] = {}
        self._refreshing = asyncio.Lock()
        self._silent: set[UpstreamAddress] = set()  # the last try was in vain: others come first

    # -- connections --------------------------------------------------------------------------

    def _fresh(self) -> Dialling:
        secrets = self._dialling.secrets
        if secrets is None:
            return self._dialling
        nonce = base64.urlsafe_b64encode(self._dice.token(_NONCE_BYTES)).decode()
        return self._dialling._replace(secrets=secrets._replace(nonce=nonce))

    async def dial(self, node: int | None) -> Link:
        """A new connection to a broker; None: to any. Raises UpstreamLost."""
        if node is not None:
            address = self.nodes.get(node)
            if address is None:
                raise UpstreamLost(f"the upstream has no broker {node}")
            return await Link().open(address, self._fresh())
        problem: UpstreamLost | None = None
        known = dict.fromkeys((*self.nodes.values(), *self._bootstrap))
        for address in sorted(known, key=lambda one: one in self._silent):
            try:
                link = await Link().open(address, self._fresh())
            except UpstreamLost as lost:
                self._silent.add(address)
                problem = lost
            else:
                self._silent.discard(address)
                return link
        raise problem or UpstreamLost("the upstream has no address")

    async def link(self, node: int | None, purpose: str) -> Link:
        """A connection that all of one purpose share."""
        key = (-1 if node is None else node, purpose)
        found = self._shared.get(key)
        if found is not None and found.is_open:
            return found
        async with self._opening.setdefault(key, asyncio.Lock()):
            found = self._shared.get(key)
            if found is None or not found.is_open:
                found = self._shared[key] = await self.dial(node)
        return found

    def close(self) -> None:
        """End all shared connections."""
        for link in self._shared.values():
            link.close()

    # -- metadata -----------------------------------------------------------------------------

    async def refresh(self, *names: str) -> None:
        """Ask which brokers there are, and about topics. Raises UpstreamLost, TimeoutError."""
        async with self._refreshing:
            link = await self.link(None, "metadata")
            topics = [MetadataRequestTopic(name=name) for name in names]
            request = MetadataRequest(topics, allow_auto_topic_creation=False)
            self.learn(await link.ask(request, MetadataResponse))

    def learn(self, answer: MetadataResponse) -> None:
        """Take what a Metadata answer of the upstream says."""
        if answer.brokers:
            self.nodes = {
                one.node_id: UpstreamAddress(one.host, one.port) for one in answer.brokers
            }
        for topic in answer.topics:
            if topic.name is None:
                continue
            if topic.error_code in _GONE:
                self.topics.pop(topic.name, None)
            elif not topic.error_code and topic.topic_id != NO_UUID:  # old versions have no ids
                self.topics[topic.name] = _facts(topic.name, topic)

    async def topic(self, name: str) -> UpstreamTopic | None:
        """What the upstream says of a topic; None: there is none."""
        if name not in self.topics:
            await self.refresh(name)
        return self.topics.get(name)

    async def leader(self, topic: str, partition: int) -> Leader:
        """Which broker leads a partition. Raises UpstreamLost if none does."""
        facts = await self.topic(topic)
        if facts is None or partition >= len(facts.leaders):
            raise UpstreamRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        leader = facts.leaders[partition]
        if leader.node < 0 or leader.node not in self.nodes:
            await asyncio.sleep(_REFRESH_PAUSE_S)
            await self.refresh(topic)
            raise UpstreamLost(f"{topic}-{partition} has no leader")
        return leader

    def known_leader(self, topic: str, partition: int) -> Leader | None:
        """Which broker led a partition when the upstream was last asked; None: none did."""
        facts = self.topics.get(topic)
        if facts is None or partition >= len(facts.leaders):
            return None
        leader = facts.leaders[partition]
        return leader if leader.node in self.nodes else None

    def epoch(self, topic: str, partition: int) -> int:
        """The leader epoch of a partition, as far as it is known."""
        facts = self.topics.get(topic)
        if facts is None or partition >= len(facts.leaders):
            return -1
        return facts.leaders[partition].epoch


_GONE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)


def _facts(name: str, topic: MetadataResponseTopic) -> UpstreamTopic:
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    leaders = tuple(Leader(row.leader_id, row.leader_epoch) for row in rows)
    return UpstreamTopic(name, bytes(topic.topic_id), topic.is_internal, leaders)
