"""The topics that are attacked, of every kind there is, and their partitions under one numbering.

In this room: which topics, and from the number of a *place* to topic and partition and back. A
history speaks of places only, so that the checker cannot tell one kind from another.
Next door: the clients that write and read there (workers.py, members.py, raw.py). Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """One topic."""

    name: str  # of the kind
    topic: str
    partitions: int
    configs: Mapping[str, str]


SHARED: Final = {"storage.placement": "shared"}
KINDS: Final = (
    Kind("ordinary", "under-fire", 3, {}),
    Kind("virtual", "under-fire.virtual", 4, {"physical.partitions": "2"}),
    Kind("shared", "under-fire.shared", 2, SHARED),
    Kind("shared", "under-fire.neighbour", 1, SHARED),
)
# By the number of the place: topic and partition.
PLACES: Final = [(kind.topic, p) for kind in KINDS for p in range(kind.partitions)]
KIND_OF: Final = [kind.name for kind in KINDS for _ in range(kind.partitions)]
TOPICS: Final = [kind.topic for kind in KINDS]
_NUMBERS: Final = {place: number for number, place in enumerate(PLACES)}


def number_of(topic: str, partition: int) -> int:
    """The place of a topic's partition."""
    return _NUMBERS[topic, partition]


def by_topic(numbers: Iterable[int]) -> dict[str, list[int]]:
    """Topics and their partitions, for requests that speak of many places."""
    found: dict[str, list[int]] = defaultdict(list)
    for number in numbers:
        topic, partition = PLACES[number]
        found[topic].append(partition)
    return found
