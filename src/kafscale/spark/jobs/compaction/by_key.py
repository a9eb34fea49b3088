"""`compact --by-key`: for topics with cleanup.policy=compact.

Here: which logs are due, what of them may be touched, how it is cut into units, and the marks that
a finished compaction leaves in the manifest. Next door: the work (key_compaction.py).

Never touched: the un-rolled tail, and segments with records younger than min.compaction.lag.ms. A
tombstone goes delete.retention.ms after the first complete compaction that covered it: by then
every older record of its key has gone, and readers of the log had that long to see it.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import msgspec

from kafscale.log.formats.manifest import LaneMark, Manifest, SegmentEntry
from kafscale.log.formats.segment import Span
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.arguments import share_of
from kafscale.spark.jobs.compaction.commit_waves import Also, Tally, commit_replacements, in_waves
from kafscale.spark.jobs.compaction.key_compaction import Cleaned, Cleaning, clean, is_within
from kafscale.spark.jobs.compaction.merge import target_of
from kafscale.spark.jobs.logs import selection
from kafscale.spark.jobs.logs.selection import FoundLog

MOST_KEYS: Final = 5_000_000  # of one log at once: some 150 bytes each, more for long keys
PART_BYTES: Final = 2 << 30  # what one unit rewrites; each of a log's units learns the keys anew
_ROUNDS: Final = 50  # of a log with too many keys for one
_MARKS: Final = 16  # compactions remembered within delete.retention.ms


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
    reach: Mapping[int, int]  # the lanes it is about, and before which offset
    scope: tuple[SegmentEntry, ...]  # what may be rewritten
    dirty: tuple[SegmentEntry, ...]  # what keys are learnt from
    dirty_bytes: int
    retention_ms: Mapping[int, int]  # how long tombstones are kept, by lane


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
    ratios = {row.found.folder: dirty_ratio for row in before}
    for _ in range(_ROUNDS):
        found = [row for row in selection.find_logs(context) if row.found.folder in ratios]
        chosen = [
            work
            for row in found
            if (work := due(row, now_ms, ratios[row.found.folder])) is not None
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
    works = {work.row.found.folder: work for work in chosen}
    waiting: dict[str, list[Cleaned]] = defaultdict(list)
    parts = Counter(unit.folder for unit in units)
    cut: set[str] = set()

    def settle(results: list[Cleaned]) -> None:
        for one in results:
            tally.count(one.rewritten)
            waiting[one.rewritten.folder].append(one)
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
        for entry in work.dirty
        for span in entry.spans()
        if is_within(span, work.reach)
    )


def compacted(row: FoundLog) -> list[tuple[TopicDescriptor, list[int]]]:
    """The topics whose records go by key, and the lanes of the log that are theirs."""
    lanes: dict[str, tuple[TopicDescriptor, list[int]]] = {}
    for lane in row.found.lanes():
        topic = row.whose.of(lane)
        if topic is not None and selection.settings_of(topic).compacted:
            lanes.setdefault(topic.name, (topic, []))[1].append(lane)
    return list(lanes.values())


def due(row: FoundLog, now_ms: int, dirty_ratio: float | None) -> Due | None:
    """Which part of a log may be compacted, if that is worth it; in a shared log, by topic."""
    past = row.found.manifest
    spans: dict[int, list[Span]] = {}
    for entry in past.segments:
        for span in entry.spans():
            spans.setdefault(span.lane, []).append(span)
    reach: dict[int, int] = {}
    kept: dict[int, int] = {}
    for topic, lanes in compacted(row):
        mine = {lane: _old_enough(topic, spans.get(lane, []), now_ms) for lane in lanes}
        if _is_due(topic, past, mine, now_ms, dirty_ratio):
            reach |= {lane: rows[-1].last + 1 for lane, rows in mine.items() if rows}
            kept |= dict.fromkeys(lanes, int(selection.config_of(topic, "delete.retention.ms")))
    scope = [
        entry for entry in past.segments if any(is_within(span, reach) for span in entry.spans())
    ]
    if not scope:
        return None
    dirty = [entry for entry in scope if any(_dirty_spans(entry, past, reach))]
    size = sum(span.length for entry in dirty for span in _dirty_spans(entry, past, reach))
    return Due(row, reach, tuple(scope), tuple(dirty), size, kept)


def _old_enough(topic: TopicDescriptor, spans: Sequence[Span], now_ms: int) -> list[Span]:
    """A lane's spans up to the first with a record younger than min.compaction.lag.ms."""
    lag_ms = int(selection.config_of(topic, "min.compaction.lag.ms"))
    young = (lag_ms and span.max_timestamp_ms > now_ms - lag_ms for span in spans)
    return [span for span, _ in takewhile(lambda row: not row[1], zip(spans, young, strict=True))]


def _is_due(
    topic: TopicDescriptor,
    past: Manifest,
    lanes: Mapping[int, Sequence[Span]],
    now_ms: int,
    dirty_ratio: float | None,
) -> bool:
    """Whether enough of a topic's lanes is new, or something is urgent."""
    every = [span for rows in lanes.values() for span in rows]
    dirty = [span for span in every if _is_dirty(span, past)]
    ratio = float(selection.config_of(topic, "min.cleanable.dirty.ratio"))
    if dirty_ratio is not None:
        ratio = dirty_ratio
    if dirty and sum(s.length for s in dirty) >= ratio * sum(s.length for s in every):
        return True
    overdue_ms = now_ms - int(selection.config_of(topic, "max.compaction.lag.ms"))
    if any(span.min_timestamp_ms < overdue_ms for span in dirty):
        return True
    retention_ms = int(selection.config_of(topic, "delete.retention.ms"))
    return ratio == 0 and any(
        _horizon(past.lanes[lane], now_ms, retention_ms) for lane in lanes if lane in past.lanes
    )


def _is_dirty(span: Span, past: Manifest) -> bool:
    """Whether it has records that no compaction has looked at."""
    return span.last >= _clean_to(past.lanes.get(span.lane, LaneMark(0, 0)))


def _dirty_spans(entry: SegmentEntry, past: Manifest, reach: Mapping[int, int]) -> list[Span]:
    return [span for span in entry.spans() if is_within(span, reach) and _is_dirty(span, past)]


def _clean_to(mark: LaneMark) -> int:
    return mark.cleaned[-1][0] if mark.cleaned else 0


def horizons(past: Manifest, now_ms: int, retention_ms: Mapping[int, int]) -> dict[int, int]:
    """Per lane: the offset below which tombstones have been kept for long enough."""
    return {
        lane: _horizon(past.lanes[lane], now_ms, kept_ms)
        for lane, kept_ms in retention_ms.items()
        if lane in past.lanes
    }


def _horizon(mark: LaneMark, now_ms: int, retention_ms: int) -> int:
    return max((to for to, at_ms in mark.cleaned if at_ms <= now_ms - retention_ms), default=0)


def cleanings(
    bucket: Bucket, work: Due, now_ms: int, target: int | None, most_keys: int
) -> list[Cleaning]:
    """The units of one log."""
    past, whose = work.row.found.manifest, work.row.whose
    # In a shared log each object is rewritten by itself: `compact` has sorted them by lanes.
    most = 0 if whose.topic is None else target_of(whose, target)
    groups = _groups(work.scope, most)
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
            work.row.found.folder,
            past.generation + 1,
            work.dirty,
            tuple(part),
            work.reach,
            horizons(past, now_ms, work.retention_ms),
            whose.settings.index_interval_bytes,
            most_keys,
        )
        for part in parts
    ]


def _groups(scope: Sequence[SegmentEntry], target: int) -> list[tuple[SegmentEntry, ...]]:
    """Neighbours that together hold at most `target`: each group becomes one object."""
    groups: list[list[SegmentEntry]] = []
    size = 0
    for entry in scope:
        if not groups or size + entry.size > target or groups[-1][-1].end != entry.base:
            groups.append([])
            size = 0
        groups[-1].append(entry)
        size += entry.size
    return [tuple(group) for group in groups]


def _commit(
    bucket: Bucket, work: Due, results: Sequence[Cleaned], now_ms: int, tally: Tally
) -> dict[str, Any]:
    folder = work.row.found.folder
    wanted = [one for row in results for one in row.rewritten.replacements]
    sound = not any(row.rewritten.problem or row.rewritten.gone for row in results)
    reached = results[0].reached
    complete = sound and all(row.reached == reached for row in results)
    also = marking(reached, now_ms, work.retention_ms) if complete else None
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

    def change(old: Manifest) -> Manifest:
        lanes = dict(old.lanes)
        for lane, to in reached.items():
            if lane in lanes:
                cleaned = marks_with(lanes[lane].cleaned, to, now_ms, retention_ms[lane])
                lanes[lane] = msgspec.structs.replace(lanes[lane], cleaned=cleaned)
        return msgspec.structs.replace(old, lanes=lanes)

    def is_in(newer: Manifest) -> bool:
        return all(
            lane not in newer.lanes or _clean_to(newer.lanes[lane]) >= to
            for lane, to in reached.items()
        )

    return Also(change, is_in)


def marks_with(
    marks: Sequence[tuple[int, int]], to: int, now_ms: int, retention_ms: int
) -> list[tuple[int, int]]:
    """Add a mark: keep the highest that is old enough, and of the younger ones some.

    It is always safe to leave a mark out: tombstones then wait for a later one.
    """
    if marks and to <= marks[-1][0]:
        return list(marks)
    aged = [mark for mark in marks if mark[1] <= now_ms - retention_ms]
    young = [mark for mark in marks if mark[1] > now_ms - retention_ms]
    if len(young) > 1 and young[-1][1] - young[-2][1] < retention_ms // _MARKS:
        young.pop()
    return [*aged[-1:], *young, (to, now_ms)]


def _dry_run(found: Sequence[FoundLog], now_ms: int, dirty_ratio: float | None) -> Report:
    rows: list[dict[str, Any]] = []
    for row in found:
        work = due(selection.as_if_rolled_up(row), now_ms, dirty_ratio)
        rows.append(
            {
                "topic": row.whose.name,
                "log": row.whose.number,
                "objects": len(row.found.pieces),
                "tail_to_take_in": len(row.found.tail) if row.idle else 0,
                "objects_to_read": 0 if work is None else len(work.scope) + len(work.dirty),
                "bytes_new": 0 if work is None else work.dirty_bytes,
                "bytes": 0 if work is None else sum(entry.size for entry in work.scope),
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
