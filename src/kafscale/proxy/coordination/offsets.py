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
    topic_id: str  # a topic that is created anew under its old name begins without offsets


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
                _key(group, place): None if row is None else msgspec.json.encode(row)
                for place, row in rows.items()
            }
        )

    async def of_group(self, group: str) -> Mapping[VirtualPartition, GroupCommit]:
        """What a group has committed up to now, at whichever proxy; for deleted topics, too."""
        await self._ledger.sync()
        return self._groups.get(group, {})

    def keys_of(self, topic_id: str) -> list[bytes]:
        """The rows of all groups about a topic."""
        return [
            _key(group, place)
            for group, rows in self._groups.items()
            for place, row in rows.items()
            if row.topic_id == topic_id
        ]


def _key(group: str, place: VirtualPartition) -> bytes:
    return KEY + msgspec.json.encode((group, *place))
