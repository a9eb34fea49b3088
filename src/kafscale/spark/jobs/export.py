"""Topic to table: Parquet, Delta or Iceberg, every record once.

Here: the arguments, the rounds of plan, work and commit, the report. Progress lives in the table:
one commit adds files and moves the progress. An export that loses the race for it plans again.
Next door: the work on a unit (lake/unit.py), the tables (lake/), what is new (lake/backlog.py).
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafscale.log.protocol.commits import LostRace
from kafscale.model.errors import InvalidRequest, OffsetOutOfRange
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution.here_or_spark import run_here_or_on_spark
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.arguments import add_value_arguments
from kafscale.spark.jobs.stopping import Stop, stoppable
from kafscale.spark.kernels.decoder import BUFFER_BYTES
from kafscale.spark.lake import attempts, dead_letters, evolution, schemas, upsert
from kafscale.spark.lake.backlog import Gap, backlog, progress_name
from kafscale.spark.lake.table import DEAD_LETTERS, KINDS, TableChange, check_progress
from kafscale.spark.lake.tables import open_table
from kafscale.spark.lake.unit import ExportedFiles, ExportTarget, Outlet, export_unit
from kafscale.spark.lake.upsert import FILE_BYTES, KeyShare, StageTarget, merge_unit, stage_unit
from kafscale.spark.lake.writer import DataFile
from kafscale.spark.source.plan import cuts, splits
from kafscale.spark.source.plan.splits import Slice, Split
from kafscale.spark.values import formats
from kafscale.spark.values.formats import Spec
from kafscale.spark.views import read_views

ROUND_BYTES: Final = 8 << 30  # stored bytes between two commits
WITHOUT_SPARK_BYTES: Final = 32 << 20  # a session takes longer to start than this to export
MERGED_HERE: Final = 4  # files of an upsert table that are read without Spark
LOST_RACES: Final = 1000  # each of them is another export going forward
PARTITIONINGS: Final = ("day", "hour", "none")


@dataclass(frozen=True)
class ExportRequest:
    """What to export, and how."""

    table: str  # a path or URL; {topic} in it is replaced
    format: str = "parquet"
    catalog: str = ""
    values: Spec = formats.BINARY
    partition_by: str | None = None
    allow_gaps: bool = False
    unit_bytes: int = splits.SPLIT_BYTES
    round_bytes: int = ROUND_BYTES
    upsert: bool = False  # the newest row of each key, else a row per record
    file_bytes: int = FILE_BYTES  # of an upsert table: files are split beyond twice this
    cut: str = ""  # the moment that tables of a group have in common


@dataclass
class ExportResult:
    """What an export did, for one topic."""

    table: str
    topic: str
    rows: int = 0
    dead: int = 0
    files: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    commits: int = 0
    races_lost: int = 0
    version: str = ""  # of the table, after the last commit
    swept: int = 0  # files that crashed exports left behind, deleted
    objects: int = 0  # of the log, read or to be read
    requests: int = 0  # of a plan: to the store, all kinds
    gaps: list[Gap] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what an export takes."""
    parser.add_argument(
        "--table",
        required=True,
        metavar="URL",
        help="path, file:///path or s3://bucket/path; {topic} in it is replaced",
    )
    parser.add_argument("--format", choices=KINDS, default="parquet")
    parser.add_argument(
        "--catalog",
        default="",
        metavar="URI",
        help="of Iceberg; default: a SQLite file beside the table",
    )
    add_value_arguments(parser)
    parser.add_argument(
        "--partition-by", choices=PARTITIONINGS, help="event time; default: day, or as the table is"
    )
    parser.add_argument(
        "--allow-gaps",
        action="store_true",
        help="go on where retention deleted records before they were exported",
    )
    parser.add_argument(
        "--follow", action="store_true", help="export again and again, until stopped"
    )
    parser.add_argument(
        "--interval", type=float, default=60.0, metavar="SECONDS", help="between two exports"
    )


def run(context: Context, args: argparse.Namespace) -> Report:
    """Export what was asked for."""
    wish = ExportRequest(
        args.table,
        args.format,
        args.catalog,
        formats.spec_of(
            args.value_format,
            args.value_schema,
            args.value_message,
            args.value_framing,
            args.schema_registry,
            args.value_subject,
        ),
        args.partition_by,
        args.allow_gaps,
    )
    if not args.follow or context.dry_run:
        return report_of(context, run_export(context, wish))
    return report_of(context, follow(context, wish, args.interval))


def follow(context: Context, wish: ExportRequest, interval_s: float) -> list[ExportResult]:
    """Export again and again until the user stops it; progress is in the tables all along."""
    total: dict[str, ExportResult] = {}
    with stoppable() as stop:
        while not stop.asked:
            for new in run_export(context, wish, stop):
                total[new.topic] = _sum(total[new.topic], new) if new.topic in total else new
            stop.sleep(interval_s)
    return list(total.values())


def export_topic(
    store: str,
    topic: str,
    table: str,
    *,
    format: str = "parquet",  # noqa: A002
    value_format: str = "binary",
    value_schema: str = "",
    value_message: str = "",
    value_framing: str = "none",
    schema_registry: str = "",
    value_subject: str = "",
    partition_by: str | None = None,
    catalog: str = "",
    spark: Any = None,
) -> Report:
    """For notebooks: bring a table up to date with a topic, and tell what that took."""
    spec = formats.spec_of(
        value_format, value_schema, value_message, value_framing, schema_registry, value_subject
    )
    wish = ExportRequest(table, format, catalog, spec, partition_by)
    context = Context(Bucket(store), (topic,), session=spark)
    return report_of(context, run_export(context, wish))


def run_export(
    context: Context, wish: ExportRequest, stop: Stop | None = None
) -> list[ExportResult]:
    """Export every chosen topic into its table; when stopped, up to the next commit."""
    topics = context.chosen()
    if not topics:
        raise InvalidRequest("there is no topic to export")
    if len(topics) > 1 and "{topic}" not in wish.table:
        raise InvalidRequest("several topics: write {topic} in --table, each has its own table")
    return [
        Export(context, replace(wish, table=wish.table.replace("{topic}", topic.name)), topic).run(
            stop or Stop()
        )
        for topic in topics
    ]


class Export:
    """One topic into one table."""

    def __init__(
        self,
        context: Context,
        wish: ExportRequest,
        topic: TopicDescriptor,
        ends: Mapping[int, int] | None = None,
    ) -> None:
        """Open the table; nothing is written. `ends`: go no further, by partition."""
        self._context = context
        self._ends = ends
        self._wish = wish
        self._topic = topic
        self._table = open_table(wish.table, wish.format, wish.catalog)
        spec = wish.values._replace(subject=wish.values.subject or f"{topic.name}-value")
        self._reading = evolution.begin(spec, self._table.columns())
        self._shares: list[KeyShare] = []  # of an upsert table: who merges which keys
        self.done = ExportResult(wish.table, topic.name)

    def run(self, stop: Stop) -> ExportResult:
        """Rounds of plan, work and commit until all is exported that was there at the start."""
        if self._context.dry_run:
            self._estimate()
            return self.done
        self._prepare()
        goal: dict[int, int] = {}
        while True:
            waiting = self._backlog()
            goal = goal or {piece.partition: piece.until for piece in waiting}
            pending = [piece for piece in waiting if piece.first < goal.get(piece.partition, 0)]
            units = self._units(pending)
            if stop.asked:
                return self.done
            if not units:
                self.done.swept = attempts.sweep(self._table)
                return self.done
            try:
                self._round(_first(units, self._wish.round_bytes))
            except LostRace:
                self.done.races_lost += 1
                if self.done.races_lost > LOST_RACES:
                    raise

    def _prepare(self) -> None:
        """Have a table with all columns that are known."""
        self._columns = schemas.with_values(self._reading.columns)
        self._table.prepare(self._columns, self._wish.partition_by)

    def _round(self, units: Sequence[Split]) -> None:
        """Files by the workers, then dead letters, then the commit that makes all of it count."""
        names = {piece.partition: self._name(piece.partition) for unit in units for piece in unit}
        before = self._at_start(units, names)
        after = {names[piece.partition]: piece.until for unit in units for piece in unit}
        attempt = attempts.Round(self._table)
        results = self._work(units, attempt.name)
        if unknown := frozenset[int]().union(*(result.unknown for result in results)):
            self._reading = evolution.learn(self._reading, unknown, self._table.columns())
            self._prepare()
            return
        check_progress(self._table.progress(before), before)
        attempt.check_in_time()
        spec = self._reading.spec
        dead = dead_letters.commit(self._table, spec, names, after, results, attempt.name)
        files = [file for result in results for file in result.files]
        change = TableChange(cut=self._wish.cut)
        if self._wish.upsert:
            staged = files
            files, removed = self._merge(staged, attempt.name)
            change = change._replace(removed=removed)
        attempt.check_in_time()
        self.done.version = self._table.commit(files, before, after, change)
        attempt.finish([*files, *dead])
        if self._wish.upsert:
            self._table.place.delete([file.path for file in staged])
        self.done.commits += 1
        self.done.rows += sum(file.rows for file in files)
        self.done.dead += sum(file.rows for result in results for file in result.dead)
        self.done.files += len(files)
        self.done.bytes_read += _size(units)
        self.done.objects += _objects(units)
        self.done.bytes_written += sum(file.size for file in files)

    def _at_start(self, units: Sequence[Split], names: Mapping[int, str]) -> dict[str, int]:
        """How far the table is, which must be where these units begin."""
        known = self._table.progress(names.values())
        firsts: dict[str, int] = {}
        for piece in (piece for unit in units for piece in unit):
            firsts.setdefault(names[piece.partition], piece.first)
        for name, first in firsts.items():
            if known.get(name, 0) > first:
                raise LostRace(f"{name} is at {known[name]}, beyond {first}")
        return {name: known.get(name, 0) for name in firsts}

    def _target(self, round_name: str) -> ExportTarget:
        dead = self._table.dead_letters()
        return ExportTarget(
            self._context.bucket,
            self._reading,
            self._columns,
            self._table.partition_by,
            Outlet(self._table.place, self._table.folder),
            Outlet(dead.place, dead.folder),
            round_name,
        )

    def _work(self, units: Sequence[Split], round_name: str) -> list[ExportedFiles]:
        target = self._target(round_name)
        size = _size(units)
        what = f"{self._topic.name} to {self._wish.format}"

        def progress(done: int, total: int) -> None:
            self._context.progress(what, size * done // max(total, 1), size, "B")

        small = size <= WITHOUT_SPARK_BYTES
        if self._wish.upsert:
            state = self._table.state(())
            paths = [file.path for file in state.files] if state else []
            self._shares = upsert.shares_of(paths, -(-size // self._wish.unit_bytes))
            stage = StageTarget(target, tuple(share.first for share in self._shares))
            return run_here_or_on_spark(
                self._context,
                [(stage, unit) for unit in units],
                stage_unit,
                small=small,
                progress=progress,
            )
        return run_here_or_on_spark(
            self._context,
            [(target, unit) for unit in units],
            export_unit,
            small=small,
            progress=progress,
        )

    def _merge(
        self, staged: Sequence[DataFile], round_name: str
    ) -> tuple[list[DataFile], tuple[str, ...]]:
        """Bring what was written down into the table's files; those it replaces are to go."""
        target = self._target(round_name)
        dice = self._context.bucket.dice
        tokens = [dice.token(8).hex() for _ in self._shares]
        tasks = upsert.merge_tasks(target, self._shares, staged, tokens, self._wish.file_bytes)

        def progress(done: int, total: int) -> None:
            self._context.progress(f"{self._topic.name}: merging by key", done, total, "")

        small = sum(len(paths) for task in tasks for paths in task.share.files) <= MERGED_HERE
        merged = run_here_or_on_spark(
            self._context, tasks, merge_unit, small=small, progress=progress
        )
        files = [file for part in merged for file in part.files]
        return files, tuple(path for part in merged for path in part.removed)

    def _backlog(self) -> list[Slice]:
        names = [self._name(at) for at in range(self._topic.partitions)]
        known = self._table.progress(names)
        views = read_views(self._context.bucket, self._topic)
        if self._ends is not None:
            views = [v._replace(end=min(v.end, self._ends.get(v.partition, 0))) for v in views]
        waiting = backlog(self._topic, views, known)
        self.done.gaps += [gap for gap in waiting.gaps if gap not in self.done.gaps]
        if waiting.gaps and not self._wish.allow_gaps:
            raise OffsetOutOfRange(f"{waiting.gaps[0]}; --allow-gaps goes on after them")
        return waiting.slices

    def _units(self, slices: Sequence[Slice]) -> list[Split]:
        """Pieces of work; of an object that is new in part only that part is read."""
        size = self._wish.unit_bytes
        return splits.plan(cuts.refined(self._context.bucket, slices, size), size)

    def _estimate(self) -> None:
        units = self._units(self._backlog())
        self.done.bytes_read = _size(units)
        self.done.rows = sum(piece.offsets for unit in units for piece in unit)
        self.done.files = len(units)
        stored_ranges = [part for unit in units for piece in unit for part in piece.stored_ranges]
        self.done.objects = _objects(units)
        self.done.requests = sum(-(-part.length // BUFFER_BYTES) for part in stored_ranges)
        while units:
            self.done.commits += 1
            units = units[len(_first(units, self._wish.round_bytes)) :]
        self.done.requests += self.done.files + self.done.commits

    def _name(self, partition: int) -> str:
        return progress_name(self._topic, partition)


def _first(units: Sequence[Split], limit: int) -> Sequence[Split]:
    """As many as fit, at least one: each partition goes forward without a hole."""
    size = 0
    for count, unit in enumerate(units):
        size += sum(piece.size for piece in unit)
        if count and size > limit:
            return units[:count]
    return units


def _size(units: Sequence[Split]) -> int:
    return sum(piece.size for unit in units for piece in unit)


def _objects(units: Sequence[Split]) -> int:
    """How many objects of the log they read."""
    ranges = (stored for unit in units for piece in unit for stored in piece.stored_ranges)
    return len({stored.key for stored in ranges})


def _sum(old: ExportResult, new: ExportResult) -> ExportResult:
    counts = (
        "rows",
        "dead",
        "files",
        "bytes_read",
        "bytes_written",
        "objects",
        "commits",
        "races_lost",
        "swept",
    )
    added = {name: getattr(old, name) + getattr(new, name) for name in counts}
    gaps = [*old.gaps, *(gap for gap in new.gaps if gap not in old.gaps)]
    return replace(new, **added, gaps=gaps)


def report_of(context: Context, done: Sequence[ExportResult]) -> Report:
    """What exports did, a row for each topic."""
    report = Report("export", dry_run=context.dry_run)
    for piece in done:
        row: dict[str, Any] = {"topic": piece.topic, "records": piece.rows}
        if not context.dry_run:
            row["dead_letters"] = piece.dead
        row |= {"files": piece.files, "commits": piece.commits, "bytes_read": piece.bytes_read}
        row["objects_read"] = piece.objects
        if context.dry_run:
            row["requests"] = piece.requests
        else:
            row["bytes_written"] = piece.bytes_written
        report.rows.append({**row, "table": piece.table})
        report.notes += [str(gap) for gap in piece.gaps]
        if piece.dead:
            report.notes.append(f"what did not parse is in {piece.table}{DEAD_LETTERS}")
        if piece.swept:
            report.notes.append(
                f"{piece.topic}: {piece.swept} files of exports that died are deleted"
            )
        if piece.races_lost:
            report.notes.append(
                f"{piece.topic}: another export was faster {piece.races_lost} times; planned anew"
            )
    return report
