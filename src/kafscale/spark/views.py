"""A partition as the bucket has it now: where it starts and ends, and which bytes hold it.

Here: plain data, and taking it from the snapshots of logs. Next door: finding topics and logs
(bucket.py), cutting this into tasks (source/splits.py), keeping it for later (source/pins.py).
Never here: Spark.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from kafscale.log.formats import keys, places
from kafscale.log.formats.places import LanePlace
from kafscale.log.formats.transactions import AbortedRange
from kafscale.log.protocol.survey import LogSnapshot
from kafscale.model.errors import CorruptObject
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket

# Flushes from this size on have an index beside them; it may be missing all the same.
_INDEXED_FLUSH: Final = 1 << 20


class StoredRange(NamedTuple):
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
    # Of aborted transactions: producer, first offset, offset of the marker.
    aborted: tuple[tuple[int, int, int], ...] = ()


class PartitionView(NamedTuple):
    """One partition: the offsets from `start` to before `end` can be read.

    `end` is the last stable offset: before it the outcome of every transaction is known.
    """

    topic: str
    partition: int
    start: int
    end: int
    stored_ranges: tuple[StoredRange, ...]
    high: int = -1  # where it ends with records of open transactions

    def uncommitted(self) -> "PartitionView":
        """The same for a reader that takes records whatever becomes of their transactions."""
        ranges = tuple(one._replace(aborted=()) for one in self.stored_ranges)
        return self._replace(end=max(self.end, self.high), stored_ranges=ranges)


ChosenPartitions = Mapping[str, Collection[int]]  # topic -> which partitions of it, where not all


def read_views(
    bucket: Bucket, topic: TopicDescriptor, wanted: Collection[int] | None = None
) -> list[PartitionView]:
    """The partitions of a topic, or those wanted of them."""
    return read_all_views(bucket, [topic], {} if wanted is None else {topic.name: wanted})


def read_all_views(
    bucket: Bucket, topics: Sequence[TopicDescriptor], wanted: ChosenPartitions | None = None
) -> list[PartitionView]:
    """The partitions of several topics; a log that they share is read once."""
    lane_places = places_of(topics, wanted)
    return views_of(lane_places, bucket.read_logs(place.folder for _, _, place in lane_places))


def places_of(
    topics: Iterable[TopicDescriptor], wanted: ChosenPartitions | None = None
) -> list[tuple[str, int, LanePlace]]:
    """Topic, partition and place of everything that is wanted."""
    return [
        (topic.name, number, place)
        for topic in topics
        for number, place in places.each_place(topic)
        if wanted is None or topic.name not in wanted or number in wanted[topic.name]
    ]


def views_of(
    wanted: Sequence[tuple[str, int, LanePlace]], snapshots: Mapping[str, LogSnapshot]
) -> list[PartitionView]:
    """What the logs, by folder, hold of these partitions."""
    lanes: dict[str, set[int]] = {}
    for _, _, place in wanted:
        lanes.setdefault(place.folder, set()).add(place.lane)
    logs = {
        folder: (snapshots[folder].lanes(), _by_lane(snapshots[folder], mine))
        for folder, mine in lanes.items()
    }
    transactions = {folder: snapshots[folder].transactions() for folder in lanes}
    views = []
    for topic, number, place in wanted:
        marks, stored_ranges = logs[place.folder]
        start, end = marks.get(place.lane, (0, 0))
        mine = tuple(s for s in stored_ranges.get(place.lane, ()) if s.last >= start)
        known = transactions[place.folder].get(place.lane)
        stable = end
        if known is not None:
            first_open = known.first_open()
            stable = end if first_open is None else max(start, min(first_open, end))
            mine = tuple(_with_aborted(stored, known.aborted) for stored in mine)
        views.append(PartitionView(topic, number, start, stable, mine, end))
    return views


def _with_aborted(stored: StoredRange, aborted: Sequence[AbortedRange]) -> StoredRange:
    here = tuple(
        (row.producer_id, row.first, row.last)
        for row in aborted
        if row.first <= stored.last and row.last >= stored.first
    )
    return stored._replace(aborted=here) if here else stored


def _by_lane(snapshot: LogSnapshot, wanted: Set[int]) -> dict[int, list[StoredRange]]:
    """What these lanes of a log consist of, in one pass: there may be thousands of lanes."""
    _refuse_broken_tail(snapshot)
    by_lane: dict[int, list[StoredRange]] = {}
    for piece in snapshot.pieces:
        indexed = piece.entry.has_index if piece.entry else piece.size >= _INDEXED_FLUSH
        for span in piece.spans:
            if span.lane not in wanted:
                continue
            by_lane.setdefault(span.lane, []).append(
                StoredRange(
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
    return by_lane


def _refuse_broken_tail(snapshot: LogSnapshot) -> None:
    """A flush that should continue the log but cannot be read hides everything after it.

    Flushes beyond the end of the chain do not count: they are late uploads.
    """
    following = keys.segment(snapshot.folder, snapshot.end)
    for problem in snapshot.problems:
        if problem.startswith(following):
            raise CorruptObject(problem)
