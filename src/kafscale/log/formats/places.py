"""Where partitions lie: from a topic's descriptor to logs and lanes, and back.

Here: pure functions, the one place that knows the three layouts. An ordinary partition is lane 0
of a log of its own; V virtual ones are lanes of P logs of their topic; partitions of small topics
share the logs of their namespace. Only the first two kinds may ever be treated by folder.
Next door: names (keys.py), who deals out the lanes of shared logs (catalog/lane_allotment.py).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafscale.log.formats import keys
from kafscale.model.topics import LaneRange, TopicDescriptor
from kafscale.virtual.arithmetic import place_of


class LanePlace(NamedTuple):
    """A partition's place."""

    folder: str  # of the log
    lane: int


def place(topic: TopicDescriptor, partition: int) -> LanePlace:
    """Where a partition lies; IndexError if the topic has none of that number."""
    if not 0 <= partition < topic.partitions:
        raise IndexError(f"{topic.name} has no partition {partition}")
    if topic.layout != "shared":
        log, lane = place_of(partition, topic.logs)
        return LanePlace(keys.log_folder(topic.folder, log), lane)
    for held in topic.shared:
        if partition < held.count:
            return _slot(held, partition)
        partition -= held.count
    raise IndexError(f"{topic.name} has no lane for a partition")


def each_place(topic: TopicDescriptor) -> Iterator[tuple[int, LanePlace]]:
    """All partitions of a topic and where they lie."""
    if topic.layout != "shared":
        for partition in range(topic.partitions):
            yield partition, place(topic, partition)
        return
    yield from enumerate(lanes_of(topic.shared))


def lanes_of(ranges: Iterable[LaneRange]) -> Iterator[LanePlace]:
    """All lanes of these ranges, in the order of their partitions."""
    for held in ranges:
        for at in range(held.count):
            yield _slot(held, at)


def log_folders(topic: TopicDescriptor) -> list[str]:
    """Every log that has a lane of the topic, each once. Others may have lanes there, too."""
    if topic.layout != "shared":
        return own_folders(topic)
    return sorted({found.folder for _, found in each_place(topic)}, key=number_of)


def own_folders(topic: TopicDescriptor) -> list[str]:
    """The logs that are the topic's alone, and may go with it."""
    return [keys.log_folder(topic.folder, log) for log in range(topic.logs)]


def lanes_in(topic: TopicDescriptor, folder: str) -> dict[int, int]:
    """The topic's partitions in one log, by lane."""
    if topic.layout != "shared":
        if folder.rpartition("/")[0] != topic.folder:
            return {}
        log = number_of(folder)
        return {row // topic.logs: row for row in range(log, topic.partitions, topic.logs)}
    return {
        found.lane: partition for partition, found in each_place(topic) if found.folder == folder
    }


def number_of(folder: str) -> int:
    """The number of a log, which its folder's name ends with."""
    return int(folder.rpartition("/")[2])


def _slot(held: LaneRange, at: int) -> LanePlace:
    log, lane = place_of(held.first + at, held.logs)
    return LanePlace(keys.log_folder(held.folder, log), lane)
