"""A consumer group's snapshot as the metadata store keeps it, and back.

Here: the JSON of a consumer group. It is one value, like that of a classic group.
Next door: when a group is saved (groups.py), classic groups (records.py).
"""

from collections.abc import Iterable

from kafscale.groups.consumer.events import MemberPartition
from kafscale.groups.consumer.members import by_topic
from kafscale.groups.consumer.snapshot import ConsumerMemberSnapshot, ConsumerSnapshot
from kafscale.metadata.keys import ConsumerMemberRow, GroupMemberRow, GroupRow
from kafscale.model.errors import CorruptObject

_Places = dict[str, list[int]]  # partitions by topic id


def row_of(group_id: str, snapshot: ConsumerSnapshot, now: str) -> GroupRow:
    """The row that the metadata store keeps."""
    return GroupRow(
        group_id=group_id,
        group_type=snapshot.group_type,
        state=snapshot.state,
        protocol_type=snapshot.group_type,
        protocol=snapshot.assignor,
        leader="",
        generation_id=snapshot.epoch,
        target_epoch=snapshot.target_epoch,
        members={member.member_id: _member_row(member, now) for member in snapshot.members},
        state_at=now,
    )


def snapshot_of(row: GroupRow) -> ConsumerSnapshot:
    """The snapshot that a row was made from. Raises CorruptObject."""
    try:
        members = tuple(_member(name, member) for name, member in row.members.items())
    except ValueError as problem:
        raise CorruptObject(f"group {row.group_id!r} names no topic: {problem}") from problem
    return ConsumerSnapshot(
        row.generation_id, row.target_epoch, row.state, row.protocol, members, row.group_type
    )


def _member_row(member: ConsumerMemberSnapshot, now: str) -> GroupMemberRow:
    return GroupMemberRow(
        client_id=member.client_id,
        client_host=member.client_host,
        heartbeat_at=now,
        subscriptions=sorted(member.names | member.matched),
        instance_id=member.instance_id,
        # The broker's, unless the member speaks the classic protocol.
        session_timeout_ms=round(member.session_timeout_s * 1000),
        rebalance_timeout_ms=round(member.rebalance_timeout_s * 1000),
        protocols=list(member.protocols),
        consumer=ConsumerMemberRow(
            rack=member.rack,
            names=sorted(member.names),
            regex=member.regex,
            matched=sorted(member.matched),
            assignor=member.assignor,
            epoch=member.epoch,
            previous_epoch=member.previous_epoch,
            state=member.state,
            assigned=_encode(member.assigned),
            revoking=_encode(member.revoking),
            target=_encode(member.target),
        ),
    )


def _member(member_id: str, row: GroupMemberRow) -> ConsumerMemberSnapshot:
    facts = row.consumer
    if facts is None:
        raise CorruptObject(f"member {member_id!r} is not one of a consumer group")
    return ConsumerMemberSnapshot(
        member_id,
        row.instance_id,
        facts.rack,
        row.client_id,
        row.client_host,
        row.rebalance_timeout_ms / 1000,
        frozenset(facts.names),
        facts.regex,
        frozenset(facts.matched),
        facts.assignor,
        facts.epoch,
        facts.previous_epoch,
        facts.state,
        _decode(facts.assigned),
        _decode(facts.revoking),
        _decode(facts.target),
        tuple(row.protocols),
        row.session_timeout_ms / 1000,
    )


def _encode(places: Iterable[MemberPartition]) -> _Places:
    return {topic_id.hex(): numbers for topic_id, numbers in by_topic(places).items()}


def _decode(rows: _Places) -> frozenset[MemberPartition]:
    return frozenset(
        (bytes.fromhex(topic_id), partition)
        for topic_id, partitions in rows.items()
        for partition in partitions
    )
