"""The source `kafscale` as Spark finds it: with `useTable`, history comes from a topic's own table.

Here: a batch reader whose tasks are files of the table and, from exactly there on, pieces of the
log. Each query looks at the table and at the log anew. Streams, writers and all other queries are
those of source/source.py.
Next door: what is in the table (parts.py), reading its files (files.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafscale.spark.bucket import Bucket
from kafscale.spark.errors import rows_without_traceback, without_traceback
from kafscale.spark.source.plan.options import EARLIEST, OffsetRule, read_options
from kafscale.spark.source.rows.columns import wanted
from kafscale.spark.source.rows.tasks import SplitPartition
from kafscale.spark.source.source import BatchReader, KafscaleSource, PruningReader, is_pushdown

if TYPE_CHECKING:
    from kafscale.spark.history.files import FilesTask
    from kafscale.spark.history.parts import TablePart
    from kafscale.spark.source.plan.options import Options
    from kafscale.spark.views import PartitionView


class FilesPartition(InputPartition):
    """What one task reads of a table."""

    def __init__(self, task: "FilesTask") -> None:
        super().__init__(None)
        self.task = task


class TopicSource(KafscaleSource):
    """`format("kafscale")`, whichever way rows come."""

    @without_traceback
    def schema(self) -> str:
        """All columns; of one topic with a table the value is as the topic declares it."""
        self.options = _with_declared_values(self.options)
        return super().schema()

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader."""
        self.options = _with_declared_values(self.options)
        options = read_options(self.options, streaming=False)
        if not options.use_table:
            return super().reader(schema)
        asked = wanted(options.shape, schema)
        return (PruningHistoryReader if is_pushdown() else HistoryReader)(options, asked)


def _with_declared_values(given: Mapping[str, str]) -> dict[str, str]:
    """Options that say how values are read, from the one topic that is asked for."""
    from kafscale.spark.history.parts import as_declared

    known = {name.lower(): value.strip() for name, value in given.items()}
    names = known.get("subscribe", "").replace(",", " ").split()
    store = known.get("store") or known.get("path")
    if known.get("usetable", "").lower() != "true" or len(names) != 1 or not store:
        return dict(given)
    settings = Bucket(store).topic(names[0]).table
    return dict(given) if settings is None else as_declared(given, settings)


class HistoryReader(BatchReader):
    """Plans a query over tables and logs, and reads its tasks."""

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        """Files of the tables first; the log is looked at afterwards."""
        from kafscale.spark.history.files import tasks_of
        from kafscale.spark.history.parts import table_part
        from kafscale.spark.source.plan import planning

        options = self._options
        bucket = Bucket(options.store)
        with planning.undisturbed():
            topics = bucket.select(options.subscribe, options.pattern) if not options.assign else []
            found = (table_part(bucket, topic, options) for topic in topics)
            parts = {part.topic.name: part for part in found if part is not None}
            views = planning.views(bucket, options, self._bounds)
            starts = _starts(parts, views)
            made: list[InputPartition] = [
                FilesPartition(task)
                for name, part in parts.items()
                if self._bounds.allow_topic(name)
                for task in tasks_of(part, starts[name], self._bounds, options.split_bytes)
            ]
            rest = _from(options, starts) if parts else options
            slices = planning.windows(bucket, rest, views, self._bounds)
            return made + [SplitPartition(split) for split in planning.cut(bucket, rest, slices)]

    @rows_without_traceback
    def read(self, partition: InputPartition) -> "Iterator[Any]":
        """The rows of one task."""
        if isinstance(partition, FilesPartition):
            from kafscale.spark.history.files import read_files

            return read_files(partition.task, self._asked, self._bounds)
        return super().read(partition)


class PruningHistoryReader(HistoryReader, PruningReader):
    """The same where Spark hands filters over."""


def _starts(
    parts: "dict[str, TablePart]", views: "list[PartitionView]"
) -> dict[str, dict[int, int]]:
    """Where the log's part of each partition begins."""
    starts: dict[str, dict[int, int]] = {view.topic: {} for view in views}
    for view in views:
        starts[view.topic][view.partition] = EARLIEST
    for name, part in parts.items():
        mine = {view.partition: view.start for view in views if view.topic == name}
        starts[name] = part.starts(mine)
    return starts


def _from(options: "Options", starts: dict[str, dict[int, int]]) -> "Options":
    return replace(options, starting=OffsetRule("offsets", starts))
