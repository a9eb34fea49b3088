"""Offsets that groups commit for virtual partitions: rows of the ledger.

The upstream's coordinator knows only physical partitions, so it keeps none of these. It still
decides whether a member may commit (apis/groups.py).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from kafscale.proxy.upstream.ledger import Ledger

KEY: Final = b"offset\0"


class GroupCommit(msgspec.Struct, array_like=True, frozen=True):
    """What a group has committed for a virtual partition."""

    offset: int
    epoch: int
    metadata: str


class VirtualPartition(NamedTuple):
    """A virtual partition."""

    topic: str
    partition: int


class VirtualOffsets:
    """The offsets of all groups."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._groups: dict[str, dict[VirtualPartition, GroupCommit]] = {}
        ledger.watch(KEY, self._hear)

    def _hear(self, key: bytes, value: bytes | None) -> None:
        group, topic, partition = msgspec.json.decode(key[len(KEY) :], type=tuple[str, str, int])
        rows = self._groups.setdefault(group, {})
        if value is None:
            rows.pop(VirtualPartition(topic, partition), None)
            if not rows:
                del self._groups[group]
        else:
            rows[VirtualPartition(topic, partition)] = msgspec.json.decode(value, type=GroupCommit)

    async def commit(self, group: str, rows: Mapping[VirtualPartition, GroupCommit | None]) -> None:
        """Write offsets, None to delete one."""
        await self._ledger.write(
            {
                KEY + msgspec.json.encode((group, *place)): (
                    None if row is None else msgspec.json.encode(row)
                )
                for place, row in rows.items()
            }
        )

    async def of_group(self, group: str) -> Mapping[VirtualPartition, GroupCommit]:
        """What a group has committed up to now, at whichever proxy."""
        await self._ledger.sync()
        return self._groups.get(group, {})
