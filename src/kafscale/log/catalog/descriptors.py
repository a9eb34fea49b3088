"""Topic descriptors in the bucket: what every topic is, readable without a broker.

Here: finding them, reading the newest, writing the next, creating the first of a new topic. A
descriptor is never overwritten: every change is a new version, created if absent. So of two
processes that change or create a topic at once, one wins.
Next door: the names (formats/keys.py), what a descriptor says (model/topics.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from kafscale.log.formats import keys
from kafscale.log.protocol import commits
from kafscale.model.topics import LaneRange, TopicDescriptor
from kafscale.objects.store import ObjectStore

_READS_AT_ONCE = 32


class TopicSpec(NamedTuple):
    """What a new topic is to be."""

    name: str
    topic_id: str  # 32 hex digits, fresh
    partitions: int
    configs: Mapping[str, str]
    created_at: str
    own_folder: bool = False
    origin: str = ""
    logs: int | None = None  # None: one per partition
    shared: Sequence[LaneRange] = ()  # where the partitions lie in shared logs


class Descriptors:
    """The descriptors of one namespace."""

    def __init__(self, store: ObjectStore, namespace: str) -> None:
        """The descriptors below `namespace`."""
        self._store = store
        self._namespace = namespace

    async def knows(self, name: str) -> bool:
        """Whether there is, or was, a topic of this name."""
        folder = keys.descriptor_folder(self._namespace, name)
        first, behind = keys.descriptor(folder, 0), keys.descriptors_before(folder)
        return bool(await self._store.find(folder, after=first, before=behind, limit=1))

    async def newest(self, name: str) -> tuple[int, TopicDescriptor | None]:
        """The last version and what it says; 0 and None if there never was such a topic."""
        folder = keys.descriptor_folder(self._namespace, name)
        listed = await self._store.find(
            folder, after=keys.descriptor(folder, 0), before=keys.descriptors_before(folder)
        )
        if not listed:
            return 0, None
        newest = listed[-1].key
        version = keys.parse_generation(newest) or 0
        return version, TopicDescriptor.decode(await self._store.read(newest))

    async def names(self) -> list[str]:
        """Every name that has, or had, a topic."""
        # Folders with an '@' hold logs and notes of jobs, no descriptors.
        folders = await self._store.folders(self._namespace)
        return [keys.named_by(folder) for folder in folders if "@" not in folder]

    async def all(self) -> list[TopicDescriptor]:
        """Every topic there is, by name."""
        gate = asyncio.Semaphore(_READS_AT_ONCE)

        async def read(name: str) -> TopicDescriptor | None:
            async with gate:
                return (await self.newest(name))[1]

        topics = await asyncio.gather(*(read(name) for name in await self.names()))
        return [topic for topic in topics if topic is not None and not topic.deleted]

    async def create(
        self, spec: TopicSpec, end: Callable[[TopicDescriptor], Awaitable[None]]
    ) -> tuple[int, TopicDescriptor]:
        """Create a topic, or give back the one that has the name already.

        `end` closes the logs of a topic that had the name before: what a broker still wrote there
        would be lost to clients that know only the name (rule 25). A name that was used before, and
        a topic that is filled before clients see it, get a new folder: no other process has
        written there, or can write there late.
        """
        while True:
            version, newest = await self.newest(spec.name)
            if newest is not None and not newest.deleted:
                return version, newest
            if newest is not None:
                await end(newest)
            has_own_folder = spec.own_folder or newest is not None
            made = TopicDescriptor(
                name=spec.name,
                topic_id=spec.topic_id,
                incarnation=newest.incarnation + 1 if newest is not None else 1,
                folder=keys.topic_folder(
                    self._namespace, spec.name, spec.topic_id if has_own_folder else ""
                ),
                partitions=spec.partitions,
                logs=0 if spec.shared else spec.logs or spec.partitions,
                layout="shared" if spec.shared else "virtual" if spec.logs else "ordinary",
                shared=list(spec.shared),
                configs=dict(spec.configs),
                created_at=spec.created_at,
                origin=spec.origin,
            )
            if await self.put(made, version + 1):
                return version + 1, made

    async def put(self, descriptor: TopicDescriptor, version: int) -> bool:
        """Write a version; False if another one has that number."""
        folder = keys.descriptor_folder(self._namespace, descriptor.name)
        key = keys.descriptor(folder, version)
        body = descriptor.encode()
        if await commits.put_same(self._store, key, [body], "descriptor"):
            return True
        # Taken: by our own attempt whose answer was lost, or by another process. A version that
        # says what we wanted to say is as good as ours.
        return bytes(await self._store.read(key)) == body
