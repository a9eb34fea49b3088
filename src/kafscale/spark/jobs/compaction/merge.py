"""Joining neighbouring segments: the plan, and the work on one group.

Here: which segments belong together, and copying their batches as they are, into one object or, of
a log that topics share, into objects sorted out by lanes. Next door: which lanes go together
(sorting_out.py), the bytes (assembly.py), committing what was written (rewriting.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kafscale.log.formats import keys, segment
from kafscale.log.formats.manifest import Manifest, Replacement, SegmentEntry
from kafscale.log.formats.segment import Span
from kafscale.model.buffers import Buffer
from kafscale.model.errors import CorruptBatch, CorruptObject, ObjectMissing
from kafscale.spark.bucket import Bucket
from kafscale.spark.jobs.compaction import assembly, lane_sort
from kafscale.spark.jobs.compaction.assembly import Output, Run
from kafscale.spark.jobs.logs import object_io
from kafscale.spark.jobs.logs.selection import ChosenLog

MOST_INPUTS: Final = 2048  # more would keep one worker busy while the others wait
LARGEST_TARGET: Final = 1 << 30  # positions in an index are 31 bits, and an object is built whole
WINDOW: Final = 4  # objects' worth of bytes that are sorted out by lanes together,
LARGEST_WINDOW: Final = 256 << 20  # but no more than this, which a worker holds in memory


class Merge(NamedTuple):
    """A group of neighbours to be joined."""

    bucket: Bucket
    folder: str
    generation: int  # the one the output is named for; planned on the one before it
    inputs: tuple[SegmentEntry, ...]
    starts: Mapping[int, int]  # log starts: lanes that lie wholly below are left behind
    interval: int  # of the index
    cut: bool = False  # leave behind single batches below the log starts, too
    lane_target: int = 0  # of objects sorted out by lanes; 0: all lanes in one object

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return sum(entry.size for entry in self.inputs)


class Rewritten(NamedTuple):
    """What became of a unit: objects that only count once a manifest names them."""

    folder: str
    replacements: tuple[Replacement, ...]
    read_bytes: int
    written_bytes: int
    problem: str = ""  # why there is none: data that must not be touched
    gone: str = ""  # why there is none: another job replaced an input, and it was swept


EntryBlock = Sequence[SegmentEntry]  # what is joined with others as a whole


def plan(
    past: Manifest, target: int, most_inputs: int = MOST_INPUTS
) -> list[tuple[SegmentEntry, ...]]:
    """Groups of neighbours worth joining: together at most `target`."""
    return _grouped([[entry] for entry in past.segments], target, most_inputs, over_gaps=False)


def plan_by_lanes(past: Manifest, target: int) -> list[tuple[SegmentEntry, ...]]:
    """Groups worth sorting out by lanes, larger than objects so that a lane gets its share.

    What a lane loses by retention leaves gaps between the others: joined over, they are none.
    """
    window = max(target, min(WINDOW * target, LARGEST_WINDOW))
    return _grouped(lane_sort.blocks(past.segments), window, MOST_INPUTS, over_gaps=True)


def _grouped(
    blocks: Sequence[EntryBlock], target: int, most_inputs: int, *, over_gaps: bool
) -> list[tuple[SegmentEntry, ...]]:
    """Neighbours that together hold at most `target`.

    A group is joined if the result is at least half of the target, and so never touched again, or
    if at most half of it is one large input: a byte is copied a few times at most in its life.
    """
    groups: list[list[EntryBlock]] = [[]]
    size = count = 0
    for block in blocks:
        group, mine = groups[-1], _size(block)
        fits = size + mine <= target and count + len(block) <= most_inputs
        torn = bool(group) and group[-1][-1].end != block[0].base and not over_gaps
        if mine * 2 >= target or not fits or torn:
            groups.append(group := [])
            size = count = 0
        if mine * 2 < target:
            group.append(block)
            size += mine
            count += len(block)
    return [
        tuple(entry for block in group for entry in block)
        for group in groups
        if _is_worth(group, target)
    ]


def _size(block: EntryBlock) -> int:
    return sum(entry.size for entry in block)


def _is_worth(group: Sequence[EntryBlock], target: int) -> bool:
    sizes = [_size(block) for block in group]
    return len(group) > 1 and (sum(sizes) * 2 >= target or max(sizes) * 2 <= sum(sizes))


def target_of(whose: ChosenLog, target: int | None) -> int:
    """How large an object should become."""
    return min(target or whose.settings.segment_bytes, LARGEST_TARGET)


def merge(unit: Merge) -> Rewritten:
    """Write one group again, under names that only this attempt uses."""
    written = 0
    entries: list[SegmentEntry] = []
    try:
        lanes = _runs(unit)
        for output in _outputs(unit, lanes):
            if unit.cut and sum(map(len, output.body)) >= unit.size:
                # The log start lies within one batch.
                return Rewritten(unit.folder, (), unit.size, 0)
            written += store(unit.bucket, unit.folder, output)
            entries.append(output.entry)
    except ObjectMissing as gone:
        return Rewritten(unit.folder, (), 0, 0, gone=str(gone))
    except (CorruptObject, CorruptBatch) as bad:
        return Rewritten(unit.folder, (), unit.size, 0, str(bad))
    replacement = Replacement(unit.inputs, tuple(entries))
    return Rewritten(unit.folder, (replacement,), unit.size, written)


def store(bucket: Bucket, folder: str, output: Output) -> int:
    """Write a segment and its index; return their size in bytes."""
    key = f"{folder}/{output.entry.name}"
    object_io.put_unique(bucket, key, output.body)
    object_io.put_unique(bucket, keys.index_of(key), [output.hint])
    return output.entry.size + len(output.hint)


def open_runs(bucket: Bucket, folder: str, entries: Sequence[SegmentEntry]) -> Iterator[list[Run]]:
    """The checked runs of each segment, one segment after the other."""
    wanted = [(f"{folder}/{entry.name}", entry.size) for entry in entries]
    for (key, _), entry, data in zip(
        wanted, entries, object_io.bodies(bucket, wanted), strict=True
    ):
        try:
            yield assembly.take_apart(entry, data)
        except (CorruptObject, CorruptBatch) as bad:
            raise CorruptObject(f"{key}: {bad}") from bad


def _runs(unit: Merge) -> dict[int, list[Run]]:
    """Each lane's runs that may still be read, in order."""
    lanes: dict[int, list[Run]] = {}
    room = _Room(unit.size)
    for runs in open_runs(unit.bucket, unit.folder, unit.inputs):
        for run in runs:
            alive = _alive(run, unit.starts.get(run.span.lane, 0), cut=unit.cut)
            if alive is not None:
                kept = alive._replace(data=room.keep(alive.data))
                lanes.setdefault(run.span.lane, []).append(kept)
    if not lanes:
        raise CorruptObject(f"{unit.folder}/{unit.inputs[0].name}: nothing of it can be read")
    for number, mine in lanes.items():
        for before, after in pairwise(mine):
            if after.span.first != before.span.last + 1:
                text = f"lane {number} goes on at {after.span.first}, after {before.span.last}"
                raise CorruptObject(f"{unit.folder}/{unit.inputs[0].name}: {text}")
    return lanes


def _outputs(unit: Merge, lanes: dict[int, list[Run]]) -> Iterator[Output]:
    """The new segments, each with its part of the positions."""
    shares = lane_sort.shares(lanes, unit.lane_target) if unit.lane_target else [lanes]
    base, end = unit.inputs[0].base, unit.inputs[-1].end
    for share, (first, until) in zip(shares, lane_sort.positions(base, end, shares), strict=True):
        yield assembly.put_together(
            first,
            until,
            share,
            generation=unit.generation,
            interval=unit.interval,
            clock=unit.bucket.clock,
            dice=unit.bucket.dice,
        )


class _Room:
    """A worker's memory for what it will write; its next unit uses the same memory.

    Fresh memory costs a page fault every 4 KiB, more than to copy the bytes.
    """

    _memory = bytearray()

    def __init__(self, size: int) -> None:
        """Have room for `size` bytes; whatever an earlier unit kept is overwritten."""
        if len(_Room._memory) < size:
            _Room._memory = bytearray(size)
        self._view = memoryview(_Room._memory)
        self._used = 0

    def keep(self, data: Buffer) -> memoryview:
        """Copy bytes that will not last."""
        end = self._used + len(data)
        self._view[self._used : end] = data
        kept = self._view[self._used : end]
        self._used = end
        return kept


def _alive(run: Run, start: int, *, cut: bool) -> Run | None:
    """What of a run may still be read."""
    if run.span.last < start:
        return None
    if not cut or run.span.first >= start:
        return run
    # The batch that holds `start` is the last that begins at or before it, or a later one.
    keep = max(at for at, base in enumerate(run.bases) if base <= start or at == 0)
    if keep == 0:
        return run
    begin = run.positions[keep]
    data = memoryview(run.data)[begin:]
    span = _summed(run.span, data, run.bases[keep])
    return Run(span, data, [at - begin for at in run.positions[keep:]], run.bases[keep:])


def _summed(span: Span, data: memoryview, first: int) -> Span:
    """The span of the rest of a run."""
    summary = segment.summarize(data, 0, len(data))
    return span._replace(
        first=first,
        length=len(data),
        records=summary.records,
        min_timestamp_ms=summary.min_timestamp_ms,
        max_timestamp_ms=summary.max_timestamp_ms,
    )
