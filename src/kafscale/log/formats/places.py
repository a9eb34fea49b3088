"""Where partitions lie: from a topic's descriptor to logs and lanes, and back.

Here: pure functions, the one place that knows the three layouts. An ordinary partition is lane 0
of a log of its own; V virtual partitions are lanes of P logs of their topic; partitions of small
topics share the logs of their namespace. Only the first two kinds may ever be deleted by folder.
Next door: names (keys.py), giving out the lanes of shared logs (catalog/lane_allotment.py).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafscale.log.formats import keys
from kafscale.model.topics import LaneRange, TopicDescriptor
from kafscale.virtual.arithmetic import place_of


class LanePlace(NamedTuple):
    """Where a partition lies."""

    folder: str  # of the log
    lane: int


def place(topic: TopicDescriptor, partition: int) -> LanePlace:
    """Where a partition lies; IndexError if the topic has none of that number."""
    if not 0 <= partition < topic.partitions:
        raise IndexError(f"{topic.name} has no partition {partition}")
    if topic.layout != "shared":
        log, lane = place_of(partition, topic.logs)
        return LanePlace(keys.log_folder(topic.folder, log), lane)
    for lanes in topic.shared:
        if partition < lanes.count:
            return _slot(lanes, partition)
        partition -= lanes.count
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
    for lanes in ranges:
        for number in range(lanes.count):
            yield _slot(lanes, number)


def log_folders(topic: TopicDescriptor) -> list[str]:
    """Every log that has a lane of the topic, each once. Other topics may have lanes there, too."""
    if topic.layout != "shared":
        return own_folders(topic)
    return sorted({place.folder for _, place in each_place(topic)}, key=number_of)


def own_folders(topic: TopicDescriptor) -> list[str]:
    """The logs that are the topic's alone, and may go with it."""
    return [keys.log_folder(topic.folder, log) for log in range(topic.logs)]


def lanes_in(topic: TopicDescriptor, folder: str) -> dict[int, int]:
    """The topic's partitions in one log, by lane."""
    if topic.layout != "shared":
        if folder.rpartition("/")[0] != topic.folder:
            return {}
        log = number_of(folder)
        partitions = range(log, topic.partitions, topic.logs)
        return {partition // topic.logs: partition for partition in partitions}
    return {
        place.lane: partition for partition, place in each_place(topic) if place.folder == folder
    }


def number_of(folder: str) -> int:
    """The number of a log, which its folder's name ends with."""
    return int(folder.rpartition("/")[2])


def _slot(lanes: LaneRange, number: int) -> LanePlace:
    log, lane = place_of(lanes.first + number, lanes.logs)
    return LanePlace(keys.log_folder(lanes.folder, log), lane)
