"""Housekeeping of a log's past: roll-up, retention, sweeping. Safe beside live readers.

Here: what the owner does to history, each step ending in a manifest. Nothing is deleted that
a reader of any generation younger than the grace period could still want.
Next door: the manifest's changes as pure functions (manifest.py), their commit (commits.py),
what may be deleted (sweeping.py).
"""

from collections.abc import Callable, Sequence

import structlog

from kafscale.log.formats import index, keys, manifest, segment
from kafscale.log.formats.manifest import Entry, Manifest
from kafscale.log.formats.segment import LaneBatches, Span
from kafscale.log.protocol import commits
from kafscale.log.protocol.commits import LostRace
from kafscale.log.upkeep import sweep_plan
from kafscale.log.writer.log import Log
from kafscale.log.writer.types import State, Tail
from kafscale.model.errors import CorruptObject, ObjectMissing

logger = structlog.get_logger()


# -- roll-up ---------------------------------------------------------------------------------


def roll_up_is_due(log: Log) -> bool:
    """Whether the tail has grown long enough to become past."""
    limits = log.settings
    return log.state is State.OPEN and (
        len(log.tail) >= limits.rollup_objects or log.tail_bytes >= limits.segment_bytes
    )


async def roll_up(log: Log, *, merge: bool = True, always: bool = False) -> None:
    """Make the committed tail part of the past (rule 12).

    Runs of small flushes are merged into one object; large ones are named as they are, and
    without `merge` all of them are. `always`: without a tail, too, for what lanes are known by.
    """
    async with log.busy_with_history:
        covered = list(log.tail)
        if log.state is not State.OPEN or not (covered or always):
            return
        # Taken at once, before anything can move: all that is committed, nothing that waits.
        end, end_id = log.end, log.tail_id
        log_expiry = log.clock.now_ms() - log.settings.producer_expiry_ms
        for lane in log.lanes.values():
            lane.producers.expire(log_expiry)
        marks = {number: lane.mark() for number, lane in log.lanes.items() if lane.high}
        planned_on = log.manifest.end
        entries = []
        outputs = []
        try:
            small_below = log.settings.index_from_bytes if merge else 0
            for run in _runs(covered, small_below, log.settings.segment_bytes):
                entries.append(run[0].entry if len(run) == 1 else await _merge(log, run))
                if len(run) > 1:
                    outputs.append(entries[-1].name)
        except ObjectMissing as problem:
            logger.warning("history_race_lost", folder=log.folder, reason=f"{problem} is gone")
            await log.recover_view()
            return

        def change(old: Manifest) -> Manifest:
            if old.end != planned_on:
                raise LostRace("somebody else rolled this log up")
            return manifest.append_history(old, entries, end, end_id, marks)

        def is_in(newer: Manifest) -> bool:
            return newer.end >= end and set(outputs) <= newer.names()

        if await commit(log, change, is_in, outputs):
            log.observer.rolled_up(len(covered))
            logger.debug("rolled_up", folder=log.folder, objects=len(covered), end=end)


def _runs(tail: Sequence[Tail], small_below: int, at_most: int) -> list[list[Tail]]:
    """Cut the tail into runs of small flushes to merge and single large ones to keep."""
    runs: list[list[Tail]] = []
    size = 0
    open_run = False
    for row in tail:
        small = row.entry.size < small_below
        if small and open_run and size + row.entry.size <= at_most:
            runs[-1].append(row)
            size += row.entry.size
        else:
            runs.append([row])
            size = row.entry.size
        open_run = small
    return runs


async def _merge(log: Log, run: Sequence[Tail]) -> Entry:
    """Write several flushes as one object under a new name, batches untouched."""
    pieces: dict[int, list[tuple[Span, list[memoryview]]]] = {}
    for row in run:
        for span, batches in await _batches_of(log, row):
            pieces.setdefault(span.lane, []).append((span, batches))
    lanes = [
        LaneBatches(
            number,
            rows[0][0].first,
            rows[-1][0].last,
            sum(span.records for span, _ in rows),
            min(span.min_timestamp_ms for span, _ in rows),
            max(span.max_timestamp_ms for span, _ in rows),
            [one for _, batches in rows for one in batches],
        )
        for number, rows in sorted(pieces.items())
    ]
    return await write_anew(log, run[0].entry.base, run[-1].entry.end, lanes)


async def write_anew(log: Log, base: int, end: int, lanes: Sequence[LaneBatches]) -> Entry:
    """Write what is to stand for the positions from `base` to before `end`, with its index."""
    token = int.from_bytes(log.dice.token(4), "big")
    built = segment.build(
        base,
        end,
        lanes,
        created_ms=log.clock.now_ms(),
        token=token,
        predecessor=segment.NOTHING_BEFORE,
    )
    name = keys.rewritten_name(base, log.manifest.generation + 1, token)
    key = f"{log.folder}/{name}"
    # The name is ours alone (random token), so "taken" can only mean: by our own attempt.
    await commits.put_same(log.store, key, built.body, "rewriting")
    runs = [lane.batches for lane in lanes]
    found = index.of_pieces(built.spans, runs, log.settings.index_interval_bytes)
    await commits.put_same(log.store, keys.index_of(key), [index.encode(found)], "index")
    return manifest.entry_of(name, base, end, built.content_id, built.spans, has_index=True)


async def _batches_of(log: Log, row: Tail) -> list[tuple[Span, list[memoryview]]]:
    """A flush's batches by lane: from memory, or from the bucket if they have left it."""
    spans = row.entry.spans()
    if all(chunk.batches for _, chunk in row.chunks):
        return [
            (span, list(chunk.batches)) for span, (_, chunk) in zip(spans, row.chunks, strict=True)
        ]
    key = f"{log.folder}/{row.entry.name}"
    data = await commits.persist(lambda: log.store.read(key), "roll-up read")
    if segment.parse(data).content_id != row.entry.content_id:
        raise CorruptObject(f"{key} is not the object that was committed")
    return [(span, [data[span.start : span.start + span.length]]) for span in spans]


async def commit(
    log: Log,
    change: Callable[[Manifest], Manifest],
    is_in: Callable[[Manifest], bool],
    outputs: Sequence[str] = (),
) -> bool:
    """Commit a change of history and make the result the log's own view; False if it lost."""
    swept = set(log.swept)
    try:
        newest = await commits.commit(
            log.store,
            log.folder,
            log.manifest,
            lambda old: manifest.forget_dropped(change(old), swept),
            is_in=is_in,
            author=log.author,
            clock=log.clock,
            dice=log.dice,
            outputs=outputs,
        )
    except LostRace as problem:
        logger.warning("history_race_lost", folder=log.folder, reason=str(problem))
        await log.recover_view()
        return False
    log.swept -= swept
    if log.state is not State.OPEN or newest.generation <= log.manifest.generation:
        return True  # the log was closed or re-opened meanwhile and has its own view
    if newest.end in log.boundaries():
        log.take_manifest(newest)
    else:
        await log.recover_view()
    return True


# -- retention -------------------------------------------------------------------------------


async def retain(log: Log, now_ms: int, retention_ms: int, retention_bytes: int) -> bool:
    """Expire what is too old or too much; tells whether anything was. -1 means no limit."""
    starts = expired_starts(log, now_ms, retention_ms, retention_bytes)
    return bool(starts) and await raise_starts(log, starts)


def expired_starts(
    log: Log, now_ms: int, retention_ms: int, retention_bytes: int
) -> dict[int, int]:
    """For each lane that has something to expire: its new log start."""
    starts = {}
    for number, lane in log.lanes.items():
        spans = [span for span, _ in lane.spans]
        start = expired_start(spans, lane.start, now_ms, retention_ms, retention_bytes)
        if start > lane.start:
            starts[number] = start
    return starts


def expired_start(
    spans: Sequence[Span], start: int, now_ms: int, retention_ms: int, retention_bytes: int
) -> int:
    """Where a lane begins once what is too old or too much is gone; -1 means no limit.

    What has no time (records of message format 0) is as old as what follows it.
    """
    total = sum(span.length for span in spans)
    for span in spans:
        too_old = retention_ms >= 0 and 0 <= span.max_timestamp_ms < now_ms - retention_ms
        too_much = retention_bytes >= 0 and total - span.length >= retention_bytes
        if too_old or too_much:
            start = span.last + 1
        elif span.max_timestamp_ms >= 0:
            break
        total -= span.length
    return start


async def raise_starts(log: Log, starts: dict[int, int]) -> bool:
    """Move lane starts up, for retention or on request; whole objects below them go.

    False if nothing was to be done or somebody else's change came between: look and ask again.
    """
    reaches_tail = any(
        span.first < starts.get(span.lane, 0) for row in log.tail for span in row.entry.spans()
    )
    if reaches_tail:
        await roll_up(log)
    async with log.busy_with_history:
        if log.state is not State.OPEN:
            return False

        def change(old: Manifest) -> Manifest:
            return manifest.raise_starts(old, starts)

        def is_in(newer: Manifest) -> bool:
            return all(
                lane in newer.lanes and newer.lanes[lane].start >= start
                for lane, start in starts.items()
            )

        if is_in(log.manifest):
            return False
        if not await commit(log, change, is_in):
            return False
        # Lanes as text: a line of the log may be JSON, whose keys are nothing else.
        moved = {str(lane): start for lane, start in starts.items()}
        logger.info("log_start_moved", folder=log.folder, starts=moved)
        return True


# -- sweeping --------------------------------------------------------------------------------


async def sweep(log: Log) -> int:
    """Delete what no reader can want any more (rules 9 and 10). Gives the objects deleted."""
    if not log.sweep_due or log.state is not State.OPEN:
        return 0
    async with log.busy_with_history:
        found = await sweep_plan.examine(log.store, log.folder, log.settings.grace_s)
        if found is None:
            # Without any manifest there is nothing to sweep; else we look again next time.
            log.sweep_due = log.manifest.generation > 0
            return 0
        newest, plan = found
        if plan.delete:
            await log.store.delete(plan.delete)
        log.swept = plan.gone
        log.sweep_due = plan.unfinished
        if plan.orphans and newest.generation == log.manifest.generation:
            await commit(log, *sweep_plan.condemning(plan.orphans))
        return len(plan.delete)
