"""A topic's descriptor as a row of the metadata store, and back.

Next door: the keys (keys.py), writing rows (engine/topics/records.py), rebuilding them from a
bucket (admin/bucket/recovery.py).
"""

from typing import Final

from kafscale.metadata import keys
from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings

# Readers of a topic that has moved may be anywhere in its old place; they have this long to notice.
LEFT_ALONE_MS: Final = 600_000


def record_of(descriptor: TopicDescriptor, version: int, defaults: TopicDefaults) -> keys.TopicRow:
    """A descriptor as the metadata store keeps it."""
    settings = TopicSettings.of(descriptor.configs, defaults)
    return keys.TopicRow(
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
        logs=descriptor.logs if descriptor.layout == "virtual" else 0,
        shared=descriptor.shared,
        moving=descriptor.moving,
        moves=descriptor.moves,
    )


def descriptor_of(row: keys.TopicRow) -> TopicDescriptor:
    """The descriptor that a record was made of."""
    return TopicDescriptor(
        name=row.name,
        topic_id=row.topic_id,
        incarnation=row.incarnation,
        folder=row.folder,
        partitions=row.partitions,
        logs=0 if row.shared else row.logs or row.partitions,
        layout="shared" if row.shared else "virtual" if row.logs else "ordinary",
        shared=row.shared,
        moving=row.moving,
        moves=row.moves,
        configs=row.config,
        created_at=row.created_at,
    )
