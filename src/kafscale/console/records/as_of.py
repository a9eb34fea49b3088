"""Records of a snapshot: a topic as it was, read from the bucket.

Here: the same verbs as a client of brokers has (admin/records/scanning.py). Next door: what a
snapshot holds (its port, call.py), batches in objects (admin/bucket/stored_records.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafscale.admin.bucket.stored_records import DecodedBatch, ReadBytes, StoredPart, read_batches
from kafscale.admin.records.scanning import ScannedRecord
from kafscale.records.record import Record


class SnapshotPartition(NamedTuple):
    """One partition as a snapshot has it: offsets from start up to before end."""

    partition: int
    start: int
    end: int
    parts: tuple[StoredPart, ...]


class SnapshotReader:
    """Reads partitions of a snapshot. Use it from one thread, not the event loop's."""

    def __init__(self, partitions: list[SnapshotPartition], read: ReadBytes) -> None:
        self._partitions = {one.partition: one for one in partitions}
        self._read = read

    @property
    def bounds(self) -> dict[int, tuple[int, int]]:
        """First offset of each partition, and the one behind its last."""
        return {at: (one.start, one.end) for at, one in self._partitions.items()}

    def close(self) -> None:
        """Nothing is held."""

    def first_at(self, time_ms: int) -> dict[int, int]:
        """By partition, the first offset that is not older; none where all are."""
        found = {}
        for at, one in self._partitions.items():
            young = [part for part in one.parts if part.max_timestamp_ms >= time_ms]
            for batch in self._batches(one, young, one.start, one.end):
                later = [row.offset for row in batch.records if row.timestamp_ms >= time_ms]
                if later:
                    found[at] = later[0]
                    break
        return found

    def touched(self, ranges: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
        """How many objects hold something of these offsets, and how many bytes of it."""
        parts = [
            part
            for at, (first, end) in ranges.items()
            for part in self._partitions[at].parts
            if part.first < end and part.last >= first
        ]
        return len({part.key for part in parts}), sum(part.length for part in parts)

    def read(
        self, ranges: Mapping[int, tuple[int, int]], is_stopped: Callable[[], bool]
    ) -> Iterator[list[ScannedRecord]]:
        """Yield the records of each partition in turn, a batch at a time."""
        waiting = [
            (at, self._batches(self._partitions[at], self._partitions[at].parts, first, end))
            for at, (first, end) in ranges.items()
            if first < end
        ]
        while waiting and not is_stopped():
            left = []
            for at, batches in waiting:
                batch = next(batches, None)
                if batch is not None:
                    left.append((at, batches))
                    yield [_scanned(at, row, batch.is_append_time) for row in batch.records]
            waiting = left

    def _batches(
        self, one: SnapshotPartition, parts: Sequence[StoredPart], first: int, end: int
    ) -> Iterator[DecodedBatch]:
        for part in parts:
            if part.first < min(end, one.end) and part.last >= first:
                yield from read_batches(self._read, part, max(first, one.start), min(end, one.end))


def _scanned(partition: int, row: Record, is_append_time: bool) -> ScannedRecord:
    return ScannedRecord(
        partition,
        row.offset,
        row.timestamp_ms if row.timestamp_ms >= 0 else None,
        is_append_time,
        row.key,
        row.value,
        list(row.headers),
    )
