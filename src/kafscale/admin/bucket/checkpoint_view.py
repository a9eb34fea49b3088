"""What is in a checkpoint: groups, what they have committed, and the numbers given out.

Here: rows of the metadata store turned into facts. A row that a newer version wrote, or that is
broken, is given as it is.
Next door: the command (cli/bucket/segments.py), the objects (log/catalog/checkpoints.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kafscale.log.catalog import checkpoints
from kafscale.log.formats import checkpoint
from kafscale.log.formats import keys as object_keys
from kafscale.log.formats.checkpoint import CheckpointHead, CheckpointRow
from kafscale.metadata import keys
from kafscale.model.errors import CorruptObject
from kafscale.model.topics import iso_time
from kafscale.objects.store import ObjectStore

_FOLDER: Final = "/@checkpoints/"


@dataclass(slots=True)
class CheckpointView:
    """A checkpoint, or one part of it, as a person reads it."""

    facts: dict[str, Any]  # key, number and, for a whole checkpoint, who took it when
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    offsets: list[dict[str, Any]] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    brokers: dict[str, int] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def _add(self, key: str, value: bytes) -> None:
        place, group_id = keys.place_committed_by(key), keys.group_named_by(key)
        if place is not None and group_id is not None:
            self._group(group_id)
            offset = keys.decode(keys.CommittedOffset, value)
            self.offsets.append(
                {
                    "group": group_id,
                    "topic": place[0],
                    "partition": place[1],
                    "offset": offset.offset,
                    "committed": offset.committed_at,
                    "metadata": offset.metadata,
                }
            )
        elif group_id is not None and key == keys.group_metadata(group_id):
            group = keys.decode_group(value)
            self._group(group_id).update(
                state=group.state, generation=group.generation_id, members=len(group.members)
            )
        elif key.startswith(keys.MARKS):
            self.marks[key.removeprefix(keys.MARKS)] = keys.decode(keys.Mark, value).next
        elif key.startswith(keys.BROKER_NAMES):
            name = keys.text_of(key.removeprefix(keys.BROKER_NAMES))
            self.brokers[name] = keys.decode(keys.BrokerName, value).broker_id
        elif key != keys.CLUSTER:  # the head says it
            self.others[key] = msgspec.json.decode(value)

    def _group(self, group_id: str) -> dict[str, Any]:
        unknown = {"group": group_id, "state": None, "generation": None, "members": None}
        return self.groups.setdefault(group_id, unknown)

    def add_rows(self, rows: Iterable[CheckpointRow]) -> None:
        """Take up rows of the metadata store."""
        for key, value in rows:
            try:
                self._add(key, bytes(value))
            except CorruptObject:
                self.others[key] = msgspec.json.decode(value)


def is_checkpoint(key: str) -> bool:
    """Whether a key names a checkpoint's head or one of its parts."""
    return _FOLDER in key and object_keys.parse_checkpoint(key) is not None


async def read_checkpoint(store: ObjectStore, key: str) -> CheckpointView:
    """Read a checkpoint with all its parts, or a part alone."""
    number, is_head = object_keys.parse_checkpoint(key) or (0, False)
    head: CheckpointHead | None = None
    if is_head:
        head, rows = await checkpoints.read(store, key.rpartition(_FOLDER)[0], number)
    else:
        rows = checkpoint.decode_rows(await store.read(key))
    view = CheckpointView({"key": key, "number": number})
    if head is not None:
        view.facts["taken"] = iso_time(head.created_ms)
        view.facts["author"] = head.author
        view.facts["cluster"] = head.cluster_id
        view.facts["parts"] = len(head.parts)
    view.add_rows(rows)
    return view
