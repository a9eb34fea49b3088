"""Housekeeping of a log's past: roll-up, retention, sweeping. Safe beside live readers.

Here: what the owner does to history, each step ending in a manifest. Nothing is deleted that
a reader of any generation younger than the grace period could still want.
Next door: the manifest's changes as pure functions (manifest.py), their commit (commits.py).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from kafscale.log import commits, index, keys, manifest, segment
from kafscale.log.commits import LostRace
from kafscale.log.log import Log
from kafscale.log.manifest import Dropped, Entry, Manifest
from kafscale.log.segment import LaneBatches
from kafscale.log.settings import State, Tail
from kafscale.model.errors import CorruptObject, ObjectMissing
from kafscale.objects.store import StoredObject

logger = structlog.get_logger()


# -- roll-up ---------------------------------------------------------------------------------


def roll_up_is_due(log: Log) -> bool:
    """Whether the tail has grown long enough to become past."""
    limits = log.settings
    return log.state is State.OPEN and (
        len(log.tail) >= limits.rollup_objects or log.tail_bytes >= limits.segment_bytes
    )


async def roll_up(log: Log) -> None:
    """Make the committed tail part of the past (rule 12).

    Runs of small flushes are merged into one object; large ones are named as they are.
    """
    async with log.busy_with_history:
        covered = list(log.tail)
        if log.state is not State.OPEN or not covered:
            return
        # Taken at once, before anything can move: all that is committed, nothing that waits.
        end, end_id = log.end, log.tail_id
        log_expiry = log.clock.now_ms() - log.settings.producer_expiry_ms
        for lane in log.lanes.values():
            lane.producers.expire(log_expiry)
        marks = {number: lane.mark() for number, lane in log.lanes.items()}
        planned_on = log.manifest.end
        entries = []
        outputs = []
        try:
            for run in _runs(covered, log.settings.index_from_bytes, log.settings.segment_bytes):
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

        if await _commit(log, change, is_in, outputs):
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
    pieces: dict[int, list[tuple[segment.Span, list[memoryview]]]] = {}
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
    first, last = run[0].entry, run[-1].entry
    token = int.from_bytes(log.dice.token(4), "big")
    built = segment.build(
        first.base,
        last.end,
        lanes,
        created_ms=log.clock.now_ms(),
        token=token,
        predecessor=segment.NOTHING_BEFORE,
    )
    name = keys.rewritten_name(first.base, log.manifest.generation + 1, token)
    key = f"{log.folder}/{name}"
    # The name is ours alone (random token), so "taken" can only mean: by our own attempt.
    await commits.put_same(log.store, key, built.body, "roll-up")
    runs = [lane.batches for lane in lanes]
    found = index.of_pieces(built.spans, runs, log.settings.index_interval_bytes)
    await commits.put_same(log.store, keys.index_of(key), [index.encode(found)], "index")
    return manifest.entry_of(
        name, first.base, last.end, built.content_id, built.spans, has_index=True
    )


async def _batches_of(log: Log, row: Tail) -> list[tuple[segment.Span, list[memoryview]]]:
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


async def _commit(
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
        total = sum(span.length for span, _ in lane.spans)
        start = lane.start
        for span, _ in lane.spans:
            too_old = retention_ms >= 0 and 0 <= span.max_timestamp_ms < now_ms - retention_ms
            too_much = retention_bytes >= 0 and total - span.length >= retention_bytes
            if not (too_old or too_much):
                break
            total -= span.length
            start = span.last + 1
        if start > lane.start:
            starts[number] = start
    return starts


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
        if not await _commit(log, change, is_in):
            return False
        # Lanes as text: a line of the log may be JSON, whose keys are nothing else.
        moved = {str(lane): start for lane, start in starts.items()}
        logger.info("log_start_moved", folder=log.folder, starts=moved)
        return True


# -- sweeping --------------------------------------------------------------------------------


class Sweep(NamedTuple):
    """What a look at the bucket found to do."""

    delete: list[str]
    gone: set[str]  # dropped names that are deleted by now or have been before
    orphans: list[str]  # to be put on the dropped list, deleted by a later sweep
    unfinished: bool  # something is waiting for its grace period


async def sweep(log: Log) -> int:
    """Delete what no reader can want any more (rules 9 and 10). Gives the objects deleted."""
    if not log.sweep_due or log.state is not State.OPEN:
        return 0
    async with log.busy_with_history:
        now_ms = await log.store.now_ms()
        listing = await log.store.find(log.folder)
        young = now_ms - int(log.settings.grace_s * 1000)
        generations = _generations(listing)
        if not generations:
            log.sweep_due = False
            return 0
        newest = await commits.read_generation(log.store, log.folder, max(generations))
        aged_one = max((g for g, ms in generations.items() if ms <= young), default=0)
        aged = await commits.read_generation(log.store, log.folder, aged_one)
        # What was read must be what was listed: another sweeper may have deleted a manifest in
        # between, and a late PUT may have brought its name back with other contents.
        again = _generations(await _list_manifests(log))
        if max(again, default=0) != newest.generation or again.get(aged_one) != generations.get(
            aged_one
        ):
            return 0
        plan = plan_sweep(listing, newest, aged, young, now_ms)
        if plan.delete:
            await log.store.delete(plan.delete)
        log.swept = plan.gone
        log.sweep_due = plan.unfinished
        if plan.orphans and newest.generation == log.manifest.generation:
            await _condemn(log, plan.orphans)
        return len(plan.delete)


def _generations(listing: Sequence[StoredObject]) -> dict[int, int]:
    """Manifest generations and when they were written."""
    return {
        generation: row.modified_ms
        for row in listing
        if (generation := keys.parse_generation(row.key)) is not None
    }


async def _list_manifests(log: Log) -> list[StoredObject]:
    return await log.store.find(
        log.folder,
        after=keys.manifest(log.folder, 0),
        before=keys.manifests_before(log.folder),
    )


def plan_sweep(
    listing: Sequence[StoredObject],
    newest: Manifest,
    aged: Manifest,
    young_ms: int,
    now_ms: int = 0,
) -> Sweep:
    """Decide what may go, from one listing, the newest manifest and the newest aged one.

    `aged` is at least a grace period old. It outlives its successor by the same period, so
    one exists as soon as any manifest is old enough, however often new ones are written.
    What a pin holds that has not expired stays, whatever the manifests say.
    """
    named = newest.names()
    dropped = {row.name: row.generation for row in newest.dropped}
    listed = {row.key.rpartition("/")[2] for row in listing}
    delete, orphans = [], []
    unfinished = False
    pins = {row.key: pin for row in listing if (pin := keys.parse_pin(row.key))}
    holding = [pin for pin in pins.values() if pin.expires_ms > now_ms]
    held: set[str] = set()
    for row in listing:
        name = row.key.rpartition("/")[2]
        if row.key in pins:
            if pins[row.key] in holding:
                unfinished = True
            else:
                delete.append(row.key)
            continue
        generation = keys.parse_generation(name)
        if generation is not None:
            if generation < aged.generation:
                delete.append(row.key)
            elif generation < newest.generation:
                unfinished = True
            continue
        found = keys.parse_segment(name)
        if found is None:
            continue
        owner = name.removesuffix(".index") + ".kfs" if found.is_index else name
        if owner in named:
            continue
        if any(pin.holds(found, dropped.get(owner)) for pin in holding):
            held.add(owner)
            continue
        if owner in dropped:
            if dropped[owner] <= aged.generation:
                delete.append(row.key)
            else:
                unfinished = True
        elif found.generation is None:
            if found.base < aged.end:
                delete.append(row.key)
            elif found.base < newest.end:
                unfinished = True
        elif not found.is_index:
            if row.modified_ms <= young_ms:
                orphans.append(name)
            unfinished = True
        elif owner not in listed:
            # A reader rebuilt it too late, or a rewriter died. Only a hint, needed by nobody.
            if row.modified_ms <= young_ms:
                delete.append(row.key)
            else:
                unfinished = True
    gone = {
        name
        for name, generation in dropped.items()
        if generation <= aged.generation and name not in held
    }
    return Sweep(delete, gone, orphans, unfinished)


async def _condemn(log: Log, orphans: Sequence[str]) -> None:
    """Outputs that no manifest ever named are dropped by a generation of their own first."""

    def change(old: Manifest) -> Manifest:
        known = old.names() | {row.name for row in old.dropped}
        rows = [Dropped(name, old.generation + 1) for name in orphans if name not in known]
        return manifest.drop(old, rows)

    def is_in(newer: Manifest) -> bool:
        return set(orphans) <= {row.name for row in newer.dropped} | newer.names()

    await _commit(log, change, is_in)
