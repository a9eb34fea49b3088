"""The Spark data source `kafscale`: topics as rows, read from the bucket without a broker.

Here: what Spark asks of a source and of a batch reader. Columns and options are those of Spark's
Kafka source. Next door: the stream reader (stream.py), where the work is done (plan/planning.py on
the driver, rows/tasks.py in workers), topics that have tables (../history/source.py).

Spark has no column pruning for Python sources: a narrower `.schema(...)` decodes less. It does
have filter pushdown, off by default, and refuses readers that offer it when it is off. A reader
therefore offers it only in a process that Spark's pushdown planner runs.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafscale.spark.bucket import Bucket
from kafscale.spark.errors import rows_without_traceback, without_traceback
from kafscale.spark.source.plan.options import Options, read_options, read_shape
from kafscale.spark.source.rows.columns import WantedColumns, schema_of, wanted
from kafscale.spark.source.rows.tasks import SplitPartition, ViewsPartition, read_rows, split_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter

    from kafscale.spark.source.stream import StreamReader

_PUSHDOWN_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def is_pushdown() -> bool:
    """Whether this process is Spark's pushdown planner, which alone may see readers that prune."""
    return _PUSHDOWN_PLANNER in sys.modules


class KafscaleSource(DataSource):
    """`spark.read.format("kafscale")` and `spark.readStream.format("kafscale")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format; `kafka` is taken by Spark itself."""
        return "kafscale"

    @without_traceback
    def schema(self) -> str:
        """All columns; pass a narrower `.schema(...)` to read less."""
        return schema_of(read_shape(self.options))

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader."""
        options = read_options(self.options, streaming=False)
        asked = wanted(options.shape, schema)
        return (PruningReader if is_pushdown() else BatchReader)(options, asked)

    @without_traceback
    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        """A stream reader."""
        from kafscale.spark.source.stream import StreamReader

        options = read_options(self.options, streaming=True)
        return StreamReader(options, wanted(options.shape, schema))

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        """A batch writer."""
        from kafscale.spark.sink import sink

        return sink.batch_writer(self.options, schema, overwrite)

    @without_traceback
    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> "DataSourceStreamWriter":
        """A stream writer."""
        from kafscale.spark.sink import sink

        return sink.stream_writer(self.options, schema, overwrite)


class BatchReader(DataSourceReader):
    """Plans one batch query and reads its tasks."""

    def __init__(self, options: Options, asked: WantedColumns) -> None:
        from kafscale.spark.source.plan.filters import EVERYTHING

        self._options = options
        self._asked = asked
        self._bounds = EVERYTHING

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        from kafscale.spark.source.plan import planning

        bucket = Bucket(self._options.store)
        with planning.undisturbed():
            views = planning.views(bucket, self._options, self._bounds)
            if self._options.shape.table == "segments":
                return [ViewsPartition(views)]
            slices = planning.windows(bucket, self._options, views, self._bounds)
            return [SplitPartition(split) for split in planning.cut(bucket, self._options, slices)]

    @rows_without_traceback
    def read(self, partition: InputPartition) -> "Iterator[Any]":
        """The rows of one task."""
        if isinstance(partition, ViewsPartition):
            from kafscale.spark.source.rows.tables import segment_rows

            return segment_rows(partition.views, self._asked.columns)
        return read_rows(self._options, self._asked, split_of(partition), self._bounds.since_ms)


class PruningReader(BatchReader):
    """A batch reader that uses the query's filters to leave objects and ranges unread."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        """Take what helps; Spark filters all rows again."""
        from kafscale.spark.source.plan.filters import bounds_of

        self._bounds = bounds_of(filters)
        return filters
