"""The topics of a cluster: what a door may ask of them and do to them.

Here: the facade of this sub-room, and how its parts are put together.
Next door: the parts (registry.py, lifecycle.py, changes.py, discovery.py).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.topics.changes import ConfigChange, TopicChanges
from kafscale.engine.topics.discovery import Discovery
from kafscale.engine.topics.lifecycle import TopicLifecycle
from kafscale.engine.topics.namespaces import Namespaces
from kafscale.engine.topics.records import TopicRecords
from kafscale.engine.topics.registry import TopicEvents, TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.catalog.lane_allotment import SharedLogs
from kafscale.log.catalog.schemas import TopicSchemas
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import CorruptObject, StoreError, TopicExists
from kafscale.objects.store import ObjectStore
from kafscale.tasks import Tasks

logger = structlog.get_logger()


class Topics:
    """All topics of the cluster."""

    def __init__(
        self,
        registry: TopicRegistry,
        lifecycle: TopicLifecycle,
        changes: TopicChanges,
        discovery: Discovery,
        cluster: Membership,
        tasks: Tasks,
        schemas: TopicSchemas,
        namespaces: Namespaces,
    ) -> None:
        self.schemas = schemas
        self.namespaces = namespaces
        self._registry = registry
        self._lifecycle = lifecycle
        self._changes = changes
        self._discovery = discovery
        self._cluster = cluster
        self._tasks = tasks
        self._creating: dict[str, asyncio.Task[Topic]] = {}
        # Requests look up a topic before every batch: these go to the registry directly.
        self.find = registry.find
        self.get = registry.get
        self.get_by_id = registry.get_by_id
        self.all = registry.all

    def revision(self) -> int:
        """Another number after every change of any topic."""
        return self._registry.revision

    # -- finding -----------------------------------------------------------------------------

    async def discover(self, name: str) -> Topic | None:
        """The topic of that name; if this broker does not know it, the bucket is searched."""
        return await self._discovery.find(name)

    def search_soon(self, name: str) -> None:
        """A client was told that this topic is unknown: search, for its next request."""
        self._discovery.search_soon(name)

    def default_configs(self, topic: Topic | None = None) -> dict[str, str]:
        """Every topic setting with its default, for topics in general or for this one."""
        defaults = self._registry.rules.defaults.configs()
        if topic is None:
            return defaults
        return defaults | self._registry.rules.default_place(topic.descriptor)

    # -- creating and deleting ---------------------------------------------------------------

    def partition_count(self, name: str, asked: int) -> int:
        """How many partitions a new topic gets; -1 asks for the configured number."""
        return self._registry.rules.partition_count(name, asked)

    def check(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> None:
        """Raise what is wrong with a request for a new topic."""
        self._lifecycle.check(name, partitions, configs)

    async def create(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """Create a topic; many requests for the same name cause one attempt."""
        await self._refresh(name)
        self._lifecycle.check(name, partitions, configs)
        await self.namespaces.require(name)
        if name in self._creating:
            # The other attempt may still fail: only its end shows that the topic exists.
            await asyncio.shield(self._creating[name])
            raise TopicExists(f"topic {name!r} exists already")
        # Continues when the caller is cancelled: a topic half created is finished or adopted.
        work = self._lifecycle.create(name, partitions, configs)
        task = self._tasks.spawn(work, f"creation of {name}", awaited=True)
        self._creating[name] = task
        task.add_done_callback(lambda _: self._creating.pop(name, None))
        return await asyncio.shield(task)

    async def create_own(self, name: str, configs: Mapping[str, str | None]) -> Topic:
        """Create a topic of one partition that only brokers write to."""
        await self._refresh(name)
        topic = self.find(name)
        return topic or await self._lifecycle.create(name, 1, configs, is_own=True)

    async def _refresh(self, name: str) -> None:
        """Read the topic again: another broker may have deleted it, and even created it again."""
        if self._cluster.has_peers:
            await self._registry.refresh(name)

    async def find_or_create(self, name: str) -> Topic:
        """The topic, created with default settings if it does not exist."""
        topic = self.find(name)
        if topic is not None:
            return topic
        try:
            if name in self._creating:
                return await asyncio.shield(self._creating[name])
            return await self.create(name, self.partition_count(name, -1), {})
        except TopicExists:
            topic = self.find(name)  # it came into the bucket without a broker
            if topic is None:
                raise
            return topic

    async def delete(self, name: str) -> None:
        """End a topic and begin to remove its objects. Continues when the caller is cancelled."""
        task = self._tasks.spawn(self._delete(name), f"deletion of {name}", awaited=True)
        await asyncio.shield(task)

    async def _delete(self, name: str) -> None:
        await self._refresh(name)
        gone = await self._lifecycle.delete(name)
        closing = self._registry.announce_end(gone)
        if closing is not None:
            await closing
        try:
            await self.schemas.remove(gone.descriptor.topic_id)
        except StoreError as problem:  # no topic has this id again: they are only left over
            logger.warning("schemas_left", topic=name, error=str(problem))

    # -- changing ----------------------------------------------------------------------------

    async def change_configs(
        self, name: str, change: ConfigChange, *, only_check: bool = False
    ) -> None:
        """Give a topic the settings that `change` makes of its present ones."""
        await self._changes.change_configs(name, change, only_check=only_check)

    def check_partitions(self, topic: Topic, count: int) -> None:
        """Raise what is wrong with a request for more partitions."""
        self._changes.check_partitions(topic, count)

    async def create_partitions(self, name: str, count: int, *, only_check: bool = False) -> None:
        """Give a topic more partitions."""
        await self._changes.create_partitions(name, count, only_check=only_check)


@dataclass(frozen=True, slots=True)
class TopicParts:
    """The parts of this sub-room, for the other sub-rooms. Doors get `topics` alone."""

    registry: TopicRegistry
    records: TopicRecords
    changes: TopicChanges
    lifecycle: TopicLifecycle
    discovery: Discovery
    topics: Topics

    async def load(self, events: TopicEvents) -> None:
        """Finish changes that were cut short, then read all topics from the metadata store."""
        for name in await self.records.list_unfinished():
            try:
                await self.changes.finish(name)
            except (StoreError, CorruptObject) as problem:
                # No client was told that the change happened. The next change of this topic, or
                # the next start, finds it.
                logger.warning("change_postponed", topic=name, error=str(problem))
        await self.registry.load(events)


def build_topics(
    registry: TopicRegistry,
    store: ObjectStore,
    metadata: MetadataStore,
    cluster: Membership,
    clock: Clock,
    dice: Dice,
    tasks: Tasks,
) -> TopicParts:
    """Put the parts of this sub-room together."""
    namespace = registry.rules.namespace
    descriptors = Descriptors(store, namespace)
    shared_logs = SharedLogs(store, namespace)
    records = TopicRecords(metadata, clock)
    changes = TopicChanges(registry, records, descriptors, shared_logs, cluster, dice, tasks)
    lifecycle = TopicLifecycle(registry, records, descriptors, changes, store, cluster, clock, dice)
    discovery = Discovery(registry, lifecycle, cluster, tasks, clock)
    schemas = TopicSchemas(store, namespace)
    namespaces = Namespaces(metadata, on_demand=registry.rules.namespaces_on_demand)
    topics = Topics(registry, lifecycle, changes, discovery, cluster, tasks, schemas, namespaces)
    return TopicParts(registry, records, changes, lifecycle, discovery, topics)
