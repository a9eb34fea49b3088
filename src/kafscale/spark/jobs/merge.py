"""Joining neighbouring segments into one: the plan, and the work on one group.

Here: which segments belong together, and copying their batches as they are. Next door: the bytes
(assembly.py), committing what was written (rewriting.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kafscale.log import keys, segment
from kafscale.log.manifest import Entry, Manifest, Replacement
from kafscale.log.segment import Span
from kafscale.model.errors import CorruptBatch, CorruptObject, ObjectMissing
from kafscale.objects.store import Buffer
from kafscale.spark.bucket import Bucket
from kafscale.spark.jobs import assembly, transfer
from kafscale.spark.jobs.assembly import Output, Run

MOST_INPUTS: Final = 2048  # more would keep one worker busy while the others wait
LARGEST_TARGET: Final = 1 << 30  # positions in an index are 31 bits, and an object is built whole


class Merge(NamedTuple):
    """A group of neighbours to be joined."""

    bucket: Bucket
    folder: str
    generation: int  # the one the output is named for; planned on the one before it
    inputs: tuple[Entry, ...]
    starts: Mapping[int, int]  # log starts: lanes that lie wholly below are left behind
    interval: int  # of the index
    cut: bool = False  # leave behind single batches below the log starts, too

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
    gone: str = ""  # why there is none: an input that somebody else replaced and swept


def plan(past: Manifest, target: int, most_inputs: int = MOST_INPUTS) -> list[tuple[Entry, ...]]:
    """Groups of neighbours worth joining: together at most `target`.

    A group is joined if the result is at least half of the target, and so never touched again, or
    if at most half of it is one large input: a byte is copied a few times at most in its life.
    """
    groups: list[list[Entry]] = [[]]
    size = 0
    for entry in past.segments:
        group = groups[-1]
        fits = size + entry.size <= target and len(group) < most_inputs
        if entry.size * 2 >= target or not fits or (group and group[-1].end != entry.base):
            groups.append(group := [])
            size = 0
        if entry.size * 2 < target:
            group.append(entry)
            size += entry.size
    return [tuple(group) for group in groups if _is_worth(group, target)]


def _is_worth(group: Sequence[Entry], target: int) -> bool:
    sizes = [entry.size for entry in group]
    return len(group) > 1 and (sum(sizes) * 2 >= target or max(sizes) * 2 <= sum(sizes))


def merge(unit: Merge) -> Rewritten:
    """Write one group as one object, under a name of this attempt alone."""
    try:
        output = _join(unit)
    except ObjectMissing as gone:
        return Rewritten(unit.folder, (), 0, 0, gone=str(gone))
    except (CorruptObject, CorruptBatch) as bad:
        return Rewritten(unit.folder, (), unit.size, 0, str(bad))
    if unit.cut and sum(map(len, output.body)) >= unit.size:
        return Rewritten(unit.folder, (), unit.size, 0)  # the log start lies within one batch
    written = store(unit.bucket, unit.folder, output)
    replacement = Replacement(unit.inputs, (output.entry,))
    return Rewritten(unit.folder, (replacement,), unit.size, written)


def store(bucket: Bucket, folder: str, output: Output) -> int:
    """Write a segment and its index; gives their bytes."""
    key = f"{folder}/{output.entry.name}"
    transfer.put_own(bucket, key, output.body)
    transfer.put_own(bucket, keys.index_of(key), [output.hint])
    return output.entry.size + len(output.hint)


def open_runs(bucket: Bucket, folder: str, entries: Sequence[Entry]) -> Iterator[list[Run]]:
    """The checked runs of each segment, one segment after the other."""
    wanted = [(f"{folder}/{entry.name}", entry.size) for entry in entries]
    for (key, _), entry, data in zip(wanted, entries, transfer.bodies(bucket, wanted), strict=True):
        try:
            yield assembly.take_apart(entry, data)
        except (CorruptObject, CorruptBatch) as bad:
            raise CorruptObject(f"{key}: {bad}") from bad


def _join(unit: Merge) -> Output:
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
    return assembly.put_together(
        unit.inputs[0].base,
        unit.inputs[-1].end,
        lanes,
        generation=unit.generation,
        interval=unit.interval,
        clock=unit.bucket.clock,
        dice=unit.bucket.dice,
    )


class _Room:
    """A worker's memory for what it is about to write, used again by its next unit.

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
    found = segment.summarize(data, 0, len(data))
    return span._replace(
        first=first,
        length=len(data),
        records=found.records,
        min_timestamp_ms=found.min_timestamp_ms,
        max_timestamp_ms=found.max_timestamp_ms,
    )
