"""A topic's record in the metadata store, and the notes that are written together with it.

Here: inserting, updating and removing records; clean-up notes for folders that a topic no longer
uses. A change note is written before a change and removed with
it, so that the next start finds changes that were cut short.
Next door: what a record says (metadata/topic_rows.py), the descriptors in the bucket
(log/catalog/descriptors.py), who carries the clean-up
notes out (upkeep/removals.py).
"""

from typing import NamedTuple

from kafscale.metadata import keys
from kafscale.metadata.store import Compare, MetadataStore, Put, Remove
from kafscale.metadata.topic_rows import LEFT_ALONE_MS, descriptor_of, record_of
from kafscale.model.clock import Clock
from kafscale.model.errors import MetadataConflict, TopicExists
from kafscale.model.topics import TopicDefaults, TopicDescriptor


class StoredTopic(NamedTuple):
    """A topic as the metadata store has it."""

    descriptor: TopicDescriptor
    version: int  # of the descriptor
    entry_version: int  # of the metadata store's entry


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
        row = keys.decode(keys.TopicRow, entry.value)
        return StoredTopic(descriptor_of(row), row.version, entry.version)

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
                return StoredTopic(descriptor_of(row), row.version, entry.version)
            return StoredTopic(descriptor, version, entry_version)

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
