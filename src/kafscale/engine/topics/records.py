"""A topic's record in the metadata store, and the notes that are written together with it.

Here: a descriptor as a record and back; inserting, updating and removing records; clean-up notes
for folders that a topic no longer uses. A change note is written before a change and removed with
it, so that the next start finds changes that were cut short.
Next door: the descriptors in the bucket (log/catalog/descriptors.py), who carries the clean-up
notes out (upkeep/removals.py).
"""

from typing import Final, NamedTuple

from kafscale.metadata import keys
from kafscale.metadata.store import Compare, MetadataStore, Put, Remove
from kafscale.model.clock import Clock
from kafscale.model.errors import MetadataConflict, TopicExists
from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings

# Readers of a topic that has moved may be anywhere in its old place; they have this long to notice.
LEFT_ALONE_MS: Final = 600_000


class StoredTopic(NamedTuple):
    """A topic as the metadata store has it, and the version of the store's entry."""

    descriptor: TopicDescriptor
    entry_version: int


class TopicRecords:
    """Writes topics to the metadata store."""

    def __init__(self, metadata: MetadataStore, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock

    async def list_unfinished(self) -> list[str]:
        """Names of topics whose last change may not have reached the metadata store."""
        entries = await self._metadata.find(keys.CHANGES)
        return [keys.decode(keys.ChangeNote, entry.value).name for entry in entries]

    async def note_change(self, name: str) -> None:
        """Say that a topic is about to change: a start after a crash looks into the bucket."""
        note = keys.encode(keys.ChangeNote(name=name))
        await self._metadata.commit([Put(keys.change(name), note)])

    async def clear_note(self, name: str) -> None:
        """Remove the note of a change that is complete."""
        await self._metadata.commit([Remove(keys.change(name))])

    async def read(self, name: str) -> StoredTopic | None:
        """The topic of that name; None if the metadata store has none."""
        entry = await self._metadata.get(keys.topic_config(name))
        if entry is None:
            return None
        return StoredTopic(descriptor_of(keys.decode(keys.TopicRow, entry.value)), entry.version)

    async def insert(
        self, descriptor: TopicDescriptor, version: int, defaults: TopicDefaults
    ) -> int:
        """Write the record of a new topic; gives the entry's version."""
        key = keys.topic_config(descriptor.name)
        record = keys.encode(record_of(descriptor, version, defaults))
        try:
            return await self._metadata.commit([Put(key, record)], [Compare(key, 0)])
        except MetadataConflict:
            # Another broker has written it, or an earlier attempt of this broker whose answer
            # was lost.
            known = await self.read(descriptor.name)
            if known is None or known.descriptor.topic_id != descriptor.topic_id:
                raise TopicExists(f"topic {descriptor.name!r} exists already") from None
            return known.entry_version

    async def update(
        self, descriptor: TopicDescriptor, version: int, defaults: TopicDefaults
    ) -> StoredTopic | None:
        """Bring a record up to this version of the descriptor, unless it is newer already.

        Gives what the store has then; None if the topic has been deleted meanwhile.
        """
        key = keys.topic_config(descriptor.name)
        done = Remove(keys.change(descriptor.name))
        record = keys.encode(record_of(descriptor, version, defaults))
        while True:
            entry = await self._metadata.get(key)
            row = keys.decode(keys.TopicRow, entry.value) if entry else None
            if entry is None or row is None or row.topic_id != descriptor.topic_id:
                await self._metadata.commit([done])
                return None
            writes: list[Put | Remove] = [done]
            is_newer = row.version > version
            if not is_newer:
                writes.append(Put(key, record))
                writes += notes_of_old_home(descriptor_of(row), descriptor, self._clock.now_ms())
            try:
                entry_version = await self._metadata.commit(writes, [Compare(key, entry.version)])
            except MetadataConflict:
                continue
            if is_newer:
                return StoredTopic(descriptor_of(row), entry.version)
            return StoredTopic(descriptor, entry_version)

    async def remove(self, gone: TopicDescriptor) -> int:
        """Remove a topic's record and note that its objects must go.

        Gives the version by which it is gone; 0 if another broker had deleted it before, and
        perhaps created it again.
        """
        key = keys.topic_config(gone.name)
        notes = notes_of_topic(gone, self._clock.now_ms())
        while True:
            stored = await self.read(gone.name)
            try:
                if stored is None or stored.descriptor.topic_id != gone.topic_id:
                    await self._metadata.commit(notes)
                    return 0
                left = notes_of_old_home(stored.descriptor, gone, self._clock.now_ms())
                return await self._metadata.commit(
                    [Remove(key), *notes, *left], [Compare(key, stored.entry_version)]
                )
            except MetadataConflict:
                continue


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


# -- clean-up notes --------------------------------------------------------------------------


def notes_of_topic(gone: TopicDescriptor, now_ms: int) -> list[Put]:
    """Clean-up notes for a deleted topic: for its folder, and for the one it was moving to."""
    notes = [_note(gone, now_ms, name=gone.name, topic_id=gone.topic_id)]
    if gone.moving is not None:
        notes.append(_note(gone.after_move(), now_ms))
    return notes


def notes_of_old_home(old: TopicDescriptor, new: TopicDescriptor, now_ms: int) -> list[Put]:
    """Clean-up notes for folders that a topic no longer uses; empty if it has not moved."""
    used = {new.folder, new.after_move().folder}
    notes = []
    if old.folder not in used:
        notes.append(_note(old, now_ms, after_ms=now_ms + LEFT_ALONE_MS))
    if old.moving is not None and old.moving.folder not in used:
        notes.append(_note(old.after_move(), now_ms))  # no client has ever read there
    return notes


def _note(
    home: TopicDescriptor, now_ms: int, *, name: str = "", topic_id: str = "", after_ms: int = 0
) -> Put:
    removal = keys.Removal(
        folder=home.folder,
        logs=home.logs,
        deleted_ms=now_ms,
        name=name,
        topic_id=topic_id,
        shared=home.shared,
        after_ms=after_ms,
    )
    return Put(keys.removal(home.folder), keys.encode(removal))
