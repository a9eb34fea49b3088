"""Which member of a consumer group should read which partition.

Here: Kafka's two assignors. Both give the same result for the same input, on every broker.
`uniform` gives every member equally many partitions and leaves as many as possible where they are.
`range` gives every member neighbouring partitions of each topic, so that partitions of equal number
of topics of equal size are read by one member.
Next door: how members get there (reconciliation.py).
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kafscale.groups.consumer.events import MemberPartition


class TopicPartitions(NamedTuple):
    """A topic as an assignor sees it."""

    topic_id: bytes
    partition_count: int


SubscribedNames = Mapping[str, frozenset[str]]  # by member id: the names of topics
TopicSizes = Mapping[str, TopicPartitions]  # by name: the topics that exist
Target = dict[str, frozenset[MemberPartition]]  # by member id

_MOST_STEPS: Final = 200_000  # of evening out: partitions times members


def assign_range(subscriptions: SubscribedNames, topics: TopicSizes, previous: Target) -> Target:
    """Neighbouring partitions of each topic, for the members in the order of their ids."""
    given: dict[str, list[MemberPartition]] = {member: [] for member in subscriptions}
    for name, members in by_subscription(subscriptions, topics):
        topic_id, count = topics[name]
        share, more = divmod(count, len(members))
        begin = 0
        for index, member in enumerate(members):
            end = begin + share + (index < more)
            given[member] += ((topic_id, partition) for partition in range(begin, end))
            begin = end
    return {member: frozenset(places) for member, places in given.items()}


def assign_uniform(subscriptions: SubscribedNames, topics: TopicSizes, previous: Target) -> Target:
    """Equally many partitions for all; what a member had it keeps, as far as that is fair."""
    is_alike = len(set(subscriptions.values())) <= 1
    kept = _kept(subscriptions, topics, previous)
    if is_alike:
        _trim(kept, _count(subscriptions, topics))
    elif sum(map(len, kept.values())) * len(kept) > _MOST_STEPS:
        kept = {member: [] for member in kept}  # evening it out would hold up the broker
    given = {member: set(places) for member, places in kept.items()}
    taken = set().union(*given.values()) if given else set()
    for name, members in by_subscription(subscriptions, topics):
        topic_id, count = topics[name]
        loads = [(len(given[member]), member) for member in members]
        heapq.heapify(loads)
        for partition in range(count):
            place = (topic_id, partition)
            if place not in taken:
                load, member = loads[0]
                given[member].add(place)
                heapq.heapreplace(loads, (load + 1, member))
    if not is_alike and len(taken) * len(given) <= _MOST_STEPS:
        _even_out(given, subscriptions, topics)
    return {member: frozenset(places) for member, places in given.items()}


def by_subscription(
    subscriptions: SubscribedNames, topics: TopicSizes
) -> Iterable[tuple[str, list[str]]]:
    """The topics that exist, each with its subscribers; topics with few subscribers first."""
    members: dict[str, list[str]] = {}
    for member in sorted(subscriptions):
        for name in subscriptions[member]:
            if name in topics:
                members.setdefault(name, []).append(member)
    return sorted(members.items(), key=lambda row: (len(row[1]), topics[row[0]].topic_id))


def _count(subscriptions: SubscribedNames, topics: TopicSizes) -> int:
    names: frozenset[str] = next(iter(subscriptions.values()), frozenset())
    return sum(topics[name].partition_count for name in names if name in topics)


def _kept(
    subscriptions: SubscribedNames, topics: TopicSizes, previous: Target
) -> dict[str, list[MemberPartition]]:
    """What members had, without what no longer exists or is no longer subscribed to."""
    kept = {}
    for member in sorted(subscriptions):
        counts = dict(topics[name] for name in subscriptions[member] if name in topics)
        had = previous.get(member, frozenset())
        kept[member] = sorted(place for place in had if place[1] < counts.get(place[0], 0))
    return kept


def _trim(kept: dict[str, list[MemberPartition]], partition_count: int) -> None:
    """Take from members what is beyond their fair share. All members subscribe alike."""
    if not kept:
        return
    share, more = divmod(partition_count, len(kept))
    for member in sorted(kept, key=lambda member: (-len(kept[member]), member)):
        has_more = more > 0 and len(kept[member]) > share
        more -= has_more
        del kept[member][share + has_more :]


def _even_out(
    given: dict[str, set[MemberPartition]], subscriptions: SubscribedNames, topics: TopicSizes
) -> None:
    """Move partitions from members with many to members with few, if those subscribe to them."""
    members_of = {
        topics[name].topic_id: members for name, members in by_subscription(subscriptions, topics)
    }
    has_moved = True
    while has_moved:
        has_moved = False
        for member in sorted(given, key=lambda member: (-len(given[member]), member)):
            for place in sorted(given[member]):
                least = min(members_of[place[0]], key=lambda other: (len(given[other]), other))
                if len(given[member]) - len(given[least]) >= 2:
                    given[member].discard(place)
                    given[least].add(place)
                    has_moved = True


UNIFORM: Final = "uniform"
ASSIGNORS: Final[dict[str, Callable[[SubscribedNames, TopicSizes, Target], Target]]] = {
    UNIFORM: assign_uniform,
    "range": assign_range,
}
