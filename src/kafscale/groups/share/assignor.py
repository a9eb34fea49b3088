"""Which members of a share group should read which partition.

Here: Kafka's assignor `simple`. Every partition has a reader, and every member something to read:
members share partitions if there are more members than partitions.
"""

from typing import Final

from kafscale.groups.consumer.assignors import SubscribedNames, Target, TopicSizes, by_subscription
from kafscale.groups.consumer.events import MemberPartition

SIMPLE: Final = "simple"


def assign_simple(subscriptions: SubscribedNames, topics: TopicSizes) -> Target:
    """Members and partitions of each topic in pairs, over and over until all have their turn."""
    given: dict[str, set[MemberPartition]] = {member: set() for member in subscriptions}
    turn = 0  # so that the first members are not the first of every topic
    for name, members in by_subscription(subscriptions, topics):
        topic_id, count = topics[name]
        for step in range(max(len(members), count) if count else 0):
            given[members[(turn + step) % len(members)]].add((topic_id, step % count))
        turn += count
    return {member: frozenset(places) for member, places in given.items()}
