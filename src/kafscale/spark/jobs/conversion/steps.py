"""The steps of a conversion: rewriting slices at their new place, or staging them first.

Here: the request, the plan, and the work on executors. The result of every step is stored, so that
no other run repeats it. Next door: the command (jobs/convert.py), logs that topics share
(shared_append.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from kafscale.log.catalog.descriptors import TopicSpec
from kafscale.log.formats.places import LanePlace
from kafscale.log.formats.segment import LaneBatches
from kafscale.model.topics import Layout
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution.job_notes import JobNotes
from kafscale.spark.job import Context
from kafscale.spark.jobs.conversion import shared_append
from kafscale.spark.kernels.decoder import RecordDecoder
from kafscale.spark.sink import bulk, sealing
from kafscale.spark.sink.bulk import Loaded
from kafscale.spark.sink.encode import BATCH_BYTES
from kafscale.spark.sink.sealing import Seal, Sealed
from kafscale.spark.sink.staging import StagedSection, stage
from kafscale.spark.source.plan.splits import Slice
from kafscale.spark.source.rows.reading import read_split, replaced
from kafscale.spark.transfer.rewriter import rewritten

_COLUMNS: Final = ("key", "value", "offset", "timestamp", "headers")


class NewTopicSpec(NamedTuple):
    """What the new topic is to be."""

    topic: str
    to: str
    partitions: int = 0  # 0: as many as there are
    compression: str = "zstd"
    batch_bytes: int = BATCH_BYTES
    layout: Layout = "ordinary"
    logs: int = 0  # of a virtual topic; of a shared one, how many there are to be at least


class ConversionPlan(msgspec.Struct, frozen=True):
    """What the job will do, decided once."""

    wish: TopicSpec
    slices: list[Slice]  # in the order in which their records will stand
    starts: list[int]  # of the source's partitions


class SliceMove(NamedTuple):
    """A slice that keeps its offsets, and where it goes."""

    slice: Slice
    place: LanePlace
    base: int  # its first position, in a log of the topic's own

    @property
    def first(self) -> int:
        """Its first offset."""
        return self.slice.first

    @property
    def until(self) -> int:
        """The offset after its last."""
        return self.slice.until


class Filled(NamedTuple):
    """What was added to a shared log."""

    bytes: int
    maps: list[str]


class Work(NamedTuple):
    """The steps of one conversion; each is done once, also by several runs."""

    context: Context
    notes: JobNotes
    plan: ConversionPlan
    wanted: NewTopicSpec
    load: bulk.LoadPlan

    def _each(self, step: str, what: str, items: Sequence[Any], do: Any, kind: Any) -> list[Any]:
        def watch(done: int, total: int) -> None:
            self.context.progress(what, done, total, "")

        return self.notes.run(lambda: self.context.spark, step, items, do, kind, progress=watch)

    def moves(self) -> list[SliceMove]:
        """The slices and their places; those of one log divide its positions."""
        ends: dict[str, int] = {}
        moves = []
        for piece in self.plan.slices:
            place = self.load.places[piece.partition]
            start = self.plan.starts[piece.partition] if self.load.is_ordinary else 0
            base = ends.get(place.folder, start)
            ends[place.folder] = base + piece.offsets
            moves.append(SliceMove(piece, place, base))
        return moves

    def seal_in_place(self) -> list[Sealed]:
        """Write every slice as a segment of a new log."""
        bucket, wanted = self.context.bucket, self.wanted
        interval = self.load.settings.index_interval_bytes

        def seal(move: SliceMove) -> Sealed:
            lane = _packed(bucket, wanted, move.slice)
            entry = sealing.put_segment(bucket, move.place, move.base, lane, interval)
            return Sealed(move.place.folder, entry)

        return self._each("slice", "slices", self.moves(), seal, Sealed)

    def staged(self) -> list[StagedSection]:
        """Put every slice aside, divided by the new partitions."""
        bucket, target, slices = self.context.bucket, self.load.target, self.plan.slices

        def aside(at: int) -> list[StagedSection]:
            return stage(target, at, _rows(bucket, slices[at]), source=slices[at].partition)

        sections = self._each("stage", "slices", range(len(slices)), aside, list[StagedSection])
        return [row for rows in sections for row in rows]

    def seal(self, seals: Sequence[Seal]) -> list[Sealed]:
        """Write what was put aside as segments of new logs."""
        bucket = self.context.bucket
        return self._each("seal", "segments", seals, lambda one: sealing.seal(bucket, one), Sealed)

    def add(self, works: Sequence[SliceMove | Seal], starts: Mapping[int, int]) -> Loaded:
        """Add everything to the logs that the topic will share with others."""
        bucket, wanted, load = self.context.bucket, self.wanted, self.load
        bounds = {
            place: (starts.get(n, 0), starts.get(n, 0)) for n, place in enumerate(load.places)
        }
        for work in works:
            bounds[work.place] = (bounds[work.place][0], work.until)
        logs: dict[str, list[SliceMove | Seal | LanePlace]] = {}
        for work in works:
            logs.setdefault(work.place.folder, []).append(work)
        for place, (start, end) in bounds.items():
            if start == end > 0:  # nothing is left of it but its number
                logs.setdefault(place.folder, []).append(place)

        def fill(folder: str) -> Filled:
            rows = logs[folder]

            def make(at: int, first: int) -> LaneBatches:
                row = rows[at]
                if isinstance(row, LanePlace):
                    return shared_append.nothing_before(row.lane, first + 1)
                if isinstance(row, Seal):
                    return shared_append.from_offset(sealing.stamped(bucket, row), first)
                rest = row.slice.narrowed(first, row.until)
                return _packed(bucket, wanted, rest)._replace(lane=row.place.lane)

            parts = [
                shared_append.LaneOffsets(row.lane, bounds[row][1] - 1, bounds[row][1])
                if isinstance(row, LanePlace)
                else shared_append.LaneOffsets(row.place.lane, row.first, row.until)
                for row in rows
            ]
            size = shared_append.fill(bucket, folder, parts, make)
            maps = [sealing.put_map(bucket, row) for row in rows if isinstance(row, Seal)]
            return Filled(size, [name for name in maps if name])

        filled = self._each("fill", "logs", sorted(logs), fill, Filled)
        maps = [name for row in filled for name in row.maps]
        bulk.put_map_names(bucket, load.target.folder, maps)
        shared_append.finish(bucket, bounds)
        made = bulk.describe(load)
        ends = [bounds[place][1] for place in load.places]
        size = sum(row.bytes for row in filled)
        return Loaded(made, sum(work.until - work.first for work in works), size, 0, ends)


def _packed(bucket: Bucket, wanted: NewTopicSpec, piece: Slice) -> LaneBatches:
    """A slice's rows at their offsets, joined and compressed anew."""
    rows = _rows(bucket, piece)
    return rewritten(rows, piece.first, piece.until, wanted.compression, wanted.batch_bytes)


def _rows(bucket: Bucket, piece: Slice) -> Iterator[pa.RecordBatch]:
    return read_split(bucket, (piece,), RecordDecoder(_COLUMNS), None, replaced(bucket, True))
