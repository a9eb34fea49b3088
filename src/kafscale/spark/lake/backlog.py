"""Which records of a topic are new to a table.

Here: from the ends of partitions and the progress of a table to windows of offsets; names that
progress is kept under. Pure. Next door: cutting windows into tasks (source/splits.py), reading them
(source/reading.py).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafscale.model.topics import TopicDescriptor
from kafscale.spark.source.plan import splits
from kafscale.spark.source.plan.splits import Slice
from kafscale.spark.views import PartitionView


class Gap(NamedTuple):
    """Records that retention removed before they were seen."""

    topic: str
    partition: int
    first: int
    until: int

    def __str__(self) -> str:
        return (
            f"{self.topic}, partition {self.partition}: records {self.first} to "
            f"{self.until - 1} were deleted before they were exported"
        )


class Backlog(NamedTuple):
    """What is new, and what is lost."""

    slices: list[Slice]
    gaps: list[Gap]


def progress_name(topic: TopicDescriptor, partition: int) -> str:
    """A partition of one incarnation: a topic that was created again begins anew."""
    return f"{topic.topic_id}/{partition}"


def backlog(
    topic: TopicDescriptor, views: Iterable[PartitionView], done: Mapping[str, int]
) -> Backlog:
    """Everything from where `done` ends to the end of each partition."""
    waiting = Backlog([], [])
    for view in views:
        reached = done.get(progress_name(topic, view.partition))
        if reached is not None and reached < view.start:
            waiting.gaps.append(Gap(topic.name, view.partition, reached, view.start))
        first = max(view.start, reached or 0)
        if first < view.end:
            waiting.slices.append(splits.window(view, first, view.end))
    return waiting
