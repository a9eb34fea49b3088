"""Reading a topic through the source with `useTable`, in this process: no session needed."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafscale.spark.history.source import FilesPartition, HistoryReader, TopicSource
from kafscale.spark.source.plan.filters import EVERYTHING, Bounds

VALUE = StructType([StructField("id", LongType()), StructField("name", StringType())])
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": VALUE,
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(HEADER),
}


class Reading:
    """One query: its plan when it is made, its rows when they are asked for."""

    def __init__(
        self,
        url: str,
        topic: str,
        columns: Sequence[str] = tuple(TYPES),
        bounds: Bounds = EVERYTHING,
        **options: str,
    ) -> None:
        given = {"store": url, "subscribe": topic, "useTable": "true", **options}
        schema = StructType([StructField(name, TYPES[name]) for name in columns])
        reader = TopicSource(given).reader(schema)
        assert isinstance(reader, HistoryReader)
        reader._bounds = bounds
        self._reader = reader
        self.tasks = reader.partitions()

    @property
    def files(self) -> list[str]:
        """Those that are read of the table and of its dead letters."""
        return [
            path for task in self.tasks if isinstance(task, FilesPartition)
            for path in task.task.paths
        ]  # fmt: skip

    def rows(self) -> list[dict[str, Any]]:
        """All rows, by partition and offset."""
        found = [
            row
            for task in self.tasks
            for batch in self._reader.read(task)
            for row in batch.to_pylist()
        ]
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))
