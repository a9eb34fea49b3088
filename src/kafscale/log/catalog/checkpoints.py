"""Checkpoints in the bucket: finding the newest that is whole, writing the next, deleting old ones.

Here: objects. A checkpoint counts from the moment its head is created, which is after its parts. A
head whose parts are missing or broken does not count: readers use the one before it.
Next door: the bytes (formats/checkpoint.py), when one is taken (engine/upkeep/checkpoints.py), what
is made of it (admin/bucket/recovery.py, spark).

A broker looks for the newest number before it reads what it will write, and takes the next number.
So of two checkpoints the one with the higher number was read later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from kafscale.log.formats import checkpoint, keys
from kafscale.log.formats.checkpoint import CheckpointHead, CheckpointRow
from kafscale.model.clock import Dice
from kafscale.model.errors import CorruptObject, ObjectExists, ObjectMissing
from kafscale.objects.store import ObjectStore, StoredObject

KEPT: Final = 5
_DELETE_AT_ONCE: Final = 1000


@dataclass(slots=True)
class PartBlocks:
    """Blocks of rows that become one object."""

    blocks: list[bytes] = field(default_factory=list)
    size: int = 0
    rows: int = 0

    def add(self, block: bytes, rows: int) -> None:
        """Append a block of that many rows."""
        self.blocks.append(block)
        self.size += len(block)
        self.rows += rows


class Checkpoint(NamedTuple):
    """A checkpoint whose head and parts were all read."""

    head: CheckpointHead
    rows: list[CheckpointRow]


class NewestCheckpoint(NamedTuple):
    """The newest whole checkpoint, if there is one, and what is wrong with those after it."""

    checkpoint: Checkpoint | None
    problems: list[str]


async def heads(store: ObjectStore, namespace: str) -> list[tuple[int, StoredObject]]:
    """The numbers there are and their heads, the newest last."""
    listed = await store.find(keys.checkpoint_folder(namespace))
    parsed = ((keys.parse_checkpoint(stored.key), stored) for stored in listed)
    return [(name[0], stored) for name, stored in parsed if name is not None and name[1]]


async def newest(store: ObjectStore, namespace: str) -> NewestCheckpoint:
    """Read the newest checkpoint that is whole."""
    tried: set[int] = set()
    problems: list[str] = []
    while True:
        numbers = [number for number, _ in await heads(store, namespace)]
        left = [number for number in numbers if number not in tried]
        if not left:
            return NewestCheckpoint(None, problems)
        number = left[-1]
        tried.add(number)
        try:
            return NewestCheckpoint(await read(store, namespace, number), problems)
        except (CorruptObject, ObjectMissing) as bad:
            problems.append(f"checkpoint {number} cannot be used: {bad}")


async def read_head(store: ObjectStore, namespace: str, number: int) -> CheckpointHead:
    """Read the head alone."""
    head = checkpoint.decode_head(await store.read(keys.checkpoint(namespace, number)))
    if head.number != number:
        raise CorruptObject(f"checkpoint {number} says that it is {head.number}")
    return head


async def read(store: ObjectStore, namespace: str, number: int) -> Checkpoint:
    """Read a checkpoint with all its parts; CorruptObject or ObjectMissing if it is not whole."""
    head = await read_head(store, namespace, number)
    rows: list[CheckpointRow] = []
    for named in head.parts:
        data = await store.read(f"{keys.checkpoint_folder(namespace)}/{named.name}")
        checkpoint.check_part(named, data)
        rows += checkpoint.decode_rows(data)
    return Checkpoint(head, rows + head.rows)


async def first_rows(store: ObjectStore, namespace: str) -> list[CheckpointRow]:
    """The rows that the newest checkpoint begins with: all, or its first part; [] if none exists.

    If it cannot be read, the one before it counts.
    """
    for number, _ in reversed(await heads(store, namespace)):
        try:
            head = await read_head(store, namespace, number)
            if not head.parts:
                return head.rows
            first = head.parts[0]
            data = await store.read(f"{keys.checkpoint_folder(namespace)}/{first.name}")
            checkpoint.check_part(first, data)
            return checkpoint.decode_rows(data)
        except (CorruptObject, ObjectMissing):
            continue
    return []


async def write(
    store: ObjectStore,
    namespace: str,
    head: CheckpointHead,
    parts: Sequence[PartBlocks],
    dice: Dice,
) -> bool:
    """Create the parts, then the head that names them; False if its number is taken."""
    folder, token = keys.checkpoint_folder(namespace), dice.token(4)
    named = []
    for number, part in enumerate(parts):
        name = keys.checkpoint_part(head.number, token, number)
        data = b"".join(part.blocks)
        await _put(store, f"{folder}/{name}", data)
        named.append(checkpoint.part(name, data, part.rows))
    body = checkpoint.encode_head(msgspec.structs.replace(head, parts=named))
    return await _put(store, keys.checkpoint(namespace, head.number), body)


async def _put(store: ObjectStore, key: str, body: bytes) -> bool:
    try:
        await store.put_new(key, [body])
    except ObjectExists:
        # Our own attempt that the store executed twice, or another process's object.
        return bytes(await store.read(key)) == body
    return True


async def delete_old(store: ObjectStore, namespace: str) -> int:
    """Delete all but the last few, and parts without a head; gives how many objects."""
    listed = await store.find(keys.checkpoint_folder(namespace))
    names = [(keys.parse_checkpoint(stored.key), stored.key) for stored in listed]
    numbers = [name[0] for name, _ in names if name is not None and name[1]]
    if len(numbers) <= KEPT:
        return 0
    first_kept = numbers[-KEPT]
    doomed = [key for name, key in names if name is not None and name[0] < first_kept]
    for start in range(0, len(doomed), _DELETE_AT_ONCE):
        await store.delete(doomed[start : start + _DELETE_AT_ONCE])
    return len(doomed)
