"""Topics, asked of brokers: create, list, describe, add partitions, trim, delete.

Next door: the settings of a topic (configs.py), where its partitions lie (holdings.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own stubs forget them
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from kafscale.admin.brokers.client import ANSWER_WITHIN_S, refusal, wait, wait_for_all
from kafscale.admin.brokers.offsets import PartitionName, list_offsets
from kafscale.admin.errors import AdminError

# Of each partition: its first offset, and the one that its next record will get.
OffsetRanges = Mapping[int, tuple[int, int]]


class PartitionFacts(NamedTuple):
    """A partition as brokers describe it."""

    partition: int
    leader: int | None  # None: no broker leads it now
    earliest: int
    latest: int  # the offset of its next record


class TrimmedPartition(NamedTuple):
    """A partition after its first records were deleted."""

    partition: int
    earliest: int  # the first offset that it has now
    deleted: int  # how many offsets went


class TopicFacts(NamedTuple):
    """A topic as brokers describe it."""

    name: str
    topic_id: str
    partitions: list[PartitionFacts]


def create_topics(
    admin: AdminClient,
    names: Iterable[str],
    *,
    partitions: int,
    configs: Mapping[str, str],
    may_exist: bool,
    check_only: bool = False,
) -> None:
    """Create topics; `partitions` -1: as many as the brokers' setting says.

    `check_only`: nothing is created, brokers only say whether they would.
    """
    wanted = [
        NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(configs))
        for name in dict.fromkeys(names)
    ]
    answers = admin.create_topics(wanted, request_timeout=ANSWER_WITHIN_S, validate_only=check_only)
    wait_for_all(answers, {KafkaError.TOPIC_ALREADY_EXISTS} if may_exist else set())


def add_partitions(admin: AdminClient, name: str, partitions: int) -> None:
    """Give a topic so many partitions; it may only become more."""
    wanted = NewPartitions(name, partitions)
    answers = admin.create_partitions([wanted], request_timeout=ANSWER_WITHIN_S)
    wait(name, answers[name])


def delete_topics(admin: AdminClient, names: Iterable[str]) -> None:
    """Delete topics and all their records."""
    wait_for_all(admin.delete_topics(list(dict.fromkeys(names)), request_timeout=ANSWER_WITHIN_S))


def trim_topic(
    admin: AdminClient, name: str, partition: int | None, before: int | None
) -> list[TrimmedPartition]:
    """Delete records before an offset, None: all there are; of all partitions, or of one.

    A partition that ends before the offset loses all its records, and no later ones.
    """
    known = list_partitions(admin, name)
    if partition is not None and partition not in known:
        raise AdminError(f"{name}: no partition {partition}, only 0 to {max(known)}")
    ranges = list_offset_ranges(admin, name, known if partition is None else [partition])
    wanted = [
        TopicPartition(name, number, end if before is None else min(before, end))
        for number, (_, end) in ranges.items()
    ]
    answers = admin.delete_records(wanted, request_timeout=ANSWER_WITHIN_S)
    trimmed = []
    for place, answer in answers.items():
        low = wait(f"{name}/{place.partition}", answer).low_watermark
        earliest = ranges[place.partition][0]
        trimmed.append(TrimmedPartition(place.partition, low, max(0, low - earliest)))
    return sorted(trimmed)


def list_topics(admin: AdminClient) -> dict[str, int]:
    """List every topic with its number of partitions."""
    try:
        topics = admin.list_topics(timeout=ANSWER_WITHIN_S).topics
    except KafkaException as bad:
        raise refusal("", bad) from bad
    return {name: len(topics[name].partitions) for name in sorted(topics)}


def describe_topic(admin: AdminClient, name: str) -> TopicFacts:
    """Ask for the partitions of a topic, their leaders and their offsets."""
    topic = _description(admin, name)
    numbers = [partition.id for partition in topic.partitions]
    ranges = list_offset_ranges(admin, name, numbers)
    return TopicFacts(
        name,
        str(topic.topic_id).replace("+", "-").replace("/", "_"),  # as Kafka's own tools write it
        [
            PartitionFacts(
                partition.id,
                partition.leader.id if partition.leader else None,
                *ranges[partition.id],
            )
            for partition in topic.partitions
        ],
    )


def list_partitions(admin: AdminClient, name: str) -> list[int]:
    """Ask for the numbers of a topic's partitions."""
    return [partition.id for partition in _description(admin, name).partitions]


def _description(admin: AdminClient, name: str) -> TopicDescription:
    """Describe a topic by the request that does not create it."""
    answer = admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_WITHIN_S)
    topic: TopicDescription = wait(name, answer[name])
    return topic


def list_many_ranges(
    admin: AdminClient, keys: Iterable[PartitionName]
) -> dict[PartitionName, tuple[int, int]]:
    """The same for partitions of many topics; those that refuse are left out."""
    wanted = list(keys)
    bounds = [
        list_offsets(admin, dict.fromkeys(wanted, spec))
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
    ]
    found = {}
    for key in wanted:
        first, end = bounds[0].get(key), bounds[1].get(key)
        if isinstance(first, int) and isinstance(end, int):
            found[key] = first, end
    return found


def list_offset_ranges(
    admin: AdminClient, name: str, partitions: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """Ask for the first offset of each partition and the one that its next record will get."""
    bounds: list[dict[int, int]] = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
        offsets: dict[int, int] = {}
        answers = list_offsets(admin, {(name, number): spec for number in partitions})
        for (_, number), answer in answers.items():
            if isinstance(answer, KafkaException):
                raise refusal(f"{name}/{number}", answer) from answer
            offsets[number] = answer
        bounds.append(offsets)
    return {number: (bounds[0][number], bounds[1][number]) for number in bounds[0]}
