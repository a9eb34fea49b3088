"""`retain`: expires records by retention, rewrites objects that are mostly dead, sweeps leftovers.

Here: the command, retention by the bucket's own descriptors, the report. Next door: rewriting
(compaction/merge.py, compaction/commit_waves.py), what may be deleted (log/upkeep/sweep.py),
deleted topics (logs/removal.py).

Live brokers do the same, so that the job finds little to do beside them. It is for buckets whose
brokers are few, busy or gone. Only brokers know the defaults of settings that a topic does not have
itself: without --default-retention-ms the job does not expire such a topic.
"""

import argparse
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from kafscale.log.formats import manifest
from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.formats.segment import Span
from kafscale.log.protocol.survey import LogSnapshot
from kafscale.log.upkeep import retention
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.arguments import share_of
from kafscale.spark.jobs.compaction.commit_waves import Tally, rewrite
from kafscale.spark.jobs.compaction.merge import Merge, merge
from kafscale.spark.jobs.logs import removal, selection
from kafscale.spark.jobs.logs.log_starts import raise_starts
from kafscale.spark.jobs.logs.selection import FoundLog

TAIL_IDLE_S: Final = 900.0
GRACE_S: Final = 600.0
DEAD_SHARE: Final = 0.5
_PLANNED: Final = (
    "lanes_to_move",
    "objects_to_drop",
    "objects_to_rewrite",
    "bytes_to_read",
    "objects_to_sweep",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the job takes."""
    parser.add_argument(
        "--grace",
        type=float,
        default=GRACE_S,
        metavar="S",
        help="keep replaced objects for S seconds (600); at least the brokers' gracePeriod",
    )
    parser.add_argument(
        "--dead-share",
        type=share_of,
        default=DEAD_SHARE,
        metavar="R",
        help="rewrite objects of which at least this share is below the log start (0.5)",
    )
    parser.add_argument(
        "--tail-idle",
        type=float,
        default=TAIL_IDLE_S,
        metavar="S",
        help="expire tails, too, that no broker wrote to for S seconds (900; negative: none)",
    )
    parser.add_argument(
        "--default-retention-ms",
        type=int,
        metavar="MS",
        help="retention of topics without retention.ms",
    )
    parser.add_argument(
        "--default-retention-bytes",
        type=int,
        metavar="N",
        help="retention of topics without retention.bytes",
    )


def run(context: Context, args: argparse.Namespace) -> Report:
    """Do what the command line says."""
    return retain(
        context,
        grace_s=args.grace,
        dead_share=args.dead_share,
        tail_idle_s=args.tail_idle,
        default_ms=args.default_retention_ms,
        default_bytes=args.default_retention_bytes,
    )


def retain(
    context: Context,
    *,
    grace_s: float = GRACE_S,
    dead_share: float = DEAD_SHARE,
    tail_idle_s: float = TAIL_IDLE_S,
    default_ms: int | None = None,
    default_bytes: int | None = None,
) -> Report:
    """Expire, rewrite and sweep the chosen topics, then remove what deleted ones left behind."""
    bucket = context.bucket
    now_ms = bucket.run(lambda store: store.now_ms())
    rules = Rules(now_ms, default_ms, default_bytes, removal.ended_lanes(context, grace_s))
    logs = selection.find_logs(context, tail_idle_s)
    if context.dry_run:
        return _dry_run(context, logs, rules, dead_share, grace_s)
    idle = [row for row in logs if row.idle]
    stale = [row for row in idle if new_starts(selection.as_if_rolled_up(row), rules)]
    notes = selection.roll_up_tails(bucket, stale)
    expired = expire_all(context, rules)
    tally = Tally()
    units = [
        unit
        for row in selection.find_logs(context)
        for unit in mostly_dead(bucket, row, rules, dead_share)
    ]
    if units:
        progress = selection.in_bytes(context, "rewriting")
        rewrite(context, bucket, units, merge, progress, tally)
    swept = removal.sweep_all(context, grace_s)
    removed = removal.remove_deleted(context, grace_s)
    rows = [
        {
            "topic": row.whose.name,
            "log": row.whose.number,
            "lanes_moved": expired.get(row.snapshot.folder, 0),
            "objects_swept": swept.get(row.snapshot.folder, 0),
            "objects_before": len(row.snapshot.pieces),
        }
        for row in logs
    ]
    report = tally.report("retain", rows, notes)
    report.facts |= {
        "logs_expired": len(expired),
        "objects_swept": sum(swept.values()),
        "objects_of_deleted_topics": sum(removed.values()),
    }
    return report


class Rules(NamedTuple):
    """What expires, besides what the topics' own settings say."""

    now_ms: int
    default_ms: int | None = None
    default_bytes: int | None = None
    ended: Mapping[str, Set[int]] = {}  # lanes of deleted topics, by the folder of their log

    def ended_in(self, folder: str) -> Set[int]:
        """The lanes of one log that have ended."""
        return self.ended.get(folder, frozenset())


def limits_of(
    topic: TopicDescriptor, default_ms: int | None, default_bytes: int | None
) -> tuple[int, int]:
    """Retention in milliseconds and bytes; -1 where there is none, or where it is unknown."""
    settings = selection.settings_of(topic)
    if not settings.deletes:
        return -1, -1
    known = topic.configs
    by_time = settings.retention_ms if "retention.ms" in known else default_ms
    by_size = settings.retention_bytes if "retention.bytes" in known else default_bytes
    return -1 if by_time is None else by_time, -1 if by_size is None else by_size


def new_starts(row: FoundLog, rules: Rules) -> dict[int, int]:
    """For each lane with something to expire: its new log start, at most the manifest's end.

    Every lane goes by its own topic's limits. One of a topic that was not chosen is left alone,
    one of a topic that is gone starts where it ends.
    """
    past, ended = row.snapshot.manifest, rules.ended_in(row.snapshot.folder)
    starts: dict[int, int] = {}
    for lane, spans in _spans_by_lane(row.snapshot).items():
        mark = past.lanes.get(lane)
        if mark is None:
            continue  # all of it lies in the tail
        start = mark.next
        if lane not in ended:
            topic = row.whose.of(lane)
            limits = (-1, -1) if topic is None else limits_of(topic, *rules[1:3])
            alive = [span for span in spans if span.last >= mark.start]
            start = retention.expired_start(alive, mark.start, rules.now_ms, *limits)
        start = min(start, mark.next)
        if start > mark.start:
            starts[lane] = start
    return starts


def _spans_by_lane(log: LogSnapshot) -> dict[int, list[Span]]:
    lanes: dict[int, list[Span]] = {}
    for piece in log.pieces:
        for span in piece.spans:
            lanes.setdefault(span.lane, []).append(span)
    return lanes


def expire_all(context: Context, rules: Rules) -> dict[str, int]:
    """Move log starts up, one manifest per log that needs it; gives the lanes moved."""
    moved: dict[str, int] = {}
    logs = selection.find_logs(context)
    for number, row in enumerate(logs):
        context.progress("expiring", number, len(logs), "")
        starts = new_starts(row, rules)
        if starts and raise_starts(
            context.bucket, row.snapshot.manifest, row.snapshot.folder, starts
        ):
            moved[row.snapshot.folder] = len(starts)
    return moved


def mostly_dead(bucket: Bucket, row: FoundLog, rules: Rules, dead_share: float) -> list[Merge]:
    """Objects so much of which lies below the log starts that rewriting them pays.

    What a deleted topic has left in an object beside others' records is not weighed: it goes.
    """
    past, ended = row.snapshot.manifest, rules.ended_in(row.snapshot.folder)
    starts = {lane: mark.start for lane, mark in past.lanes.items()}
    interval = row.whose.settings.index_interval_bytes
    return [
        Merge(
            bucket, row.snapshot.folder, past.generation + 1, (entry,), starts, interval, cut=True
        )
        for entry in past.segments
        if any(span.last >= starts.get(span.lane, 0) for span in entry.spans())
        and (
            dead_bytes(entry, starts) >= max(1, dead_share * entry.size)
            or any(
                span.lane in ended and span.last < starts.get(span.lane, 0)
                for span in entry.spans()
            )
        )
    ]


def dead_bytes(entry: SegmentEntry, starts: dict[int, int]) -> int:
    """Bytes below the log starts; within a lane they are taken to lie evenly."""
    dead = 0
    for span in entry.spans():
        start = starts.get(span.lane, 0)
        covered = span.last - span.first + 1
        below = min(max(0, start - span.first), covered)
        dead += span.length * below // covered
    return dead


def _dry_run(
    context: Context,
    logs: Sequence[FoundLog],
    rules: Rules,
    dead_share: float,
    grace_s: float,
) -> Report:
    rows: list[dict[str, Any]] = []
    for row in logs:
        rolled = selection.as_if_rolled_up(row)
        starts = new_starts(rolled, rules)
        past = rolled.snapshot.manifest
        after = manifest.raise_starts(past, starts)
        left = rolled._replace(snapshot=rolled.snapshot._replace(manifest=after))
        units = mostly_dead(context.bucket, left, rules, dead_share)
        rows.append(
            {
                "topic": row.whose.name,
                "log": row.whose.number,
                "lanes_to_move": len(starts),
                "objects_to_drop": len(past.segments) - len(after.segments),
                "objects_to_rewrite": len(units),
                "bytes_to_read": sum(unit.size for unit in units),
                "objects_to_sweep": removal.count_sweep(
                    context.bucket, row.snapshot.folder, grace_s
                ),
            }
        )
    facts = {name: sum(row[name] for row in rows) for name in _PLANNED}
    return Report("retain", facts, rows, dry_run=True)
