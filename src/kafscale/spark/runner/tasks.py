"""Doing one piece of work: from the plan's words to a job on some topics.

Here: one function per kind of work. Each gives a report, as the command of the same job does; an
export gives also how far its tables are. Next door: when (planner.py), in which thread (runner.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafscale.model.topics import TopicDescriptor
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs import audit, compact, retain, table_upkeep
from kafscale.spark.jobs.compaction import by_key
from kafscale.spark.jobs.export import Export, ExportResult, report_of
from kafscale.spark.jobs.stopping import Stop
from kafscale.spark.jobs.table_upkeep import UpkeepWish
from kafscale.spark.lake.table import DEAD_LETTERS
from kafscale.spark.lake.tables import open_table
from kafscale.spark.runner import cuts, planner
from kafscale.spark.runner.declared import Allowances, export_request
from kafscale.spark.runner.planner import PlannedWork
from kafscale.spark.views import PartitionView, read_all_views

Ends = dict[str, tuple[int, ...]]  # by topic id: the end of each partition


def run_work(
    context: Context, work: PlannedWork, allowed: Allowances, audit_share: float
) -> Report:
    """Do it."""
    if work.kind == planner.TABLE_UPKEEP:
        return _keep_table(context, work.topics[0], allowed)
    if work.kind == planner.AUDIT:
        return audit.audit(_on(context, work.topics), share=audit_share)
    return _JOBS[work.kind](_on(context, work.topics))


_JOBS: Final[Mapping[str, Callable[[Context], Report]]] = {
    planner.COMPACT: compact.compact,
    planner.COMPACT_BY_KEY: by_key.compact_by_key,
    planner.RETAIN: retain.retain,
}


def _on(context: Context, topics: tuple[str, ...]) -> Context:
    return replace(context, topics=topics)


def ends_of(topics: Sequence[TopicDescriptor], views: Sequence[PartitionView]) -> Ends:
    """Where the partitions end, of each topic."""
    names = {topic.name: topic.topic_id for topic in topics}
    ends: dict[str, list[int]] = {topic.topic_id: [] for topic in topics}
    for view in views:
        ends[names[view.topic]].append(view.end)
    return {topic_id: tuple(some) for topic_id, some in ends.items()}


def run_export(
    context: Context, work: PlannedWork, allowed: Allowances, stop: Stop, known: Ends
) -> tuple[Report, Ends]:
    """Bring the tables of some topics up to date; nothing is opened where nothing is new.

    `known` is where partitions ended at earlier exports. Gives the report, and where they end now.
    """
    bucket = context.bucket
    topics = bucket.select(work.topics)
    views = read_all_views(bucket, topics)
    ends = ends_of(topics, views)
    fresh = [topic for topic in topics if known.get(topic.topic_id) != ends[topic.topic_id]]
    if not fresh:
        return Report("export"), {}
    if work.subject.startswith("@"):
        return cuts.export_group(context, work.subject[1:], topics, allowed, stop), ends
    done: list[ExportResult] = []
    for topic in fresh:
        wish = export_request(bucket, topic, allowed)
        done.append(Export(context, wish, topic).run(stop))
    report = report_of(context, done)
    return report, {} if stop.asked else ends


def _keep_table(context: Context, name: str, allowed: Allowances) -> Report:
    topic = context.bucket.topic(name)
    settings = topic.table
    report = Report("table-upkeep")
    if settings is None:
        return report
    wish = export_request(context.bucket, topic, allowed)
    table = open_table(wish.table, wish.format, wish.catalog)
    upkeep = UpkeepWish(
        settings.file_bytes,
        settings.retention_ms,
        settings.snapshot_retention_ms,
        join=not settings.upsert,
    )
    done = table_upkeep.keep_in_shape(context, table, upkeep)
    report.rows.append({"topic": name, **vars(done), "table": wish.table})
    dead = table.dead_letters()
    if dead.columns() is not None:
        done = table_upkeep.keep_in_shape(context, dead, upkeep._replace(join=True))
        report.rows.append({"topic": name, **vars(done), "table": wish.table + DEAD_LETTERS})
    return report
