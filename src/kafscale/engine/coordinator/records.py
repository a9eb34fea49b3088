"""A group's snapshot as the metadata store keeps it, and back.

Here: the JSON of a group. It has what members say about themselves, and what they are assigned, as
bytes that only clients understand. Where a door can read these bytes, the JSON also has them in
words: operators and the rules of expiry need that.
Next door: when a group is saved (groups.py), consumer groups (consumer_rows.py).
Never here: the bytes of a client protocol, a door reads them (`MemberDataReader`).
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec
import structlog

from kafscale.engine.coordinator import consumer_rows
from kafscale.groups.classic.snapshot import GroupSnapshot, MemberSnapshot
from kafscale.groups.classic.states import GroupState
from kafscale.groups.consumer.assigned import AssignedGroup
from kafscale.groups.consumer.member_data import MemberCodec
from kafscale.groups.consumer.snapshot import ConsumerSnapshot
from kafscale.groups.events import Snapshot
from kafscale.groups.machines import ASSIGNED_GROUPS, GroupMachine
from kafscale.metadata import keys
from kafscale.metadata.keys import AssignedTopic, GroupMemberRow, GroupRow
from kafscale.metadata.store import MAX_BYTES

logger = structlog.get_logger()


class MemberDataReader(MemberCodec, Protocol):
    """Reads the bytes that clients give their groups. The door of the clients implements it."""

    def subscribed_topics(self, protocol_type: str, metadata: bytes) -> Sequence[str] | None:
        """The topics that a member reads; None if the bytes do not say it."""

    def assigned_partitions(
        self, protocol_type: str, assignment: bytes
    ) -> Sequence[tuple[str, list[int]]]:
        """Topics and partitions of an assignment; none if the bytes do not say it."""


class GroupRecords:
    """Turns groups into JSON and back."""

    def __init__(self, reader: MemberDataReader) -> None:
        self._reader = reader
        self.codec: MemberCodec = reader

    def encode(self, group_id: str, snapshot: Snapshot, now: str) -> bytes:
        """The value that the metadata store keeps.

        A group that is too large for one value is kept without its members. Its members notice
        this only when another broker loads the group: they are unknown then and join again.
        """
        if isinstance(snapshot, ConsumerSnapshot):
            row = consumer_rows.row_of(group_id, snapshot, now)
        else:
            assert isinstance(snapshot, GroupSnapshot)
            row = self._row(group_id, snapshot, now)
        value = keys.encode_group(row)
        if len(value) <= MAX_BYTES:
            return value
        logger.warning(
            "group_too_large", group=group_id, members=len(row.members), bytes=len(value)
        )
        return keys.encode(msgspec.structs.replace(row, members={}))

    def _row(self, group_id: str, snapshot: GroupSnapshot, now: str) -> GroupRow:
        return GroupRow(
            group_id=group_id,
            state=(GroupState.STABLE if snapshot.members else GroupState.EMPTY).value,
            protocol_type=snapshot.protocol_type,
            protocol=snapshot.protocol,
            leader=snapshot.leader,
            generation_id=snapshot.generation,
            members={
                member.member_id: self._member_row(member, snapshot, now)
                for member in snapshot.members
            },
            state_at=now,
        )

    def _member_row(
        self, member: MemberSnapshot, snapshot: GroupSnapshot, now: str
    ) -> GroupMemberRow:
        kind = snapshot.protocol_type
        metadata = dict(member.protocols).get(snapshot.protocol, b"")
        return GroupMemberRow(
            client_id=member.client_id,
            client_host=member.client_host,
            heartbeat_at=now,
            assignment=[
                AssignedTopic(topic=topic, partitions=partitions)
                for topic, partitions in self._reader.assigned_partitions(kind, member.assignment)
            ],
            subscriptions=list(self._reader.subscribed_topics(kind, metadata) or ()),
            instance_id=member.instance_id,
            session_timeout_ms=round(member.session_timeout_s * 1000),
            rebalance_timeout_ms=round(member.rebalance_timeout_s * 1000),
            protocols=list(member.protocols),
            assignment_bytes=member.assignment,
        )

    def decode(self, value: bytes) -> GroupSnapshot | ConsumerSnapshot:
        """The snapshot that a value was made from. Raises CorruptObject."""
        row = keys.decode_group(value)
        if row.group_type in ASSIGNED_GROUPS:
            return consumer_rows.snapshot_of(row)
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
        return GroupSnapshot(
            row.protocol_type, row.protocol, row.generation_id, row.leader, members
        )

    def subscribed_topics(self, group: GroupMachine) -> frozenset[str] | None:
        """The topics that a group's members read; None if that is unknown for one of them."""
        if isinstance(group, AssignedGroup):
            return group.subscribed_topics()
        if not group.protocol:
            return None
        subscribed: set[str] = set()
        for member in group.roster.by_id.values():
            metadata = member.protocols.get(group.protocol, b"")
            topics = self._reader.subscribed_topics(group.protocol_type, metadata)
            if topics is None:
                return None
            subscribed.update(topics)
        return frozenset(subscribed)
