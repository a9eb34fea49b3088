"""What key compaction leaves of a lane: which records, and their batches without the rest.

A batch that loses everything goes; only the first and the last one of an object stay as empty
ones, so that the object still covers the offsets it names and a reader at any of them finds its
way on.
Here: pure work on many batches at once. Next door: the rule, and one batch without some of its
records (records/compacted.py), where the newest offsets come from (key_compaction.py).
"""

from collections.abc import Iterator
from itertools import accumulate, repeat
from typing import NamedTuple

import numpy as np

from kafscale.log.formats.segment import Span, summarize
from kafscale.records import batch, compacted
from kafscale.spark.jobs.compaction.assembly import Run
from kafscale.spark.jobs.logs import batch_records
from kafscale.spark.jobs.logs.batch_records import OpenedBatches
from kafscale.spark.kernels import scan
from kafscale.spark.kernels.arrays import BoolArray, LongArray
from kafscale.spark.kernels.positions import PositionFinder

Latest = dict[bytes | None, int]  # of one lane: key -> its last offset


class _Piece(NamedTuple):
    """A batch that stays, perhaps without some of its records."""

    base: int
    data: bytes | bytearray
    counts: bool  # False: an empty one that only marks an end


def opened_run(run: Run, finder: PositionFinder) -> Iterator[OpenedBatches]:
    """The batches of a run, opened slice by slice."""
    data = memoryview(run.data)
    headers = scan.read_headers(np.frombuffer(data, np.uint8), run.positions)
    return batch_records.slices(data, headers, finder)


class Survivors:
    """Filters the runs of one lane that become part of one object."""

    def __init__(self, latest: Latest, horizon: int, finder: PositionFinder) -> None:
        """Keep what `latest` does not know a newer record of; tombstones below `horizon` go."""
        self._latest = latest
        self._horizon = horizon
        self._finder = finder
        self._pieces: list[_Piece] = []
        self._spans: list[Span] = []
        self.kept = 0
        self.removed = 0

    def add(self, run: Run) -> None:
        """Take in the lane's next run; nothing of its memory is kept."""
        if len(self._pieces) > 1 and not self._pieces[-1].counts:
            self._pieces.pop()  # empty, and no longer the last
        data = memoryview(run.data)
        edges = {len(run.positions) - 1} if self._pieces else {0, len(run.positions) - 1}
        for piece in opened_run(run, self._finder):
            keep = self._keep(piece)
            self.kept += int(keep.sum())
            self.removed += len(keep) - int(keep.sum())
            self._pieces += _left(data, piece, keep, edges)
        self._spans.append(run.span)

    def joined(self) -> Run:
        """The lane without what was superseded; at least one batch is left, if an empty one."""
        pieces = self._pieces
        data = b"".join(piece.data for piece in pieces)
        sizes = [len(piece.data) for piece in pieces]
        positions = [0, *accumulate(sizes[:-1])]
        summary = summarize(memoryview(data), 0, len(data))
        first, last = self._spans[0], self._spans[-1]
        span = Span(
            first.lane,
            first.first,
            last.last,
            0,
            len(data),
            summary.min_timestamp_ms,
            summary.max_timestamp_ms,
            summary.records,
        )
        return Run(span, data, positions, [piece.base for piece in pieces])

    def _keep(self, piece: OpenedBatches) -> BoolArray:
        offsets = piece.positions.offsets
        newest = np.fromiter(
            map(self._latest.get, piece.keys(), repeat(-1)), np.int64, len(offsets)
        )
        is_value = ~piece.positions.value_nulls | piece.positions.key_nulls
        keep: BoolArray = compacted.survives(offsets, newest, is_value, self._horizon)
        return keep


def _left(
    data: memoryview, piece: OpenedBatches, keep: BoolArray, edges: set[int]
) -> Iterator[_Piece]:
    """The batches of a slice that stay."""
    counts = piece.regions.counts
    firsts = np.concatenate([[0], np.cumsum(counts)])
    survivors = np.concatenate([[0], np.cumsum(keep)])
    left = (survivors[firsts[1:]] - survivors[firsts[:-1]]).tolist()
    control = piece.headers.flagged(batch.CONTROL).tolist()
    places = zip(piece.headers.positions.tolist(), piece.headers.sizes.tolist(), strict=True)
    for row, (position, size) in enumerate(places):
        whole = data[position : position + size]
        base = int(piece.regions.base_offsets[row])
        if control[row] or (left[row] and left[row] == counts[row]):
            yield _Piece(base, bytes(whole), counts=True)
        elif left[row]:
            of = slice(int(firsts[row]), int(firsts[row + 1]))
            times = piece.positions.times_ms[of]
            yield _Piece(base, _without(whole, piece, row, keep[of], times), counts=True)
        elif piece.rows[row] in edges:
            yield _Piece(base, compacted.without_records(batch.read_header(whole)), counts=False)


def _without(
    whole: memoryview, piece: OpenedBatches, row: int, keep: BoolArray, times_ms: LongArray
) -> bytearray:
    """A batch with only some of its records."""
    header = batch.read_header(whole)
    start, end = int(piece.regions.starts[row]), int(piece.regions.ends[row])
    records = piece.buffer[start:end].tobytes()
    bounds = _bounds(records, header.record_count)
    left = [records[bounds[at] : bounds[at + 1]] for at in np.flatnonzero(keep).tolist()]
    return compacted.with_records(header, left, int(times_ms[keep].max()))


def _bounds(records: bytes, count: int) -> list[int]:
    """Where each of the records begins, and where the last one ends; they are known to be sound."""
    bounds = [0]
    at = 0
    for _ in range(count):
        byte = records[at]
        at += 1
        raw = byte & 0x7F
        shift = 7
        while byte > 0x7F:
            byte = records[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
        at += raw >> 1
        bounds.append(at)
    return bounds
