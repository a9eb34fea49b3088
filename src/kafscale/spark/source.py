"""The Spark data source `kafscale`: topics as rows, read from the bucket without a broker.

Here: what Spark asks of a source and of a batch reader. Columns and options are those of Spark's
Kafka source. Next door: the stream reader (stream.py), where the work is done (planning.py on the
driver, reading.py in workers).

Spark has no column pruning for Python sources: a narrower `.schema(...)` decodes less. It does
have filter pushdown, off by default, and then refuses readers that offer it; so that a reader
offers it only where Spark's pushdown planner is what runs us.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafscale.spark.bucket import Bucket
from kafscale.spark.options import BadOption, Options, read_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter

    from kafscale.spark.splits import Split
    from kafscale.spark.stream import StreamReader

_PUSHDOWN_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"

RECORD_COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


class KafscaleSource(DataSource):
    """`spark.read.format("kafscale")` and `spark.readStream.format("kafscale")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format; `kafka` is taken by Spark itself."""
        return "kafscale"

    def schema(self) -> str:
        """All columns; pass a narrower `.schema(...)` to read less."""
        headers = str(self.options.get("includeHeaders", "")).strip().lower() == "true"
        return ", ".join(
            f"{name} {kind}"
            for name, kind in RECORD_COLUMNS.items()
            if headers or name != "headers"
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader."""
        options = read_options(self.options, streaming=False)
        columns = wanted_columns(schema)
        if _PUSHDOWN_PLANNER in sys.modules:
            return PruningReader(options, columns)
        return BatchReader(options, columns)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        """A stream reader."""
        from kafscale.spark.stream import StreamReader

        return StreamReader(read_options(self.options, streaming=True), wanted_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        """A batch writer."""
        from kafscale.spark import sink

        return sink.batch_writer(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> "DataSourceStreamWriter":
        """A stream writer."""
        from kafscale.spark import sink

        return sink.stream_writer(self.options, schema, overwrite)


def wanted_columns(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema, which must be ours: nothing is cast on the way."""
    for field in schema.fields:
        expected = RECORD_COLUMNS.get(field.name)
        if expected is None:
            raise BadOption(f"{field.name}: there are the columns {', '.join(RECORD_COLUMNS)}")
        if field.dataType.simpleString() != expected or not field.nullable:
            raise BadOption(f"{field.name}: this column is {expected}, and nullable")
    return tuple(field.name for field in schema.fields)


class SplitPartition(InputPartition):
    """What one task reads."""

    def __init__(self, split: "Split") -> None:
        super().__init__(None)
        self.split = split


def split_of(partition: InputPartition) -> "Split":
    """What a task is to read; Spark makes up a partition of its own where we planned none."""
    return partition.split if isinstance(partition, SplitPartition) else ()


def read_rows(
    options: Options, columns: tuple[str, ...], split: "Split", since_ms: int | None
) -> "Iterator[pa.RecordBatch]":
    """Read one split, in a worker. Heavy libraries are loaded here and not before."""
    from kafscale.spark.kernels.decoder import Decoder
    from kafscale.spark.reading import read_split, replaced

    bucket = Bucket(options.store)
    decoder = Decoder(columns, verify_crc=options.verify_crc)
    refresh = replaced(bucket, options.fail_on_data_loss)
    return read_split(bucket, split, decoder, since_ms, refresh)


class BatchReader(DataSourceReader):
    """Plans one batch query and reads its tasks."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        from kafscale.spark.filters import EVERYTHING

        self._options = options
        self._columns = columns
        self._bounds = EVERYTHING

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        from kafscale.spark import planning

        bucket = Bucket(self._options.store)
        found = planning.views(bucket, self._options, self._bounds.topics)
        slices = planning.windows(bucket, self._options, found, self._bounds)
        return [SplitPartition(split) for split in planning.cut(bucket, self._options, slices)]

    def read(self, partition: InputPartition) -> "Iterator[Any]":
        """The rows of one task."""
        return read_rows(self._options, self._columns, split_of(partition), self._bounds.since_ms)


class PruningReader(BatchReader):
    """A batch reader that uses the query's filters to leave objects and ranges unread."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        """Take what helps; Spark filters all rows again."""
        from kafscale.spark.filters import bounds_of

        self._bounds = bounds_of(filters)
        return filters
