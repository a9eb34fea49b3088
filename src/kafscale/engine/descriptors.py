"""Topic descriptors in the bucket, and the same in the metadata store's words.

Here: reading the newest, writing the next. A descriptor is never overwritten: every change is a
new version, created if absent, so that two who change a topic at once cannot both win.
Next door: a topic's life (topics.py).
"""

from kafscale.log import commits, keys
from kafscale.metadata import keys as metadata_keys
from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings
from kafscale.objects.store import ObjectStore


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


def record_of(
    descriptor: TopicDescriptor, version: int, defaults: TopicDefaults
) -> metadata_keys.Topic:
    """A descriptor in the metadata store's words."""
    settings = TopicSettings.of(descriptor.configs, defaults)
    return metadata_keys.Topic(
        name=descriptor.name,
        partitions=descriptor.partitions,
        retention_ms=settings.retention_ms,
        retention_bytes=settings.retention_bytes,
        segment_bytes=settings.segment_bytes,
        created_at=descriptor.created_at,
        config=descriptor.configs,
        topic_id=descriptor.topic_id,
        incarnation=descriptor.incarnation,
        folder=descriptor.folder,
        version=version,
    )


def descriptor_of(row: metadata_keys.Topic) -> TopicDescriptor:
    """The way back."""
    return TopicDescriptor(
        name=row.name,
        topic_id=row.topic_id,
        incarnation=row.incarnation,
        folder=row.folder,
        partitions=row.partitions,
        logs=row.partitions,
        configs=row.config,
        created_at=row.created_at,
    )
