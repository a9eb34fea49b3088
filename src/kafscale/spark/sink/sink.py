"""Writing DataFrames to topics: `df.write.format("kafscale")` and `writeStream`.

Two ways, by the options given:

    kafka.bootstrap.servers   through brokers, into topics that exist: each task has an idempotent
                              producer of its own and is done when everything is acknowledged
    store, topic, partitions  a new topic, straight into the bucket (bulk.py): all of it or nothing

Columns as in Spark's Kafka sink: value (needed), key, headers, topic, partition; strings or bytes.
In addition: timestamp, a time or milliseconds.
Next door: the producer in a task (producing.py), reading (source/source.py).
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from kafscale.model.errors import InvalidRecord, InvalidRequest
from kafscale.spark.bucket import Bucket
from kafscale.spark.errors import without_traceback
from kafscale.spark.sink import bulk, producing, sealing
from kafscale.spark.sink.staging import StagedSection, stage

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:  # Spark 4.0
        from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

        class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
            """A stream's writer; being the other as well, it is given Arrow batches, not rows."""


BOOTSTRAP: Final = "kafka.bootstrap.servers"
_CONFIG: Final = "topic."  # topic.retention.ms and the like
_NEW_TOPIC: Final = ("store", "topic", "partitions", "namespace", "compression", f"{_CONFIG}*")
_BROKERS: Final = ("topic", "kafka.*")
_SPARKS_OWN: Final = ("checkpointlocation", "queryname", "includeheaders")
_SEALS_AT_ONCE: Final = 4


@dataclass
class Written(WriterCommitMessage):
    """What one task has written."""

    task: int
    records: int
    sections: tuple[StagedSection, ...] = ()


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """The writer of a batch query, by its options."""
    given = read_options(options)
    check_schema(schema, has_topic="topic" in given)
    if overwrite:
        raise InvalidRequest("topics are not overwritten: write with mode('append')")
    if BOOTSTRAP in given:
        return BrokerWriter(producing.settings_of(given), given.get("topic"))
    return BulkWriter(given)


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """The writer of a streaming query: through brokers, at least once."""
    given = read_options(options)
    check_schema(schema, has_topic="topic" in given)
    if overwrite:
        raise InvalidRequest("a topic takes a stream in output mode append or update only")
    if BOOTSTRAP not in given:
        raise InvalidRequest(
            f"a stream is written through brokers: option {BOOTSTRAP}; "
            "store makes a new topic of a batch"
        )
    return BrokerStreamWriter(producing.settings_of(given), given.get("topic"))


def read_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options by their names in small letters.

    Unknown options are refused: rows would go somewhere else than was meant.
    """
    given = {name.lower(): str(value).strip() for name, value in options.items()}
    if BOOTSTRAP in given and "store" in given:
        raise InvalidRequest(f"{BOOTSTRAP} is for brokers, store for a new topic: give one of them")
    if BOOTSTRAP not in given and "store" not in given:
        raise InvalidRequest(
            f"say where to write: option {BOOTSTRAP} for brokers, or store for a new topic"
        )
    known = _NEW_TOPIC if "store" in given else _BROKERS
    for name in given:
        if not any(fnmatchcase(name, option) for option in (*known, *_SPARKS_OWN)):
            raise InvalidRequest(
                f"{name}: no option of this sink has this name; there are {', '.join(known)}"
            )
    return given


# -- columns ---------------------------------------------------------------------------------

_TEXT: Final = (StringType, BinaryType)
_KINDS: Final[dict[str, tuple[tuple[type[DataType], ...], str]]] = {
    "value": (_TEXT, "string or binary"),
    "key": (_TEXT, "string or binary"),
    "headers": ((ArrayType,), "array<struct<key:string,value:binary>>"),
    "topic": ((StringType,), "string"),
    "partition": ((IntegerType,), "int"),
    "timestamp": ((TimestampType, LongType), "timestamp or bigint"),
}


def check_schema(schema: StructType, *, has_topic: bool) -> None:
    """Refuse columns a record cannot be made of, before anything runs."""
    columns = {field.name: field.dataType for field in schema.fields}
    if "value" not in columns:
        raise InvalidRecord("there is no column 'value'")
    if not has_topic and "topic" not in columns:
        raise InvalidRecord("which topic? give the option 'topic' or a column of that name")
    for name, (kinds, words) in _KINDS.items():
        kind = columns.get(name)
        if kind is not None and not isinstance(kind, kinds):
            raise InvalidRecord(f"column {name!r} is {kind.simpleString()}, not {words}")
    headers = columns.get("headers")
    if isinstance(headers, ArrayType) and not _are_headers(headers.elementType):
        raise InvalidRecord(
            f"column 'headers' is {headers.simpleString()}, not {_KINDS['headers'][1]}"
        )


def _are_headers(inner: DataType) -> bool:
    if not isinstance(inner, StructType) or inner.names != ["key", "value"]:
        return False
    key, value = (field.dataType for field in inner.fields)
    return isinstance(key, StringType) and isinstance(value, BinaryType)


def this_task() -> int:
    """The number of the DataFrame's partition that is being written."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


# -- through brokers -------------------------------------------------------------------------


class _Produces:
    """What the writers of batches and of streams do in every task."""

    def __init__(self, settings: dict[str, Any], topic: str | None) -> None:
        """Keep what is pickled to the executors."""
        self._settings = settings
        self._topic = topic

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Produce everything and wait until it is acknowledged."""
        return Written(this_task(), producing.produce(self._settings, self._topic, iterator))


class BrokerWriter(_Produces, DataSourceArrowWriter):
    """Every task produces its rows; a task that cannot fails, and with it the query."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is left to do: what was acknowledged is there."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was acknowledged cannot be taken back: at least once."""


class BrokerStreamWriter(_Produces, DataSourceStreamArrowWriter):
    """Every task of a micro-batch produces its rows; one that cannot fails the query."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: what was acknowledged is there."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The micro-batch runs again: at least once."""


# -- a new topic -----------------------------------------------------------------------------


class BulkWriter(DataSourceArrowWriter):
    """Tasks put batches aside; the driver lays them into segments and commits.

    The laying down happens in the driver's Python process, a few segments at a time, because
    a commit has no executors to use; `bulk.load` does it on the executors.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """Refuse what cannot be loaded."""
        configs = {
            name.removeprefix(_CONFIG): value
            for name, value in options.items()
            if name.startswith(_CONFIG)
        }
        if "topic" not in options:
            raise InvalidRequest("a new topic is named by the option 'topic'")
        if not options.get("partitions", "").isdecimal():
            raise InvalidRequest("how many partitions? give the option 'partitions'")
        if configs.get("storage.placement") == "shared":
            raise InvalidRequest(
                "a load makes logs of its own: `kafscale pipeline convert --layout shared` moves "
                "a topic into shared ones"
            )
        logs = configs.get("physical.partitions", "-1")
        is_virtual = logs.strip().isdecimal()
        self._plan = bulk.begin(
            Bucket(options["store"], options.get("namespace", "")),
            options["topic"],
            int(options["partitions"]),
            compression=options.get("compression", "none"),
            configs=configs,
            layout="virtual" if is_virtual else "ordinary",
            logs=int(logs) if is_virtual else 0,
        )

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Put the rows of one task aside."""
        task = this_task()
        sections = stage(self._plan.target, task, iterator)
        return Written(task, sum(row.records for row in sections), tuple(sections))

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the topic visible."""
        written = sorted(
            (message for message in messages if isinstance(message, Written)),
            key=lambda message: message.task,
        )
        works = bulk.seals(self._plan, [row for message in written for row in message.sections])
        bucket = self._plan.target.bucket
        with ThreadPoolExecutor(_SEALS_AT_ONCE) as pool:
            sealed = list(pool.map(lambda work: sealing.seal(bucket, work), works))
        bulk.commit(self._plan, sealed)
        bucket.tell()
        bulk.tidy_up(self._plan)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave everything to the sweep: a commit whose answer was lost may have happened."""
