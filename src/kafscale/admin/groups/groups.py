"""Consumer groups, asked of brokers: list, describe, delete; what they have committed.

Here: how far behind a group is, first of all. Next door: moving offsets (group_resets.py).
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConsumerGroupDescription,
    OffsetSpec,
)

from kafscale.admin.brokers.client import ANSWER_WITHIN_S, refusal, wait, wait_for_all
from kafscale.admin.brokers.offsets import PartitionName, list_offsets
from kafscale.admin.errors import AdminError

_STATES: Final = {
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.DEAD: "Dead",
}
_IDLE: Final = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


class NoSuchGroup(AdminError):
    """Brokers know no group of this name, and no offsets of it."""


class ListedGroup(NamedTuple):
    """A group as brokers list it."""

    group: str
    state: str


class GroupLag(NamedTuple):
    """A group in a list."""

    group: str
    state: str
    lag: int


class MemberFacts(NamedTuple):
    """One member of a group."""

    member: str
    instance: str | None
    client: str
    host: str


class GroupPartition(NamedTuple):
    """A partition that a group reads or has committed; a member without one has topic None."""

    topic: str | None
    partition: int | None
    committed: int | None
    end: int | None
    lag: int | None
    member: str | None
    host: str | None
    client: str | None


class GroupFacts(NamedTuple):
    """A group with all that is known of it."""

    group: str
    state: str
    lag: int
    assignor: str
    members: list[MemberFacts]
    partitions: list[GroupPartition]  # what is furthest behind comes first
    coordinator: int | None = None


def list_group_states(admin: AdminClient) -> list[ListedGroup]:
    """Ask every broker for its groups: names and states, nothing of what is in them."""
    answer = wait("", admin.list_consumer_groups(request_timeout=ANSWER_WITHIN_S))
    for problem in answer.errors:
        raise refusal("", problem)
    return [ListedGroup(group.group_id, state_name(group.state)) for group in answer.valid]


def list_groups(admin: AdminClient) -> list[GroupLag]:
    """List all groups, the one furthest behind first."""
    states = dict(list_group_states(admin))
    committed = {name: list_committed(admin, name) for name in states}
    ends = list_ends(admin, {key for offsets in committed.values() for key in offsets})
    groups = [GroupLag(name, state, _lag(committed[name], ends)) for name, state in states.items()]
    return sorted(groups, key=lambda group: (-group.lag, group.group))


def describe_group(admin: AdminClient, name: str) -> GroupFacts:
    """Ask who is in a group, what it has committed and how far behind it is."""
    group = _description(admin, name)
    committed = list_committed(admin, name)
    if group.state == ConsumerGroupState.DEAD and not committed:
        raise NoSuchGroup(f"{name}: there is no such group")
    owners = {
        (assigned.topic, assigned.partition): member
        for member in group.members
        for assigned in (member.assignment.topic_partitions if member.assignment else ())
    }
    keys = {*committed, *owners}
    ends = list_ends(admin, keys)
    partitions = [
        _partition(key, committed.get(key), ends.get(key), owners.get(key)) for key in keys
    ]
    idle = [member for member in group.members if member not in owners.values()]
    partitions += [_partition((None, None), None, None, member) for member in idle]
    return GroupFacts(
        group=name,
        state=_state(admin, group),
        lag=_lag(committed, ends),
        assignor=group.partition_assignor or "",
        members=[
            MemberFacts(member.member_id, member.group_instance_id, member.client_id, member.host)
            for member in group.members
        ],
        partitions=sorted(partitions, key=_rank),
        coordinator=group.coordinator.id if group.coordinator else None,
    )


def delete_groups(admin: AdminClient, names: Iterable[str]) -> None:
    """Delete groups without members, and their offsets."""
    unique = list(dict.fromkeys(names))
    wait_for_all(admin.delete_consumer_groups(unique, request_timeout=ANSWER_WITHIN_S))


def find_coordinator(admin: AdminClient, name: str) -> tuple[str, int]:
    """Ask which broker coordinates a group: its host and its port."""
    coordinator = _description(admin, name).coordinator
    return coordinator.host, coordinator.port


def require_idle(admin: AdminClient, name: str) -> None:
    """Raise AdminError if the group has members: they would overwrite what is committed."""
    group = _description(admin, name)
    if group.state not in _IDLE:
        raise AdminError(
            f"{name}: the group is {state_name(group.state)} and has {len(group.members)} "
            "members; stop them first"
        )


def list_committed(admin: AdminClient, name: str) -> dict[PartitionName, int]:
    """Ask what a group has committed."""
    wanted = [ConsumerGroupTopicPartitions(name)]
    answers = admin.list_consumer_group_offsets(wanted, request_timeout=ANSWER_WITHIN_S)
    committed = wait(name, answers[name]).topic_partitions
    return {(row.topic, row.partition): row.offset for row in committed if row.offset >= 0}


def list_ends(admin: AdminClient, keys: Iterable[PartitionName]) -> dict[PartitionName, int]:
    """Ask for the offset that the next record of each partition will get."""
    return offsets_at(admin, keys, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def list_first_at(
    admin: AdminClient, keys: Iterable[PartitionName], at_ms: int
) -> dict[PartitionName, int]:
    """Ask for the first offset of each partition at or after a time; none so late: left out."""
    found = offsets_at(admin, keys, OffsetSpec.for_timestamp(at_ms))
    return {key: offset for key, offset in found.items() if offset >= 0}


def offsets_at(
    admin: AdminClient, keys: Iterable[PartitionName], spec: Any
) -> dict[PartitionName, int]:
    """Ask for an offset of each partition; those of deleted topics are left out."""
    offsets = {}
    for key, answer in list_offsets(admin, dict.fromkeys(keys, spec)).items():
        if not isinstance(answer, KafkaException):
            offsets[key] = answer
        elif answer.args[0].retriable():
            raise refusal(f"{key[0]}/{key[1]}", answer) from answer
    return offsets


def _description(admin: AdminClient, name: str) -> ConsumerGroupDescription:
    answers = admin.describe_consumer_groups([name], request_timeout=ANSWER_WITHIN_S)
    group: ConsumerGroupDescription = wait(name, answers[name])
    return group


def _state(admin: AdminClient, group: ConsumerGroupDescription) -> str:
    """The state of a group. The client cannot describe share groups: brokers list their state."""
    if group.state != ConsumerGroupState.DEAD:
        return state_name(group.state)
    return dict(list_group_states(admin)).get(group.group_id, state_name(group.state))


def state_name(state: Any) -> str:
    """Give a state in the protocol's word."""
    return _STATES.get(state, "Unknown")


def _lag(committed: dict[PartitionName, int], ends: dict[PartitionName, int]) -> int:
    """How many records a group has not read yet."""
    return sum(max(ends[key] - offset, 0) for key, offset in committed.items() if key in ends)


def _rank(partition: GroupPartition) -> tuple[object, ...]:
    """What is furthest behind comes first, an unknown lag last."""
    lag = partition.lag
    return (lag is None, -(lag or 0), partition.topic or "~", partition.partition or 0)


def _partition(
    key: tuple[str | None, int | None], committed: int | None, end: int | None, member: Any
) -> GroupPartition:
    is_known = committed is not None and end is not None
    return GroupPartition(
        topic=key[0],
        partition=key[1],
        committed=committed,
        end=end,
        lag=max((end or 0) - (committed or 0), 0) if is_known else None,
        member=member.member_id if member else None,
        host=member.host if member else None,
        client=member.client_id if member else None,
    )
