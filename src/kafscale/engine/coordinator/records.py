"""A group's snapshot as the metadata store keeps it, and back.

What members say about themselves and what they are assigned is kept as bytes, because only the
members know what it means. For people, and for those who only look, it is shown in words where it
can be read as the protocol of ordinary consumers.
"""

import struct
from typing import Final

import msgspec
import structlog

from kafscale.groups.machine import Group as Machine
from kafscale.groups.snapshot import GroupSnapshot, MemberSnapshot
from kafscale.groups.states import GroupState
from kafscale.metadata import keys
from kafscale.metadata.keys import AssignedTopic, GroupMemberRow, GroupRow
from kafscale.metadata.store import MAX_BYTES

logger = structlog.get_logger()

_CONSUMER: Final = "consumer"
_MOST_SHOWN: Final = 10_000


def stored(group_id: str, saved: GroupSnapshot, now: str) -> bytes:
    """What the store gets to keep.

    A group beyond all measure is kept without its members: it lives as any other, and when it
    changes hands they are told that they are none and join again.
    """
    row = write(group_id, saved, now)
    value = keys.encode_group(row)
    if len(value) <= MAX_BYTES:
        return value
    logger.warning("group_too_large", group=group_id, members=len(row.members), bytes=len(value))
    return keys.encode(msgspec.structs.replace(row, members={}))


def write(group_id: str, saved: GroupSnapshot, now: str) -> GroupRow:
    """In the store's words."""
    return GroupRow(
        group_id=group_id,
        state=(GroupState.STABLE if saved.members else GroupState.EMPTY).value,
        protocol_type=saved.protocol_type,
        protocol=saved.protocol,
        leader=saved.leader,
        generation_id=saved.generation,
        members={row.member_id: _member(row, saved, now) for row in saved.members},
        state_at=now,
    )


def _member(row: MemberSnapshot, saved: GroupSnapshot, now: str) -> GroupMemberRow:
    is_consumer = saved.protocol_type == _CONSUMER
    metadata = dict(row.protocols).get(saved.protocol, b"")
    return GroupMemberRow(
        client_id=row.client_id,
        client_host=row.client_host,
        heartbeat_at=now,
        assignment=_assigned(row.assignment) if is_consumer else [],
        subscriptions=(_subscribed(metadata) or []) if is_consumer else [],
        instance_id=row.instance_id,
        session_timeout_ms=round(row.session_timeout_s * 1000),
        rebalance_timeout_ms=round(row.rebalance_timeout_s * 1000),
        protocols=list(row.protocols),
        assignment_bytes=row.assignment,
    )


def read(row: GroupRow) -> GroupSnapshot:
    """The way back."""
    members = tuple(
        MemberSnapshot(
            member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms / 1000,
            member.rebalance_timeout_ms / 1000,
            tuple(member.protocols),
            member.assignment_bytes,
        )
        for member_id, member in row.members.items()
    )
    return GroupSnapshot(row.protocol_type, row.protocol, row.generation_id, row.leader, members)


def subscriptions(machine: Machine) -> frozenset[str] | None:
    """The topics a group's members read, in the protocol of ordinary consumers; None if unknown."""
    if machine.protocol_type != _CONSUMER or not machine.protocol:
        return None
    topics: set[str] = set()
    for member in machine.roster.by_id.values():
        named = _subscribed(member.protocols.get(machine.protocol, b""))
        if named is None:
            return None
        topics.update(named)
    return frozenset(topics)


class _Words:
    """Reads the consumers' own protocol, as far as it is what it should be."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 2  # after the version

    def number(self) -> int:
        (found,) = struct.unpack_from(">i", self._raw, self._at)
        self._at += 4
        return int(found)

    def count(self) -> int:
        found = self.number()
        if not 0 <= found <= _MOST_SHOWN:
            raise ValueError(found)
        return found

    def text(self) -> str:
        (size,) = struct.unpack_from(">h", self._raw, self._at)
        start = self._at + 2
        self._at = start + max(size, 0)
        if self._at > len(self._raw):
            raise ValueError(size)
        return self._raw[start : self._at].decode()


def _subscribed(raw: bytes) -> list[str] | None:
    words = _Words(raw)
    try:
        return [words.text() for _ in range(words.count())]
    except (struct.error, ValueError):
        return None


def _assigned(raw: bytes) -> list[AssignedTopic]:
    words = _Words(raw)
    try:
        return [
            AssignedTopic(
                topic=words.text(), partitions=[words.number() for _ in range(words.count())]
            )
            for _ in range(words.count())
        ]
    except (struct.error, ValueError):
        return []
