"""Moving what a group has committed: first a plan, then the change.

Nothing is planned while the group has members: they would overwrite it with their next commit.
Next door: what groups have committed (groups.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from kafscale.admin.brokers import topics
from kafscale.admin.brokers.client import ANSWER_WITHIN_S, wait
from kafscale.admin.brokers.offsets import PartitionName
from kafscale.admin.errors import AdminError
from kafscale.admin.groups import groups


class ResetTarget(NamedTuple):
    """Where offsets are to go; `number` is an offset, a distance, or a time in milliseconds."""

    kind: Literal["earliest", "latest", "offset", "shift", "time"]
    number: int = 0


class PlannedOffset(NamedTuple):
    """One partition of a plan; committed None: the group has no offset there yet."""

    topic: str
    partition: int
    committed: int | None
    new: int


def plan_reset(
    admin: AdminClient,
    group: str,
    target: ResetTarget,
    partitions: Mapping[str, Sequence[int] | None] | None,
    *,
    needs_idle: bool = True,
) -> list[PlannedOffset]:
    """Say where each partition would go, within the offsets that it has.

    `needs_idle`: refuse while the group has members, as brokers would refuse the change.
    `partitions` by topic, None: all of the topic's; None instead: all that the group has committed.
    """
    if needs_idle:
        groups.require_idle(admin, group)
    committed = groups.list_committed(admin, group)
    keys = list(committed) if partitions is None else _named(admin, partitions)
    if not keys:
        raise AdminError(f"{group}: the group has committed nothing")
    planned = _planned(admin, target, sorted(keys), committed)
    return [PlannedOffset(*key, committed.get(key), offset) for key, offset in planned.items()]


def commit_reset(admin: AdminClient, group: str, planned: Iterable[PlannedOffset]) -> None:
    """Carry out a plan."""
    offsets = [TopicPartition(row.topic, row.partition, row.new) for row in planned]
    wanted = [ConsumerGroupTopicPartitions(group, offsets)]
    answers = admin.alter_consumer_group_offsets(wanted, request_timeout=ANSWER_WITHIN_S)
    for row in wait(group, answers[group]).topic_partitions:
        if row.error is not None:
            raise AdminError(f"{row.topic}/{row.partition}: {row.error.str()}")


def _named(admin: AdminClient, wanted: Mapping[str, Sequence[int] | None]) -> list[PartitionName]:
    keys: dict[PartitionName, None] = {}
    for name, numbers in wanted.items():
        known = topics.list_partitions(admin, name)
        for partition in known if numbers is None else numbers:
            if partition not in known:
                raise AdminError(f"{name}: there is no partition {partition}")
            keys[name, partition] = None
    return list(keys)


def _planned(
    admin: AdminClient,
    target: ResetTarget,
    keys: list[PartitionName],
    committed: Mapping[PartitionName, int],
) -> dict[PartitionName, int]:
    firsts = groups.offsets_at(admin, keys, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    ends = groups.list_ends(admin, keys)
    wished: Mapping[PartitionName, int]
    match target.kind:
        case "earliest":
            wished = firsts
        case "latest":
            wished = ends
        case "time":
            offsets = groups.offsets_at(admin, keys, OffsetSpec.for_timestamp(target.number))
            # No record is as new as that: behind the last one.
            wished = {key: at if at >= 0 else ends[key] for key, at in offsets.items()}
        case "shift":
            missing = [key for key in keys if key not in committed]
            if missing:
                topic, partition = missing[0]
                raise AdminError(f"{topic}/{partition}: nothing is committed to shift")
            wished = {key: committed[key] + target.number for key in keys}
        case "offset":
            wished = dict.fromkeys(keys, target.number)
    there = [key for key in keys if key in wished and key in firsts and key in ends]
    return {key: min(max(wished[key], firsts[key]), ends[key]) for key in there}
