"""The cluster as Fluvio's clients see it: topics, partitions and SPUs.

Here: the objects made from topics and brokers, when they are made again, and what differs between
two of these views. All control connections share one view. It is made in pieces of the loop's time,
at the first question after a change.
Next door: the objects' bytes (wire/fluvio/messages/objects.py), the connections that send them
(session.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from kafscale.engine.engine import Engine
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.fluvio.context import OFFSETS_TOPIC
from kafscale.gateways.fluvio.listener_names import DATA_LISTENER, TLS_PROTOCOL
from kafscale.wire.fluvio.messages.objects import (
    PARTITION,
    PARTITION_LEADER_OFFLINE,
    PARTITION_ONLINE,
    SPU,
    TOPIC,
    Computed,
    HostEndpoint,
    Ingress,
    PartitionObject,
    PublicEndpoint,
    ReplicaStatus,
    Segment,
    SpuObject,
    Storage,
    TopicObject,
    TopicSpec,
    TopicStatus,
)
from kafscale.wire.fluvio.schema import FluvioTable, encode

LABELS: Final = (SPU, PARTITION, TOPIC)
_LARGEST_U32: Final = 0xFFFF_FFFF
_MOST_ENTRIES: Final = 0xFFFF  # of a map
_NO_BROKER: Final = -1

Objects = Mapping[str, FluvioTable]  # by name


def topic_of(label: str, name: str) -> str | None:
    """The topic that an object is about; None for an SPU."""
    if label == TOPIC:
        return name
    return name.rpartition("-")[0] if label == PARTITION else None


class ClusterView:
    """All objects at one moment. It never changes; a change of the cluster makes another one."""

    def __init__(self, epoch: int, objects: Mapping[str, Objects]) -> None:
        """`epoch` rises with every view; `objects`: by label."""
        self.epoch = epoch
        self.objects = objects
        self.written: dict[tuple[str, int], dict[str, bytes]] = {}

    def write(self, label: str, name: str, version: int) -> bytes:
        """An object's bytes, kept for all connections that want them."""
        written = self.written.setdefault((label, version), {})
        found = written.get(name)
        if found is None:
            row = self.objects[label][name]
            found = written[name] = b"".join(bytes(one) for one in encode(row, version))
        return found

    def take_written(self, before: "ClusterView") -> None:
        """Take over the bytes of objects that are the same as before."""
        for (label, version), written in before.written.items():
            now, then = self.objects[label], before.objects[label]
            self.written[label, version] = {
                name: kept for name, kept in written.items() if now.get(name) == then[name]
            }


class Views:
    """Makes views, and tells connections when there may be another one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changes = 1  # how often something has changed
        self._changes_seen = 0  # by the newest view
        self._newest = ClusterView(0, {label: {} for label in LABELS})
        self._making = asyncio.Lock()
        self._watchers: dict[Callable[[], None], None] = {}
        engine.watch_cluster(self._note_change)

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have `wake` called when there may be another view; gives the function that ends it."""
        self._watchers[wake] = None
        return lambda: self._watchers.pop(wake, None)

    def _note_change(self) -> None:
        self._changes += 1
        for wake in list(self._watchers):
            wake()

    async def newest(self) -> ClusterView:
        """The cluster as it is now, or was a moment later than this was called."""
        async with self._making:
            if self._changes_seen != self._changes:
                seen = self._changes  # what changes while the view is made is in the next one
                view = ClusterView(self._newest.epoch + 1, await self._make())
                view.take_written(self._newest)
                self._newest, self._changes_seen = view, seen
            return self._newest

    async def _make(self) -> Mapping[str, Objects]:
        cluster = self._engine.cluster
        if not cluster.has_joined:
            await cluster.joined()  # a broker that has just started does not know the leaders yet
        spus = {row.name: row for row in self._spus()}
        reachable = {row.id for row in spus.values()}
        own_id = cluster.identity.broker_id
        partitions: dict[str, FluvioTable] = {}
        topics: dict[str, FluvioTable] = {}
        system = TopicSpec(system=True)
        topics[OFFSETS_TOPIC] = _topic(OFFSETS_TOPIC, [own_id], system)
        offsets = _partition(f"{OFFSETS_TOPIC}-0", own_id, reachable, system)
        partitions[offsets.name] = offsets
        async for topic in self._engine.turns.each(self._engine.topics.all()):
            if topic.name == OFFSETS_TOPIC:
                continue  # the one above has its place
            spec = spec_of(topic)
            leaders = []
            async for number in self._engine.turns.each(range(topic.partitions)):
                leaders.append(cluster.leader_of(topic.folder(number)))
                row = _partition(f"{topic.name}-{number}", leaders[-1], reachable, spec)
                partitions[row.name] = row
            topics[topic.name] = _topic(topic.name, leaders, spec)
        return {SPU: spus, PARTITION: partitions, TOPIC: topics}

    def _spus(self) -> list[SpuObject]:
        found = []
        for node in self._engine.cluster.nodes():
            endpoint = node.endpoints.get(DATA_LISTENER)
            if endpoint is not None:
                encryption = int(endpoint.protocol == TLS_PROTOCOL)
                found.append(
                    SpuObject(
                        name=f"spu-{node.broker_id}",
                        id=node.broker_id,
                        public_endpoint=PublicEndpoint(
                            endpoint.port, [Ingress(hostname=endpoint.host)], encryption
                        ),
                        private_endpoint=HostEndpoint(endpoint.port, endpoint.host, encryption),
                        rack=node.rack,
                    )
                )
        return found


def spec_of(topic: Topic) -> TopicSpec:
    """A topic's settings as Fluvio has them; what it cannot say is left out."""
    settings = topic.settings
    policy = None
    if settings.deletes and 0 <= settings.retention_ms // 1000 <= _LARGEST_U32:
        policy = Segment(settings.retention_ms // 1000)
    largest = settings.retention_bytes if settings.retention_bytes >= 0 else None
    storage = Storage(min(settings.segment_bytes, _LARGEST_U32), largest)
    return TopicSpec(Computed(topic.partitions), policy, storage)


def _topic(name: str, leaders: list[int], spec: TopicSpec) -> TopicObject:
    replicas = {}
    if len(leaders) <= _MOST_ENTRIES:  # clients find leaders in the partitions' objects
        replicas = {number: _replicas(leader) for number, leader in enumerate(leaders)}
    return TopicObject(name, spec, TopicStatus(replica_map=replicas))


def _replicas(leader: int) -> list[int]:
    return [] if leader == _NO_BROKER else [leader]


def _partition(name: str, leader: int, reachable: set[int], spec: TopicSpec) -> PartitionObject:
    return PartitionObject(
        name=name,
        leader=leader,
        replicas=_replicas(leader),
        cleanup_policy=spec.cleanup_policy,
        storage=spec.storage,
        system=spec.system,
        resolution=PARTITION_ONLINE if leader in reachable else PARTITION_LEADER_OFFLINE,
        leader_status=ReplicaStatus(leader),
    )
