"""`kafscale pipeline status`: how fresh each table is, what is missing, what happened last.

Here: everything follows from the bucket: the tables say how far they are, the logs where they end,
the records of runs what was done. No runner is asked. Next door: the runner (runner.py).
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from kafscale.log.formats.segment import ANY_TIME
from kafscale.model.errors import KafscaleError
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.job import Context, Report
from kafscale.spark.lake.backlog import progress_name
from kafscale.spark.lake.tables import open_table, table_url
from kafscale.spark.report.statistics import Prices
from kafscale.spark.run_records import RunEnded, recorded_runs
from kafscale.spark.runner.declared import Allowances, export_request
from kafscale.spark.runner.membership import alive_runners
from kafscale.spark.views import PartitionView, read_all_views

_DAY_MS = 86_400_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what it takes: nothing of its own."""
    parser.add_argument(
        "--catalog",
        default="",
        metavar="URI",
        help="of Iceberg tables, as the runner was told",
    )


def run(context: Context, args: argparse.Namespace) -> Report:
    """Look and tell."""
    bucket = context.bucket
    topics = [topic for topic in context.chosen() if topic.table is not None]
    views = read_all_views(bucket, topics)
    runs = [ended for run in recorded_runs(bucket, "export") if (ended := run.ended)]
    now_ms = bucket.run(lambda store: store.now_ms())
    # Only reads: where the operator lets tables lie is the runner's to check.
    allowed = Allowances(
        tuple(table_url(bucket, topic) for topic in topics),
        tuple(topic.table.registry for topic in topics if topic.table),
        args.catalog,
    )
    report = Report("status")
    for topic in topics:
        mine = [view for view in views if view.topic == topic.name]
        report.rows.append(_row(context, topic, mine, allowed, runs, now_ms))
    alive = alive_runners(bucket)
    report.facts["runners"] = len(alive)
    report.notes += [f"runner {one.runner} on {one.host}, process {one.pid}" for one in alive]
    if topics and not alive:
        report.notes.append("no runner is alive: start one with kafscale pipeline run")
    report.notes += [
        f"{ended.topics[0] if ended.topics else 'all topics'}: {ended.error}"
        for ended in _last_failures(runs)
    ]
    return report


def _row(
    context: Context,
    topic: TopicDescriptor,
    views: Sequence[PartitionView],
    allowed: Allowances,
    runs: Sequence[RunEnded],
    now_ms: int,
) -> dict[str, Any]:
    table = topic.table
    assert table is not None, "only topics with a table are shown"
    row: dict[str, Any] = {"topic": topic.name, "format": table.format}
    row["mode"] = "upsert" if table.upsert else "append"
    try:
        reached = _progress(context, topic, allowed)
    except KafscaleError as problem:
        return {**row, "state": f"unreadable: {problem}"}
    lag = sum(max(0, view.end - max(view.start, reached.get(view.partition, 0))) for view in views)
    age_s = _oldest_waiting_ms(views, reached, now_ms) / 1000
    promised_s = table.freshness_ms / 1000
    last = next((ended for ended in runs if topic.name in ended.topics), None)
    return {
        **row,
        "state": "late" if lag and age_s > promised_s else "fresh",
        "lag": lag,
        "age_s": round(age_s, 1),
        "promised_s": promised_s,
        "last_run_s_ago": None if last is None else round((now_ms - last.ended_ms) / 1000),
        "last_rows": _of_last(last, topic.name, "records"),
        "usd_per_day": _daily_cost(last, topic.name, table.freshness_ms),
        "table": table_url(context.bucket, topic),
    }


def _progress(context: Context, topic: TopicDescriptor, allowed: Allowances) -> dict[int, int]:
    wish = export_request(context.bucket, topic, allowed)
    names = {progress_name(topic, number): number for number in range(topic.partitions)}
    known = open_table(wish.table, wish.format, wish.catalog).progress(names)
    return {names[name]: offset for name, offset in known.items()}


def _oldest_waiting_ms(
    views: Sequence[PartitionView], reached: Mapping[int, int], now_ms: int
) -> int:
    """The age of the oldest record that is no row yet, by its timestamp.

    A large flush tells its times only to those who open it: it is left out.
    """
    oldest = [
        stored.min_timestamp_ms
        for view in views
        for stored in view.stored_ranges
        if stored.first >= reached.get(view.partition, 0)
    ]
    # A range that is a row in part: its last record is not older than its greatest time.
    oldest += [
        stored.max_timestamp_ms
        for view in views
        for stored in view.stored_ranges
        if stored.first < reached.get(view.partition, 0) <= stored.last
    ]
    known = [time_ms for time_ms in oldest if time_ms not in ANY_TIME]
    return max(0, now_ms - min(known)) if known else 0


def _of_last(last: RunEnded | None, topic: str, name: str) -> Any:
    rows = [] if last is None else [row for row in last.rows if row.get("topic") == topic]
    return rows[0].get(name) if rows else None


def _daily_cost(last: RunEnded | None, topic: str, freshness_ms: int) -> float | None:
    """What a day of runs like the last one asks of the store, in dollars of requests."""
    names = ("files", "commits", "objects_read")
    files, commits, objects = (_of_last(last, topic, name) for name in names)
    if files is None or commits is None or objects is None:
        return None
    prices = Prices()
    # A file each; a commit and its note before and after; the two records of the run.
    puts = files + 4 * commits + 2
    # Each object of the log, once; the table's own log.
    gets = objects + 3 * commits + files
    runs = _DAY_MS / (freshness_ms * 0.75)
    return float(round(runs * (puts * prices.put + gets * prices.get) / 1000, 4))


def _last_failures(runs: Sequence[RunEnded]) -> list[RunEnded]:
    """The newest run of each topic, where it failed."""
    newest: dict[tuple[str, ...], RunEnded] = {}
    for ended in runs:
        newest.setdefault(tuple(ended.topics), ended)
    return [ended for ended in newest.values() if not ended.ok]
