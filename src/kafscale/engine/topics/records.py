"""A topic's descriptor in the metadata store's words, and back.

Next door: the descriptors themselves (log/catalog/descriptors.py), a topic's life (topics.py).
"""

from kafscale.metadata import keys as metadata_keys
from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings


def record_of(
    descriptor: TopicDescriptor, version: int, defaults: TopicDefaults
) -> metadata_keys.TopicRow:
    """A descriptor in the metadata store's words."""
    settings = TopicSettings.of(descriptor.configs, defaults)
    return metadata_keys.TopicRow(
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


def descriptor_of(row: metadata_keys.TopicRow) -> TopicDescriptor:
    """The way back."""
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
