"""A partition as the bucket has it now: where it starts and ends, and which bytes hold it.

Here: plain data, and taking it from the snapshots of logs. Next door: finding topics and logs
(bucket.py), cutting this into tasks (splits.py), keeping it for later (pins.py).
Never here: Spark.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from kafscale.log import keys
from kafscale.log.survey import Snapshot
from kafscale.model.errors import CorruptObject
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket

# Flushes from this size on have an index beside them; it may be missing all the same.
_INDEXED_FLUSH: Final = 1 << 20


class Stretch(NamedTuple):
    """One lane's batches in one object: offsets first to last, bytes from start on."""

    key: str
    lane: int
    first: int
    last: int
    start: int
    length: int
    records: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    has_index: bool
    kind: str  # "history" or "flush"


class PartitionView(NamedTuple):
    """One partition: the offsets from `start` to before `end` can be read."""

    topic: str
    partition: int
    start: int
    end: int
    stretches: tuple[Stretch, ...]


def look(
    bucket: Bucket, topic: TopicDescriptor, wanted: Collection[int] | None = None
) -> list[PartitionView]:
    """The partitions of a topic, or those wanted of them."""
    return views_of(topic, bucket.snapshots(topic), wanted)


def views_of(
    topic: TopicDescriptor, snapshots: list[Snapshot], wanted: Collection[int] | None = None
) -> list[PartitionView]:
    """Partition p is lane `p // logs` of log `p % logs`; with one log each, lane 0 of log p."""
    logs = [(snapshot.lanes(), _by_lane(snapshot)) for snapshot in snapshots]
    numbers = range(topic.partitions) if wanted is None else sorted(wanted)
    found = []
    for number in numbers:
        marks, stretches = logs[number % topic.logs]
        lane = number // topic.logs
        start, end = marks.get(lane, (0, 0))
        mine = tuple(s for s in stretches.get(lane, ()) if s.last >= start)
        found.append(PartitionView(topic.name, number, start, end, mine))
    return found


def _by_lane(snapshot: Snapshot) -> dict[int, list[Stretch]]:
    """What every lane of a log consists of, in one pass: there may be thousands of lanes."""
    _refuse_broken_tail(snapshot)
    found: dict[int, list[Stretch]] = {}
    for piece in snapshot.pieces:
        indexed = piece.entry.has_index if piece.entry else piece.size >= _INDEXED_FLUSH
        for span in piece.spans:
            found.setdefault(span.lane, []).append(
                Stretch(
                    piece.key,
                    span.lane,
                    span.first,
                    span.last,
                    span.start,
                    span.length,
                    span.records,
                    span.min_timestamp_ms,
                    span.max_timestamp_ms,
                    indexed,
                    piece.kind,
                )
            )
    return found


def _refuse_broken_tail(snapshot: Snapshot) -> None:
    """A flush that should continue the log but cannot be read hides everything after it.

    Flushes beyond the chain's end are none of it: late uploads that never counted.
    """
    following = keys.segment(snapshot.folder, snapshot.end)
    for problem in snapshot.problems:
        if problem.startswith(following):
            raise CorruptObject(problem)
