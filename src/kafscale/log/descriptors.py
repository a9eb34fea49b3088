"""Topic descriptors in the bucket: what every topic is, readable without a broker.

Here: finding them, reading the newest, writing the next. A descriptor is never overwritten:
every change is a new version, created if absent, so that two who change a topic at once
cannot both win.
Next door: the names (keys.py), what a descriptor says (model/topics.py).
"""

import asyncio

from kafscale.log import commits, keys
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore

_READS_AT_ONCE = 32


class Descriptors:
    """The descriptors of one namespace."""

    def __init__(self, store: ObjectStore, namespace: str) -> None:
        """Look below `namespace`."""
        self._store = store
        self._namespace = namespace

    async def newest(self, name: str) -> tuple[int, TopicDescriptor | None]:
        """The last version and what it says; 0 and None if there never was such a topic."""
        folder = keys.descriptor_folder(self._namespace, name)
        found = await self._store.find(
            folder, after=keys.descriptor(folder, 0), before=keys.descriptors_before(folder)
        )
        if not found:
            return 0, None
        newest = found[-1].key
        version = keys.parse_generation(newest) or 0
        return version, TopicDescriptor.decode(await self._store.read(newest))

    async def all(self) -> list[TopicDescriptor]:
        """Every topic there is, by name."""
        folders = await self._store.folders(self._namespace)
        gate = asyncio.Semaphore(_READS_AT_ONCE)

        async def one(name: str) -> TopicDescriptor | None:
            async with gate:
                return (await self.newest(name))[1]

        # Folders of later incarnations have an '@' and no descriptors.
        found = await asyncio.gather(*(one(name) for name in folders if "@" not in name))
        return [topic for topic in found if topic is not None and not topic.deleted]

    async def put(self, descriptor: TopicDescriptor, version: int) -> bool:
        """Write a version; False if another one has that number."""
        folder = keys.descriptor_folder(self._namespace, descriptor.name)
        key = keys.descriptor(folder, version)
        body = descriptor.encode()
        if await commits.put_same(self._store, key, [body], "descriptor"):
            return True
        # Taken: by our own attempt whose answer was lost, or by another. Whoever it was, a
        # version that says what we wanted to say is as good as ours.
        return bytes(await self._store.read(key)) == body
