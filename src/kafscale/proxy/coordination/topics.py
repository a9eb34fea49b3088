"""Which topics are mapped, and how: written down when a proxy first sees them.

Here: from the configuration's ratio to the partitions of a topic that exists. The upstream has P
partitions, clients see P times the ratio. Both numbers are written to the ledger together with the
topic's id: a configuration that changes later, or partitions that someone adds upstream, must not
move records from one virtual partition to another.
Next door: the configuration (proxy/settings.py), the arithmetic (virtual/arithmetic.py).
"""

from typing import Final, NamedTuple

import msgspec

from kafscale.model.errors import KafscaleError
from kafscale.proxy.state.tags import MOST_LANES
from kafscale.proxy.upstream.cluster import Upstream, UpstreamTopic
from kafscale.proxy.upstream.ledger import Ledger
from kafscale.virtual.arithmetic import VirtualPlace, place_of
from kafscale.virtual.rules import LayoutRules
from kafscale.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

KEY: Final = b"topic\0"
WANTED_KEY: Final = b"wanted\0"
_TOPIC: Final = 2  # as Kafka numbers kinds of resources


class Unmappable(KafscaleError):
    """The topic should be mapped and cannot be; the text says why."""


class TopicPin(msgspec.Struct, frozen=True):
    """What the ledger says of a topic."""

    topic_id: str
    virtual: int
    physical: int


class MappedTopic(NamedTuple):
    """A topic whose partitions are virtual."""

    name: str
    topic_id: bytes
    virtual: int
    physical: int

    @property
    def lanes(self) -> int:
        """How many virtual partitions share a physical one, at most."""
        return -(-self.virtual // self.physical)

    def place(self, partition: int) -> VirtualPlace:
        """Where a virtual partition lies, which must exist."""
        return place_of(partition, self.physical)

    def has(self, partition: int) -> bool:
        """Whether there is such a virtual partition."""
        return 0 <= partition < self.virtual


class TopicMap:
    """The mapped topics of an upstream."""

    def __init__(self, rules: LayoutRules, upstream: Upstream, ledger: Ledger) -> None:
        self._rules = rules
        self._upstream = upstream
        self._ledger = ledger
        self._known: dict[str, MappedTopic] = {}
        ledger.watch(KEY, self._hear)

    def _hear(self, key: bytes, value: bytes | None) -> None:
        self._known.pop(key[len(KEY) :].decode(), None)

    def ratio(self, name: str) -> int:
        """How many virtual partitions share a physical one of a topic with this name; 1: none."""
        if name.startswith("__"):
            return 1
        layout = self._rules.layout_of(name)
        if layout.virtual_partitions is None or layout.physical_partitions is None:
            return 1
        return layout.virtual_partitions // layout.physical_partitions

    def physical_default(self, name: str) -> int:
        """How many physical partitions a new topic gets if its creator names no number."""
        return self._rules.layout_of(name).physical_partitions or 1

    def is_mapped(self, name: str) -> bool:
        """Whether a topic with this name has virtual partitions."""
        return self.ratio(name) > 1 or KEY + name.encode() in self._ledger.rows

    async def find(self, name: str) -> MappedTopic | None:
        """The mapped topic of this name; None if there is none. Raises Unmappable."""
        if not self.is_mapped(name):
            return None
        facts = self._upstream.topics.get(name) or await self._upstream.topic(name)
        if facts is None:
            return None
        known = self._known.get(name)
        if known is None or known.topic_id != facts.topic_id:
            known = self._known[name] = await self._pinned(facts)
        if known.physical != len(facts.leaders):
            raise Unmappable(
                f"{name} has {len(facts.leaders)} physical partitions now, and had "
                f"{known.physical} when it was mapped"
            )
        return known

    def known_id(self, name: str) -> str | None:
        """The id of the topic that a name stood for when it was mapped."""
        row = self._ledger.rows.get(KEY + name.encode())
        return None if row is None else msgspec.json.decode(row, type=TopicPin).topic_id

    def pin_of(self, name: str, topic_id: bytes) -> TopicPin | None:
        """What the ledger says of this very topic."""
        row = self._ledger.rows.get(KEY + name.encode())
        pin = None if row is None else msgspec.json.decode(row, type=TopicPin)
        return pin if pin is not None and pin.topic_id == topic_id.hex() else None

    async def _pinned(self, facts: UpstreamTopic) -> MappedTopic:
        pin = self.pin_of(facts.name, facts.topic_id)
        if pin is None:
            await self._ledger.sync()
            pin = self.pin_of(facts.name, facts.topic_id)
        if pin is None:
            await self._check(facts.name)
            physical = len(facts.leaders)
            pin = TopicPin(facts.topic_id.hex(), self._virtual(facts.name, physical), physical)
            await self.write(facts.name, pin)
        return MappedTopic(facts.name, facts.topic_id, pin.virtual, pin.physical)

    def _virtual(self, name: str, physical: int) -> int:
        """What the topic's creator wanted, else as many as the ratio says."""
        ratio = self.ratio(name)
        wanted = int(self._ledger.rows.get(WANTED_KEY + name.encode(), b"0"))
        return wanted if -(-wanted // ratio) == physical else physical * ratio

    async def want(self, name: str, virtual: int) -> None:
        """Note how many virtual partitions a topic gets that is about to be created."""
        await self._ledger.write({WANTED_KEY + name.encode(): str(virtual).encode()})

    async def write(self, name: str, pin: TopicPin) -> None:
        """Write down how a topic is mapped."""
        if -(-pin.virtual // pin.physical) > MOST_LANES:
            raise Unmappable(f"{name}: more than {MOST_LANES} virtual partitions share one")
        rows = {KEY + name.encode(): msgspec.json.encode(pin), WANTED_KEY + name.encode(): None}
        await self._ledger.write(rows)

    async def _check(self, name: str) -> None:
        """Refuse a compacted topic: keys of different virtual partitions would meet in it."""
        link = await self._upstream.link(None, "metadata")
        resource = DescribeConfigsResource(_TOPIC, name, ["cleanup.policy"])
        answer = await link.ask(DescribeConfigsRequest([resource]), DescribeConfigsResponse)
        for row in answer.results:
            for config in row.configs:
                if config.name == "cleanup.policy" and "compact" in (config.value or ""):
                    raise Unmappable(f"{name} is compacted, and its virtual partitions share keys")
