"""What is in a checkpoint: groups, what they have committed, and the numbers given out.

In this room: rows of the metadata store turned into something to read. A row that a newer version
wrote, or that is broken, is shown as it is.
Next door: the command (segments.py), the objects (log/catalog/checkpoints.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kafscale.cli.output import print_columns, print_json
from kafscale.log.catalog import checkpoints
from kafscale.log.formats import checkpoint
from kafscale.log.formats import keys as object_keys
from kafscale.log.formats.checkpoint import Head, Row
from kafscale.metadata import keys
from kafscale.model.errors import CorruptObject
from kafscale.model.topics import iso_time
from kafscale.objects.store import ObjectStore

FOLDER = "/@checkpoints/"


@dataclass(slots=True)
class _Contents:
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    offsets: list[dict[str, Any]] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    brokers: dict[str, int] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def add(self, key: str, value: bytes) -> None:
        """Take up a row."""
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


def is_checkpoint(key: str) -> bool:
    """Whether a key names a checkpoint's head or one of its parts."""
    return FOLDER in key and object_keys.parse_checkpoint(key) is not None


async def show(store: ObjectStore, key: str, *, as_json: bool) -> None:
    """Print a checkpoint, read with all its parts, or a part alone."""
    number, is_head = object_keys.parse_checkpoint(key) or (0, False)
    head: Head | None = None
    if is_head:
        head, rows = await checkpoints.read(store, key.rpartition(FOLDER)[0], number)
    else:
        rows = checkpoint.decode_rows(await store.read(key))
    contents = _contents(rows)
    facts: dict[str, Any] = {"key": key, "number": number}
    if head is not None:
        facts["taken"] = iso_time(head.created_ms)
        facts["author"] = head.author
        facts["cluster"] = head.cluster_id
        facts["parts"] = len(head.parts)
    if as_json:
        tables = {"groups": list(contents.groups.values()), "offsets": contents.offsets}
        numbers = {"marks": contents.marks, "brokers": contents.brokers}
        print_json({**facts, **tables, **numbers, "others": contents.others})
    else:
        _print(facts, contents)


def _contents(rows: Iterable[Row]) -> _Contents:
    contents = _Contents()
    for key, value in rows:
        try:
            contents.add(key, bytes(value))
        except CorruptObject:
            contents.others[key] = msgspec.json.decode(value)
    return contents


def _print(facts: dict[str, Any], contents: _Contents) -> None:
    print(f"checkpoint {facts.pop('key')}")
    facts |= {"groups": len(contents.groups), "offsets": len(contents.offsets)}
    facts |= {f"next of {kind}": number for kind, number in contents.marks.items()}
    facts |= {f"broker {name}": number for name, number in contents.brokers.items()}
    facts |= {key: msgspec.json.encode(value).decode() for key, value in contents.others.items()}
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"  {name:{width}} {value}")
    for rows in (list(contents.groups.values()), contents.offsets):
        if rows:
            print()
            print_columns(list(rows[0]), [list(row.values()) for row in rows])
