"""Where a replay's rows come from: a topic in the bucket, Parquet files, a Delta table.

Here: reading all of it or one step of it, and what it holds without reading it. Steps are
decided once and can be read again: ranges of offsets, or lists of files.
Next door: what is done with the rows (jobs/replay.py).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from kafscale.model.errors import InvalidRequest
from kafscale.spark.bucket import Bucket
from kafscale.spark.views import read_views

_FILES_PER_STEP: Final = 16
# Names by which the columns of a sink may be found: Spark's own, and those of our exports.
_FOUND_AS: Final = {name: (name, f"_{name}") for name in ("key", "value", "headers", "timestamp")}


class Step(msgspec.Struct, frozen=True):
    """A part of the source that is written at once."""

    files: list[str] = []
    base: str = ""  # the table the files belong to
    starts: dict[str, int] = {}  # partition to offset
    ends: dict[str, int] = {}


def columns_of(frame: DataFrame) -> dict[str, str]:
    """Which columns become key, value, headers and timestamp of a record.

    A table without a value is one of typed rows: all its columns become one JSON object.
    """
    names = frame.columns
    columns = {
        name: f"`{other}`"
        for name, others in _FOUND_AS.items()
        for other in others
        if other in names
    }
    own = [name for name in names if not name.startswith("_") and name not in ("key", "timestamp")]
    if "value" not in columns and own:
        columns["value"] = f"to_json(struct({', '.join(f'`{name}`' for name in own)}))"
    return columns


def whole(spark: SparkSession, bucket: Bucket, topic: str, path: str) -> DataFrame:
    """Everything there is now."""
    if topic:
        return _topic(spark, bucket, topic).load()
    return _files(spark, path, _list_files(spark, path))


def _topic(spark: SparkSession, bucket: Bucket, topic: str) -> DataFrameReader:
    return (
        spark.read.format("kafscale")
        .option("store", bucket.url)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
    )


def _files(spark: SparkSession, base: str, files: list[str]) -> DataFrame:
    if not files:
        raise InvalidRequest(f"{base}: there are no files")
    reader = spark.read
    if not (len(files) == 1 and files[0].endswith(base)):  # a folder, maybe with partitions in it
        reader = reader.option("basePath", base)
    return reader.parquet(*files)


def _list_files(spark: SparkSession, path: str) -> list[str]:
    """The files of a table as it is now, in order of their names."""
    if _is_delta(path):
        from deltalake import DeltaTable

        table = DeltaTable(path)
        if "deletionVectors" in (table.protocol().reader_features or ()):
            raise InvalidRequest(
                f"{path}: tables with deletion vectors cannot be read file by file"
            )
        return sorted(table.file_uris())
    return sorted(spark.read.parquet(path).inputFiles())


def _is_delta(path: str) -> bool:
    """Whether a Delta log lies there; other places than files are asked through the library."""
    if "://" not in path:
        return (Path(path) / "_delta_log").is_dir()
    from deltalake import DeltaTable

    return DeltaTable.is_deltatable(path)


# -- steps -----------------------------------------------------------------------------------


def steps(
    spark: Callable[[], SparkSession], bucket: Bucket, topic: str, path: str, records: int
) -> list[Step]:
    """The source in parts of a few million records or some files each."""
    if not topic:
        files = _list_files(spark(), path)
        return [
            Step(files=files[at : at + _FILES_PER_STEP], base=path)
            for at in range(0, len(files), _FILES_PER_STEP)
        ]
    views = read_views(bucket, bucket.topic(topic))
    parts = []
    for at in range(0, max((view.end - view.start for view in views), default=0), records):
        here = [view for view in views if view.start + at < view.end]
        parts.append(
            Step(
                starts={str(view.partition): view.start + at for view in here},
                ends={str(v.partition): min(v.end, v.start + at + records) for v in here},
            )
        )
    return parts


def read_step(spark: SparkSession, bucket: Bucket, topic: str, step: Step) -> DataFrame:
    """The rows of one step."""
    if not topic:
        return _files(spark, step.base, step.files)
    places = sorted(int(number) for number in step.ends)
    reader = _topic_part(spark, bucket, topic, places)
    return (
        reader.option("startingOffsets", json.dumps({topic: step.starts}))
        .option("endingOffsets", json.dumps({topic: step.ends}))
        .load()
    )


def _topic_part(
    spark: SparkSession, bucket: Bucket, topic: str, places: list[int]
) -> DataFrameReader:
    return (
        spark.read.format("kafscale")
        .option("store", bucket.url)
        .option("assign", json.dumps({topic: places}))
        .option("includeHeaders", "true")
    )


# -- cost ------------------------------------------------------------------------------------


def estimate(
    bucket: Bucket, topic: str, path: str, since_ms: int | None, until_ms: int | None
) -> dict[str, Any]:
    """Objects, bytes and records that may have to be read; no Spark needed."""
    if topic:
        stored_ranges = [
            stored
            for view in read_views(bucket, bucket.topic(topic))
            for stored in view.stored_ranges
            if (since_ms is None or stored.max_timestamp_ms >= since_ms)
            and (until_ms is None or stored.min_timestamp_ms < until_ms)
        ]
        return {
            "objects_read": len(stored_ranges),
            "bytes_read": sum(stored.length for stored in stored_ranges),
            "records_at_most": sum(stored.records for stored in stored_ranges),
        }
    from pyarrow import dataset

    table = dataset.dataset(path, format="parquet", partitioning="hive")
    sizes = [
        fragment.filesystem.get_file_info(fragment.path).size for fragment in table.get_fragments()
    ]
    return {
        "objects_read": len(sizes),
        "bytes_read": sum(sizes),
        "records_at_most": table.count_rows(),
    }
