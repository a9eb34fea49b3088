"""Roll-up: the committed tail becomes past (rule 12). Safe beside live readers.

Here: merging small flushes and writing the manifest that names the result; writing a segment that
stands for others.
Next door: the lock and the commit (writer/history.py), the manifest's changes as pure functions
(formats/manifest.py), what becomes of the flushes that were merged (sweep.py).
"""

from collections.abc import Sequence

import structlog

from kafscale.log.formats import index, keys, manifest, segment
from kafscale.log.formats.manifest import Manifest, SegmentEntry
from kafscale.log.formats.segment import LaneBatches, Span
from kafscale.log.protocol import commits
from kafscale.log.protocol.commits import LostRace
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.log.writer.types import TailFlush
from kafscale.model.errors import CorruptObject, ObjectMissing

logger = structlog.get_logger()


def roll_up_is_due(log: Log) -> bool:
    """Whether the tail has grown long enough to become past."""
    limits, committed = log.settings, log.committed
    return log.state is LogState.OPEN and (
        len(committed.tail) >= limits.rollup_objects or committed.tail_bytes >= limits.segment_bytes
    )


async def roll_up(log: Log, *, merge: bool = True, always: bool = False) -> None:
    """Make the committed tail part of the past (rule 12).

    Runs of small flushes are merged into one object. Large ones are named as they are, and
    without `merge` all of them are. `always`: even without a tail, to write down what is known of
    the lanes.
    """
    async with log.history:
        covered = list(log.committed.tail)
        if log.state is not LogState.OPEN or not (covered or always):
            return
        # Read at once, before any await: all that is committed, nothing that waits.
        end, end_id = log.committed.end, log.committed.end_id
        before_ms = log.clock.now_ms() - log.settings.producer_expiry_ms
        for lane in log.lanes.values():
            lane.expire_producers(before_ms)
        marks = log.committed.marks()
        planned_on = log.committed.manifest.end
        try:
            entries, outputs = await _entries(log, covered, merge=merge)
        except ObjectMissing as problem:
            logger.warning("history_race_lost", folder=log.folder, reason=f"{problem} is gone")
            await log.history.follow()
            return

        def change(old: Manifest) -> Manifest:
            if old.end != planned_on:
                raise LostRace("another writer rolled this log up")
            return manifest.append_history(old, entries, end, end_id, marks)

        def is_in(newer: Manifest) -> bool:
            return newer.end >= end and set(outputs) <= newer.names()

        if await log.history.commit(change, is_in, outputs):
            log.observer.rolled_up(len(covered))
            logger.debug("rolled_up", folder=log.folder, objects=len(covered), end=end)


async def _entries(
    log: Log, covered: Sequence[TailFlush], *, merge: bool
) -> tuple[list[SegmentEntry], list[str]]:
    """What the manifest will list for these flushes, and the names of objects written for it."""
    small_below = log.settings.index_from_bytes if merge else 0
    entries, outputs = [], []
    for run in _runs(covered, small_below, log.settings.segment_bytes):
        if len(run) == 1:
            entries.append(run[0].entry)
        else:
            entries.append(await _merge(log, run))
            outputs.append(entries[-1].name)
    return entries, outputs


def _runs(tail: Sequence[TailFlush], small_below: int, at_most: int) -> list[list[TailFlush]]:
    """Cut the tail into runs of small flushes to merge and single large ones to keep."""
    runs: list[list[TailFlush]] = []
    size = 0
    open_run = False
    for flush in tail:
        small = flush.entry.size < small_below
        if small and open_run and size + flush.entry.size <= at_most:
            runs[-1].append(flush)
            size += flush.entry.size
        else:
            runs.append([flush])
            size = flush.entry.size
        open_run = small
    return runs


async def _merge(log: Log, run: Sequence[TailFlush]) -> SegmentEntry:
    """Write several flushes as one object under a new name, batches untouched."""
    parts: dict[int, list[tuple[Span, list[memoryview]]]] = {}
    for flush in run:
        for span, batches in await _batches_of(log, flush):
            parts.setdefault(span.lane, []).append((span, batches))
    lanes = [
        LaneBatches(
            number,
            lane_parts[0][0].first,
            lane_parts[-1][0].last,
            sum(span.records for span, _ in lane_parts),
            min(span.min_timestamp_ms for span, _ in lane_parts),
            max(span.max_timestamp_ms for span, _ in lane_parts),
            [data for _, batches in lane_parts for data in batches],
        )
        for number, lane_parts in sorted(parts.items())
    ]
    return await write_anew(log, run[0].entry.base, run[-1].entry.end, lanes)


async def _batches_of(log: Log, flush: TailFlush) -> list[tuple[Span, list[memoryview]]]:
    """A flush's batches by lane: from memory, or from the bucket if they have left it."""
    spans = flush.entry.spans()
    if all(chunk.batches for _, chunk in flush.chunks):
        return [
            (span, list(chunk.batches))
            for span, (_, chunk) in zip(spans, flush.chunks, strict=True)
        ]
    data = await read_committed(log, flush.entry, "roll-up read")
    return [(span, [data[span.start : span.start + span.length]]) for span in spans]


async def read_committed(log: Log, entry: SegmentEntry, what: str) -> memoryview:
    """Read an object of the log; CorruptObject unless it is the one that was committed."""
    key = f"{log.folder}/{entry.name}"
    data = await commits.persist(lambda: log.store.read(key), what)
    if segment.parse(data).content_id != entry.content_id:
        raise CorruptObject(f"{key} is not the object that was committed")
    return data


async def write_anew(log: Log, base: int, end: int, lanes: Sequence[LaneBatches]) -> SegmentEntry:
    """Write the object that will stand for the positions from `base` to `end`, with its index."""
    token = int.from_bytes(log.dice.token(4), "big")
    built = segment.build(
        base,
        end,
        lanes,
        created_ms=log.clock.now_ms(),
        token=token,
        predecessor=segment.NOTHING_BEFORE,
    )
    name = keys.rewritten_name(base, log.committed.manifest.generation + 1, token)
    key = f"{log.folder}/{name}"
    # The name is ours alone (random token), so "taken" can only mean: by our own attempt.
    await commits.put_same(log.store, key, built.body, "rewriting")
    runs = [lane.batches for lane in lanes]
    made = index.of_pieces(built.spans, runs, log.settings.index_interval_bytes)
    await commits.put_same(log.store, keys.index_of(key), [index.encode(made)], "index")
    return manifest.entry_of(name, base, end, built.content_id, built.spans, has_index=True)
