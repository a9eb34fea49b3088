"""`compact --by-key`: for topics with cleanup.policy=compact.

Here: the job, and how what is due of a log is cut into units. Next door: the work
(key_compaction.py), the rules by which a log is due, which brokers follow as well
(log/upkeep/cleanable.py).
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.upkeep import cleanable
from kafscale.log.upkeep.cleanable import Cleanable, CompactedLanes, is_within
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.arguments import share_of
from kafscale.spark.jobs.compaction.commit_waves import Also, Tally, commit_replacements, in_waves
from kafscale.spark.jobs.compaction.key_compaction import Cleaned, Cleaning, clean
from kafscale.spark.jobs.compaction.merge import target_of
from kafscale.spark.jobs.logs import selection
from kafscale.spark.jobs.logs.selection import FoundLog

MOST_KEYS: Final = 5_000_000  # of one log at once: some 150 bytes each, more for long keys
PART_BYTES: Final = 2 << 30  # what one unit rewrites; each of a log's units learns the keys anew
_ROUNDS: Final = 50  # of a log with too many keys for one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the job takes."""
    parser.add_argument(
        "--by-key", action="store_true", help="keep the newest record of each key (policy compact)"
    )
    parser.add_argument(
        "--dirty-ratio",
        type=share_of,
        metavar="R",
        help="share of new bytes from which a log is due; else min.cleanable.dirty.ratio",
    )
    parser.add_argument(
        "--most-keys", type=int, default=MOST_KEYS, metavar="N", help="remembered at once per task"
    )


class Due(NamedTuple):
    """A log with something to compact."""

    row: FoundLog
    part: Cleanable


def compact_by_key(
    context: Context,
    *,
    target: int | None = None,
    tail_idle_s: float = 900.0,
    dirty_ratio: float | None = None,
    most_keys: int = MOST_KEYS,
) -> Report:
    """Remove records that a newer one of the same key has superseded, in compacted topics."""
    bucket = context.bucket
    now_ms = bucket.run(lambda store: store.now_ms())
    before = [row for row in selection.find_logs(context, tail_idle_s) if compacted(row)]
    if context.dry_run:
        return _dry_run(before, now_ms, dirty_ratio)
    notes = selection.roll_up_tails(bucket, before)
    if not before:
        notes.append("no chosen topic has cleanup.policy=compact")
    tally = Tally()
    rows: list[dict[str, Any]] = []
    ratios = {row.snapshot.folder: dirty_ratio for row in before}
    for _ in range(_ROUNDS):
        logs = [row for row in selection.find_logs(context) if row.snapshot.folder in ratios]
        chosen = [
            work
            for row in logs
            if (work := due(row, now_ms, ratios[row.snapshot.folder])) is not None
        ]
        cut = _round(context, chosen, now_ms, target, most_keys, tally, rows)
        if not cut:
            break
        ratios = dict.fromkeys(cut, 0.0)  # go on with what did not fit, however little it is
    return tally.report("compact", rows, notes)


def _round(
    context: Context,
    chosen: Sequence[Due],
    now_ms: int,
    target: int | None,
    most_keys: int,
    tally: Tally,
    rows: list[dict[str, Any]],
) -> set[str]:
    """Compact each log as far as its keys fit into memory; return the logs that need more."""
    bucket = context.bucket
    units = [unit for work in chosen for unit in cleanings(bucket, work, now_ms, target, most_keys)]
    works = {work.row.snapshot.folder: work for work in chosen}
    waiting: dict[str, list[Cleaned]] = defaultdict(list)
    parts = Counter(unit.folder for unit in units)
    cut: set[str] = set()

    def settle(results: list[Cleaned]) -> None:
        for result in results:
            tally.count(result.rewritten)
            waiting[result.rewritten.folder].append(result)
        for name in [name for name, some in waiting.items() if len(some) == parts[name]]:
            done = waiting.pop(name)
            rows.append(_commit(bucket, works[name], done, now_ms, tally))
            if rows[-1]["complete"] and not _covers(done[0].reached, works[name]):
                cut.add(name)

    if units:
        progress = selection.in_bytes(context, "compacting by key")
        in_waves(context, units, clean, settle, progress)
    return cut


def _covers(reached: Mapping[int, int], work: Due) -> bool:
    return all(
        span.last < reached.get(span.lane, 0)
        for entry in work.part.dirty
        for span in entry.spans()
        if is_within(span, work.part.reach)
    )


def compacted(row: FoundLog) -> list[CompactedLanes]:
    """The topics whose records go by key, and the lanes of the log that are theirs.

    Lanes with open or aborted transactions are left to the brokers.
    """
    lanes: dict[str, tuple[TopicDescriptor, list[int]]] = {}
    transactions = row.snapshot.transactions()
    for lane in row.snapshot.lanes():
        topic = row.whose.of(lane)
        if topic is not None and not (lane in transactions and transactions[lane].hides_anything):
            lanes.setdefault(topic.name, (topic, []))[1].append(lane)
    topics = [
        CompactedLanes(selection.settings_of(topic), owned) for topic, owned in lanes.values()
    ]
    return [topic for topic in topics if topic.settings.compacted]


def due(row: FoundLog, now_ms: int, dirty_ratio: float | None) -> Due | None:
    """Which part of a log may be compacted, if that is worth it; in a shared log, by topic."""
    part = cleanable.find_cleanable(row.snapshot.manifest, compacted(row), now_ms, dirty_ratio)
    return None if part is None else Due(row, part)


def cleanings(
    bucket: Bucket, work: Due, now_ms: int, target: int | None, most_keys: int
) -> list[Cleaning]:
    """The units of one log."""
    past, whose = work.row.snapshot.manifest, work.row.whose
    # In a shared log each object is rewritten by itself: `compact` has sorted them by lanes.
    most = 0 if whose.topic is None else target_of(whose, target)
    groups = cleanable.group_entries(work.part.scope, most)
    parts: list[list[tuple[SegmentEntry, ...]]] = [[]]
    size = 0
    for group in groups:
        if parts[-1] and size > PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(group)
        size += sum(entry.size for entry in group)
    return [
        Cleaning(
            bucket,
            work.row.snapshot.folder,
            past.generation + 1,
            work.part.dirty,
            tuple(part),
            work.part.reach,
            cleanable.horizons(past, now_ms, work.part.retention_ms),
            whose.settings.index_interval_bytes,
            most_keys,
        )
        for part in parts
    ]


def _commit(
    bucket: Bucket, work: Due, results: Sequence[Cleaned], now_ms: int, tally: Tally
) -> dict[str, Any]:
    folder = work.row.snapshot.folder
    wanted = [replacement for row in results for replacement in row.rewritten.replacements]
    sound = not any(row.rewritten.problem or row.rewritten.gone for row in results)
    reached = results[0].reached
    complete = sound and all(row.reached == reached for row in results)
    also = marking(reached, now_ms, work.part.retention_ms) if complete else None
    committed = commit_replacements(bucket, folder, wanted, also)
    tally.settled(folder, wanted, committed)
    return {
        "topic": work.row.whose.name,
        "log": work.row.whose.number,
        "records_removed": sum(row.removed for row in results),
        "records_kept": sum(row.kept for row in results),
        "bytes_before": sum(entry.size for row in committed for entry in row.inputs),
        "bytes_after": sum(entry.size for row in committed for entry in row.outputs),
        "complete": complete and len(committed) == len(wanted),
    }


def marking(reached: Mapping[int, int], now_ms: int, retention_ms: Mapping[int, int]) -> Also:
    """Write into the manifest how far the lanes are compacted."""
    return Also(
        lambda old: cleanable.mark_cleaned(old, reached, now_ms, retention_ms),
        lambda newer: cleanable.is_marked(newer, reached),
    )


def _dry_run(logs: Sequence[FoundLog], now_ms: int, dirty_ratio: float | None) -> Report:
    rows: list[dict[str, Any]] = []
    for row in logs:
        work = due(selection.as_if_rolled_up(row), now_ms, dirty_ratio)
        scope = () if work is None else work.part.scope
        rows.append(
            {
                "topic": row.whose.name,
                "log": row.whose.number,
                "objects": len(row.snapshot.pieces),
                "tail_to_take_in": len(row.snapshot.tail) if row.idle else 0,
                "objects_to_read": 0 if work is None else len(scope) + len(work.part.dirty),
                "bytes_new": 0 if work is None else work.part.dirty_bytes,
                "bytes": sum(entry.size for entry in scope),
            }
        )
    objects = sum(row["objects_to_read"] for row in rows)
    size = sum(row["bytes"] for row in rows)
    facts = {
        "objects_to_read": objects,
        "bytes_to_read": size + sum(row["bytes_new"] for row in rows),
        "bytes_to_write_at_most": size,
        "requests_at_most": 4 * objects + 4 * len(rows),
    }
    return Report("compact", facts, rows, dry_run=True)
