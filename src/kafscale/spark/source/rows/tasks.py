"""What one task reads, and reading it in a worker, for batch queries and streams alike.

Heavy libraries are loaded in the worker and not before: the driver starts faster without them.
Next door: the readers (source/source.py, source/stream.py), the bytes (reading.py).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kafscale.spark.bucket import Bucket
from kafscale.spark.source.plan.options import Options
from kafscale.spark.source.rows.columns import WantedColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from kafscale.spark.source.plan.splits import Split
    from kafscale.spark.views import PartitionView


class SplitPartition(InputPartition):
    """What one task reads."""

    def __init__(self, split: "Split") -> None:
        super().__init__(None)
        self.split = split


class ViewsPartition(InputPartition):
    """Partitions whose rows are known from the plan."""

    def __init__(self, views: "list[PartitionView]") -> None:
        super().__init__(None)
        self.views = views


def split_of(partition: InputPartition) -> "Split":
    """What a task reads; if none was planned, Spark makes up a partition of its own."""
    return partition.split if isinstance(partition, SplitPartition) else ()


def read_rows(
    options: Options, asked: WantedColumns, split: "Split", since_ms: int | None
) -> "Iterator[pa.RecordBatch]":
    """Read one split, in a worker. Heavy libraries are loaded here and not before."""
    from kafscale.spark.kernels.decoder import RecordDecoder
    from kafscale.spark.source.rows.reading import read_split, replaced

    bucket = Bucket(options.store)
    if options.shape.table == "batches":
        from kafscale.spark.source.rows.tables import batch_rows

        return batch_rows(bucket, split, asked.columns)
    refresh = replaced(
        bucket, options.fail_on_data_loss, options.as_of, committed=options.committed
    )
    if asked.value_format is None:
        decoder = RecordDecoder(asked.columns, verify_crc=options.verify_crc)
        return read_split(bucket, split, decoder, since_ms, refresh)
    from kafscale.spark.source.rows.values import BAD_VALUE, ValueDecoder

    raw = tuple(dict.fromkeys([*asked.columns, "offset"]))
    decoder = RecordDecoder(
        [name for name in raw if name != BAD_VALUE], verify_crc=options.verify_crc
    )
    values = ValueDecoder(asked.value_format, asked.value_type, options.shape.bad_records)
    rows = read_split(bucket, split, decoder, since_ms, refresh)
    return (values.apply(batch, asked.columns) for batch in rows)
