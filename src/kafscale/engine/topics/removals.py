"""What topics that have ended, or moved, leave behind: notes in the metadata store.

Here: plain data, one note per place, written together with what makes the place an old one.
Next door: who carries it out (housekeeping.py).
"""

from typing import Final

from kafscale.metadata import keys
from kafscale.metadata.store import Put
from kafscale.model.topics import TopicDescriptor

# Readers of a topic that has moved may be anywhere in its old place; they have this long to notice.
LEFT_ALONE_MS: Final = 600_000


def of_topic(gone: TopicDescriptor, now_ms: int) -> list[Put]:
    """Of a topic that has ended: where it lies, and where it was moving."""
    notes = [_note(gone, now_ms, name=gone.name, topic_id=gone.topic_id)]
    if gone.moving is not None:
        notes.append(_note(gone.after_move(), now_ms))
    return notes


def of_old_home(old: TopicDescriptor, new: TopicDescriptor, now_ms: int) -> list[Put]:
    """Of a topic that has moved, or moves elsewhere now; nothing of one that does neither."""
    held = {new.folder, new.after_move().folder}
    notes = []
    if old.folder not in held:
        notes.append(_note(old, now_ms, after_ms=now_ms + LEFT_ALONE_MS))
    if old.moving is not None and old.moving.folder not in held:
        notes.append(_note(old.after_move(), now_ms))  # nobody has ever read there
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
