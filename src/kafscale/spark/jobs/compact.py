"""`compact`: joins small objects of the history; with --by-key it removes superseded records.

Here: the command, and joining objects in rounds until nothing is left to join. Next door, in
compaction/: one group (merge.py), how it becomes part of the log's history (commit_waves.py), the
newest record of each key (by_key.py).
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.arguments import size_of
from kafscale.spark.jobs.compaction import by_key, lane_sort
from kafscale.spark.jobs.compaction.commit_waves import Tally, rewrite
from kafscale.spark.jobs.compaction.merge import Merge, merge, plan, plan_by_lanes, target_of
from kafscale.spark.jobs.logs import selection
from kafscale.spark.jobs.logs.selection import FoundLog

TAIL_IDLE_S: Final = 900.0
_ROUNDS: Final = 4  # small objects, then what they became, and once more for late roll-ups


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the job takes."""
    parser.add_argument(
        "--target", type=size_of, metavar="SIZE", help="of objects; else the topic's segment.bytes"
    )
    parser.add_argument(
        "--tail-idle",
        type=float,
        default=TAIL_IDLE_S,
        metavar="S",
        help="include tails that no broker wrote to for S seconds (900; negative: none)",
    )
    by_key.add_arguments(parser)


def run(context: Context, args: argparse.Namespace) -> Report:
    """Do what the command line says."""
    if args.by_key:
        return by_key.compact_by_key(
            context,
            target=args.target,
            tail_idle_s=args.tail_idle,
            dirty_ratio=args.dirty_ratio,
            most_keys=args.most_keys,
        )
    return compact(context, target=args.target, tail_idle_s=args.tail_idle)


def compact(
    context: Context, *, target: int | None = None, tail_idle_s: float = TAIL_IDLE_S
) -> Report:
    """Join small neighbouring objects of the chosen topics into objects of about `target` bytes."""
    bucket = context.bucket
    before = selection.find_logs(context, tail_idle_s)
    if context.dry_run:
        return _dry_run(bucket, before, target)
    notes = selection.roll_up_tails(bucket, before)
    tally = Tally()
    after = before
    for number in range(_ROUNDS):
        after = selection.find_logs(context)
        units = [unit for row in after for unit in merges(bucket, row, target)]
        if not units:
            break
        progress = selection.in_bytes(context, f"merging, round {number + 1}")
        committed = len(tally.committed)
        rewrite(context, bucket, units, merge, progress, tally)
        if len(tally.committed) == committed:
            break
    else:
        after = selection.find_logs(context)
    return tally.report("compact", _rows(before, after), notes)


def merges(bucket: Bucket, row: FoundLog, target: int | None) -> list[Merge]:
    """The groups of one log that are worth joining; in a shared log, each lane must gain."""
    past = row.snapshot.manifest
    starts = {lane: mark.start for lane, mark in past.lanes.items()}
    interval = row.whose.settings.index_interval_bytes
    size = target_of(row.whose, target)
    by_lanes = row.whose.topic is None
    return [
        Merge(
            bucket,
            row.snapshot.folder,
            past.generation + 1,
            group,
            starts,
            interval,
            lane_target=size if by_lanes else 0,
        )
        for group in (plan_by_lanes(past, size) if by_lanes else plan(past, size))
    ]


def _outputs_of(unit: Merge) -> int:
    """About how many objects a group becomes."""
    if not unit.lane_target:
        return 1
    sizes: Counter[int] = Counter()
    for entry in unit.inputs:
        for span in entry.spans():
            if span.last >= unit.starts.get(span.lane, 0):
                sizes[span.lane] += span.length
    return lane_sort.count(sizes, unit.lane_target)


def _rows(before: Sequence[FoundLog], after: Sequence[FoundLog]) -> list[dict[str, Any]]:
    now = {row.snapshot.folder: row.snapshot for row in after}
    return [
        {
            "topic": row.whose.name,
            "log": row.whose.number,
            "objects_before": len(row.snapshot.pieces),
            "objects_after": len(now[row.snapshot.folder].pieces),
            "bytes": sum(piece.size for piece in now[row.snapshot.folder].pieces),
        }
        for row in before
        if row.snapshot.folder in now  # else the topic was deleted meanwhile
    ]


def _dry_run(bucket: Bucket, logs: Sequence[FoundLog], target: int | None) -> Report:
    rows: list[dict[str, Any]] = []
    for row in logs:
        units = merges(bucket, selection.as_if_rolled_up(row), target)
        rows.append(
            {
                "topic": row.whose.name,
                "log": row.whose.number,
                "objects": len(row.snapshot.pieces),
                "tail_to_take_in": len(row.snapshot.tail) if row.idle else 0,
                "to_join": sum(len(unit.inputs) for unit in units),
                "into": sum(map(_outputs_of, units)),
                "bytes": sum(unit.size for unit in units),
            }
        )
    objects, outputs = (sum(row[name] for row in rows) for name in ("to_join", "into"))
    size = sum(row["bytes"] for row in rows)
    facts = {
        "objects_to_read": objects,
        "bytes_to_read": size,
        "objects_to_write": 2 * outputs,
        "bytes_to_write": size,
        "requests": objects + 3 * outputs + 4 * len(rows),
    }
    return Report("compact", facts, rows, dry_run=True)
