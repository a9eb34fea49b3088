"""Key compaction of one unit: only the newest record of each key stays.

Here: one pass over the part not yet compacted, which remembers the last offset of every key, and
one over the segments, which copies the records that are the newest of their key
(surviving_records.py).
Next door: what to compact and when (by_key.py), opening batches (logs/batch_records.py).
"""

from collections.abc import Mapping
from typing import NamedTuple

from kafscale.log.formats.manifest import Replacement, SegmentEntry
from kafscale.log.upkeep.cleanable import is_within
from kafscale.model.errors import BadBatch, CorruptObject, ObjectMissing
from kafscale.spark.bucket import Bucket
from kafscale.spark.jobs.compaction import assembly, merge
from kafscale.spark.jobs.compaction.assembly import Run
from kafscale.spark.jobs.compaction.merge import Rewritten
from kafscale.spark.jobs.compaction.surviving_records import Latest, Survivors, opened_run
from kafscale.spark.kernels.finders import position_finder
from kafscale.spark.kernels.positions import PositionFinder


class Cleaning(NamedTuple):
    """A part of a log to be rewritten, and all of it that keys are learnt from."""

    bucket: Bucket
    folder: str
    generation: int
    dirty: tuple[SegmentEntry, ...]  # keys are learnt from these, in order, as far as there is room
    groups: tuple[tuple[SegmentEntry, ...], ...]  # each becomes one object, if it loses anything
    reach: Mapping[int, int]  # the lanes it is about, and before which offset
    horizons: Mapping[int, int]  # per lane: tombstones below may go
    interval: int
    most_keys: int

    @property
    def inputs(self) -> tuple[SegmentEntry, ...]:
        """The objects to be rewritten."""
        return tuple(entry for group in self.groups for entry in group)

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return sum(entry.size for entry in (*self.dirty, *self.inputs))


class Cleaned(NamedTuple):
    """What became of it."""

    rewritten: Rewritten
    reached: dict[int, int]  # per lane: keys are learnt up to here
    removed: int  # records
    kept: int


def clean(unit: Cleaning) -> Cleaned:
    """Learn the keys, then rewrite the groups, under names of this attempt alone."""
    try:
        return _clean(unit, position_finder())
    except ObjectMissing as gone:
        return Cleaned(Rewritten(unit.folder, (), 0, 0, gone=str(gone)), {}, 0, 0)
    except (CorruptObject, BadBatch) as bad:
        return Cleaned(Rewritten(unit.folder, (), 0, 0, f"{unit.folder}: {bad}"), {}, 0, 0)


def _clean(unit: Cleaning, finder: PositionFinder) -> Cleaned:
    latest, reached = learn(unit, finder)
    replacements: list[Replacement] = []
    written = removed = kept = 0
    for group in unit.groups:
        filters: dict[int, Survivors] = {}
        others: dict[int, list[Run]] = {}  # what it is not about stays as it is
        for runs in merge.open_runs(unit.bucket, unit.folder, group):
            for run in runs:
                lane = run.span.lane
                if not is_within(run.span, unit.reach):
                    others.setdefault(lane, []).append(run._replace(data=bytes(run.data)))
                    continue
                if lane not in filters:
                    known, horizon = latest.get(lane, {}), unit.horizons.get(lane, 0)
                    filters[lane] = Survivors(known, horizon, finder)
                filters[lane].add(run)
        kept += sum(flags.kept for flags in filters.values())
        lost = sum(flags.removed for flags in filters.values())
        removed += lost
        if not lost:
            continue
        lanes = {lane: [flags.joined()] for lane, flags in filters.items()}
        for lane, runs in others.items():
            lanes.setdefault(lane, []).extend(runs)
        output = assembly.put_together(
            group[0].base,
            group[-1].end,
            lanes,
            generation=unit.generation,
            interval=unit.interval,
            clock=unit.bucket.clock,
            dice=unit.bucket.dice,
        )
        written += merge.store(unit.bucket, unit.folder, output)
        replacements.append(Replacement(group, (output.entry,)))
    rewritten = Rewritten(unit.folder, tuple(replacements), unit.size, written)
    return Cleaned(rewritten, reached, removed, kept)


def learn(unit: Cleaning, finder: PositionFinder) -> tuple[dict[int, Latest], dict[int, int]]:
    """Each lane's keys with their last offsets, and how far that is true.

    Stops at the end of a segment once there are too many keys: the rest is for another run.
    """
    latest: dict[int, Latest] = {}
    reached: dict[int, int] = {}
    for runs in merge.open_runs(unit.bucket, unit.folder, unit.dirty):
        for run in runs:
            if not is_within(run.span, unit.reach):
                continue
            known = latest.setdefault(run.span.lane, {})
            for piece in opened_run(run, finder):
                known.update(zip(piece.keys(), piece.positions.offsets.tolist(), strict=True))
            known.pop(None, None)
            reached[run.span.lane] = run.span.last + 1
        if sum(map(len, latest.values())) >= unit.most_keys:
            break
    return latest, reached
