"""Cuts: the tables of a group at one moment.

Here: choosing the moment, bringing each table exactly that far, and the object that names each
table's version. Which records belong to the moment follows from the store's clock: each flush is an
object, and the store says when it was created. If a record was committed before another was sent,
no cut has the second without the first.
Next door: an export of one topic (jobs/export.py), when it is due (planner.py).

A run that dies leaves tables that are further than the last cut; the next cut takes them further.
Readers of a cut read each table at the version that the cut names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

import msgspec

from kafscale.log.formats import keys
from kafscale.log.protocol.survey import LogSnapshot
from kafscale.model.errors import KafscaleError
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs.export import Export, ExportRequest, report_of
from kafscale.spark.jobs.stopping import Stop
from kafscale.spark.lake.backlog import progress_name
from kafscale.spark.lake.tables import open_table
from kafscale.spark.runner.declared import Allowances, export_request
from kafscale.spark.views import PartitionView, places_of, views_of

KEPT: Final = 100
_SECOND_MS: Final = 1000  # stores tell when an object was made to the second
_ATTEMPTS: Final = 5


class NoMoment(KafscaleError):
    """History was rewritten while the moment was looked for; the next run tries again."""


class CutTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table of a cut."""

    topic: str
    topic_id: str
    table: str
    format: str
    version: str  # of Delta its version, of Iceberg the snapshot, of Parquet the commit
    ends: list[int]  # of each partition: the first offset that is not in the table


class TableCut(msgspec.Struct, frozen=True, kw_only=True):
    """A group's tables at one moment."""

    group: str
    number: int
    moment_ms: int  # by the store's clock: what was committed before it is in the tables
    tables: list[CutTable]


def export_group(
    context: Context,
    group: str,
    topics: Sequence[TopicDescriptor],
    allowed: Allowances,
    stop: Stop,
) -> Report:
    """Bring all tables of a group to one moment, and write that down."""
    bucket = context.bucket
    moment_ms, views = views_at_one_moment(bucket, topics)
    number = _newest(bucket, group) + 1
    name = f"{group}/{number}"
    results, tables = [], []
    for topic in topics:
        ends = {view.partition: view.end for view in views if view.topic == topic.name}
        request = replace(export_request(bucket, topic, allowed), cut=name)
        results.append(Export(context, request, topic, ends).run(stop))
        if stop.asked:
            return report_of(context, results)
        tables.append(_table_now(topic, request, ends))
    made = TableCut(group=group, number=number, moment_ms=moment_ms, tables=tables)
    bucket.put_new(keys.cut(bucket.namespace, group, number), [msgspec.json.encode(made)])
    _forget_oldest(bucket, group)
    report = report_of(context, results)
    report.facts |= {"cut": name, "moment_ms": moment_ms}
    return report


def views_at_one_moment(
    bucket: Bucket, topics: Sequence[TopicDescriptor]
) -> tuple[int, list[PartitionView]]:
    """A moment by the store's clock, and the partitions as they were then.

    A flush belongs to the moment if the store made it earlier. Rolled-up history does not tell when
    its flushes were made, so it must be older than the moment altogether.
    """
    wanted = places_of(topics)
    folders = [place.folder for _, _, place in wanted]
    for _ in range(_ATTEMPTS):
        older = bucket.read_logs(folders)
        moment_ms = bucket.run(lambda store: store.now_ms()) // _SECOND_MS * _SECOND_MS
        logs = bucket.read_logs(folders)
        if all(logs[one].manifest.generation == older[one].manifest.generation for one in logs):
            then = {folder: _as_of(log, moment_ms) for folder, log in logs.items()}
            return moment_ms, views_of(wanted, then)
    raise NoMoment("brokers roll up faster than the logs can be read; the next run tries again")


def _as_of(log: LogSnapshot, moment_ms: int) -> LogSnapshot:
    """The log without the flushes that were made at the moment or later."""
    tail = list(takewhile(lambda piece: (piece.modified_ms or 0) < moment_ms, log.tail))
    return log._replace(tail=tail)


def _table_now(topic: TopicDescriptor, request: ExportRequest, ends: Mapping[int, int]) -> CutTable:
    """The table's version after the export; it may be older than this cut, with nothing new."""
    table = open_table(request.table, request.format, request.catalog)
    names = [progress_name(topic, partition) for partition in sorted(ends)]
    state = table.state(names)
    reached = {} if state is None else state.progress
    for name, end in zip(names, (ends[partition] for partition in sorted(ends)), strict=True):
        if reached.get(name, 0) > end:
            raise NoMoment(f"{request.table} is further than the cut: another export runs")
    return CutTable(
        topic=topic.name,
        topic_id=topic.topic_id,
        table=request.table,
        format=request.format,
        version="" if state is None else state.version,
        ends=[reached.get(name, 0) for name in names],
    )


def newest_cut(bucket: Bucket, group: str) -> TableCut | None:
    """The last cut of a group."""
    number = _newest(bucket, group)
    if not number:
        return None
    body = bucket.read(keys.cut(bucket.namespace, group, number))
    return msgspec.json.decode(body, type=TableCut)


def _numbers(bucket: Bucket, group: str) -> dict[int, str]:
    folder = keys.cuts_folder(bucket.namespace, group)
    rows = bucket.run(lambda store: store.find(folder))
    names = {row.key.rpartition("/")[2]: row.key for row in rows}
    return {int(name): key for name, key in names.items() if name.isdecimal()}


def _newest(bucket: Bucket, group: str) -> int:
    return max(_numbers(bucket, group), default=0)


def _forget_oldest(bucket: Bucket, group: str) -> None:
    numbers = _numbers(bucket, group)
    doomed = [numbers[number] for number in sorted(numbers)[:-KEPT]]

    async def forget(store: ObjectStore) -> None:
        await store.delete(doomed)

    if doomed:
        bucket.run(forget)
