"""Adding history to lanes of a log that a broker writes at the same time.

Here: appending to the end of the log beside its owner (log/writer/job_appender.py), many lanes in
one segment, in steps small enough to fit between two flushes; and the check of all lanes before the
topic is created. If the broker or another run is faster, the job reads the log again: no offset of
a lane is added twice, by this run, by a run after a crash or by a run at the same time.
Next door: what the lanes get (steps.py), logs that belong to one topic (sink/bulk.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kafscale.log.formats.manifest import Manifest
from kafscale.log.formats.places import LanePlace
from kafscale.log.formats.segment import LaneBatches
from kafscale.log.protocol import commits, survey
from kafscale.log.protocol.commits import LostRace
from kafscale.log.writer.job_appender import JobAppender
from kafscale.model.buffers import Buffer
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.spark.bucket import Bucket
from kafscale.spark.jobs.logs import idle_tails
from kafscale.spark.jobs.logs.log_starts import raise_starts
from kafscale.spark.leftovers import LoadLost
from kafscale.spark.sink.encode import assembled
from kafscale.spark.sink.sealing import LEADER_EPOCH

STEP_BYTES: Final = 8 << 20
LEAST_STEP: Final = 64 << 10  # of a log whose owner is always faster
_INTERVAL: Final = 4096
_AUTHOR: Final = "convert"


class LaneOffsets(NamedTuple):
    """A range of offsets that a lane must get."""

    lane: int
    first: int
    until: int


Make = Callable[[int, int], LaneBatches]  # which part, from which offset on


def fill(bucket: Bucket, folder: str, parts: Sequence[LaneOffsets], make: Make) -> int:
    """Append what is missing of the parts, in order in each lane; return the bytes appended."""

    async def opened(store: ObjectStore) -> JobAppender:
        appender = JobAppender(
            store,
            folder,
            bucket.clock,
            bucket.dice,
            author=_AUTHOR,
            index_interval_bytes=_INTERVAL,
        )
        await appender.open()
        return appender

    log = bucket.run(opened)
    step, written = STEP_BYTES, 0
    is_behind = False  # another writer has appended what this job has not loaded yet
    ready: dict[int, LaneBatches] = {}  # what was made of a part and has not been added
    while True:
        chosen = _choose(log, parts, make, ready, step)
        if not chosen:
            return written
        lanes = _lanes([taken for taken, _ in chosen.values()])
        try:
            bucket.wait(log.follow_and_append(lanes) if is_behind else log.append(lanes))
        except LostRace:
            step = max(step // 2, LEAST_STEP)
            is_behind = True
            continue
        is_behind = False
        step = min(step * 2, STEP_BYTES)
        written += sum(len(body) for lane in lanes for body in lane.batches)
        for at, (_, rest) in chosen.items():
            del ready[at]
            if rest is not None:
                ready[at] = rest


def _choose(
    log: JobAppender,
    parts: Sequence[LaneOffsets],
    make: Make,
    ready: dict[int, LaneBatches],
    step: int,
) -> dict[int, tuple[LaneBatches, LaneBatches | None]]:
    """What the next segment gets: of which parts what, and what is left of them."""
    chosen: dict[int, tuple[LaneBatches, LaneBatches | None]] = {}
    reached: dict[int, int] = {}
    room = step
    for at, part in enumerate(parts):
        known = 0 if log.is_new(part.lane) else log.next(part.lane)
        first = max(part.first, reached.get(part.lane, known))
        if first >= part.until:
            continue
        if room <= 0:
            break
        if at not in ready or ready[at].first != first:
            ready[at] = make(at, first)
        taken, rest = _cut(ready[at], room)
        chosen[at] = (taken, rest)
        room -= sum(map(len, taken.batches))
        reached[part.lane] = taken.last + 1
        if rest is not None:
            break
    return chosen


def _cut(lane: LaneBatches, room: int) -> tuple[LaneBatches, LaneBatches | None]:
    """Whole batches, at least one, that fit; and the others."""
    batches = [piece for run in lane.batches for piece in _single(run)]
    size = count = 0
    for piece in batches:
        if count and size + len(piece) > room:
            break
        size += len(piece)
        count += 1
    rest = _laid(lane.lane, batches[count:]) if count < len(batches) else None
    return _laid(lane.lane, batches[:count]), rest


def _single(run: Buffer) -> list[memoryview]:
    view = memoryview(run)
    return [view[at : at + header.size] for at, header in batch.walk(view)]


def _laid(lane: int, batches: Sequence[Buffer]) -> LaneBatches:
    headers = [batch.read_header(body) for body in batches]
    return LaneBatches(
        lane,
        headers[0].base_offset,
        headers[-1].last_offset,
        sum(header.record_count for header in headers),
        min(header.base_timestamp_ms for header in headers),
        max(header.max_timestamp_ms for header in headers),
        batches,
    )


def _lanes(taken: Sequence[LaneBatches]) -> list[LaneBatches]:
    """One row per lane, in their order."""
    by_lane: dict[int, list[Buffer]] = {}
    for batches in taken:
        by_lane.setdefault(batches.lane, []).extend(batches.batches)
    return [_laid(lane, by_lane[lane]) for lane in sorted(by_lane)]


def from_offset(lane: LaneBatches, first: int) -> LaneBatches:
    """What is left of it from an offset on, which begins a batch."""
    batches = [piece for run in lane.batches for piece in _single(run)]
    left = [piece for piece in batches if batch.read_header(piece).base_offset >= first]
    return _laid(lane.lane, left)


def nothing_before(lane: int, offset: int) -> LaneBatches:
    """Makes an empty lane go on at `offset`: a batch without a record in the place before it."""
    made = assembled(
        Codec.NONE, b"", base_offset=offset - 1, last_delta=0, leader_epoch=LEADER_EPOCH,
        base_ms=-1, max_ms=-1, count=0,
    )  # fmt: skip
    return _laid(lane, [made])


# -- before the topic is visible -------------------------------------------------------------


def finish(bucket: Bucket, wanted: Mapping[LanePlace, tuple[int, int]]) -> None:
    """See to it that every lane begins where it should; LoadLost if one does not reach its end."""
    for folder in sorted({place.folder for place in wanted}):
        bounds = {place.lane: at for place, at in wanted.items() if place.folder == folder}
        _raise(bucket, folder, {lane: start for lane, (start, _) in bounds.items() if start})
        seen = bucket.run(survey.take_snapshot, folder)
        lanes = seen.lanes()
        for lane, (start, end) in bounds.items():
            begins, ends = lanes.get(lane, (0, 0))
            # There may be more: another run was faster, and the topic is in use already.
            if ends < end or (ends == end and begins > start):
                raise LoadLost(f"lane {lane} of {folder} has lost what was added: convert again")


def _raise(bucket: Bucket, folder: str, starts: dict[int, int]) -> None:
    """Tell log starts where a crash came between a lane's first segment and its manifest."""
    while True:
        seen = _newest(bucket, folder)
        marks = [seen.lanes.get(lane) for lane in starts]
        if all(mark and mark.start >= at for mark, at in zip(marks, starts.values(), strict=True)):
            return
        if None in marks:
            idle_tails.roll_up(bucket, folder)
            if any(lane not in _newest(bucket, folder).lanes for lane in starts):
                raise LoadLost(f"{folder}: what was added is not there: convert again")
        else:
            raise_starts(bucket, seen, folder, starts)


def _newest(bucket: Bucket, folder: str) -> Manifest:
    return bucket.run(commits.read_newest, folder)
