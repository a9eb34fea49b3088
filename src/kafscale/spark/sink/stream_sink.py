"""Writing streams to topics, through brokers, on every Spark from 4.0 on.

Next door: everything else about writing (sink.py).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from kafscale.spark.plainly import plainly
from kafscale.spark.sink import producing
from kafscale.spark.sink.sink import Written, this_task

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:  # Spark 4.0
        from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

        class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
            """A stream's writer; being the other as well, it is given Arrow batches, not rows."""


class BrokerStreamWriter(DataSourceStreamArrowWriter):
    """Every task of a micro-batch produces its rows; one that cannot fails the query."""

    def __init__(self, settings: dict[str, Any], topic: str | None) -> None:
        """Take what travels to the executors."""
        self._settings = settings
        self._topic = topic

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Produce everything and wait until it is acknowledged."""
        return Written(this_task(), producing.produce(self._settings, self._topic, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: what was acknowledged is there."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The micro-batch runs again: at least once."""
