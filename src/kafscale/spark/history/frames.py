"""Topics of a session as views: history from their tables, the rest from their logs.

Here: a DataFrame that joins the two at an exact offset of each partition. Where Spark itself
reaches the table's files, it reads them: only the columns and row groups that a query needs. Where
it does not (the bare PySpark package has no file system for a bucket), the source's workers do.
Next door: where the two meet (parts.py), the log alone (source/sql.py), tables (lake/).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.history.parts import TablePart, as_declared, table_part
from kafscale.spark.history.pruning import Needs
from kafscale.spark.lake import schemas
from kafscale.spark.lake.table import TableFile
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.source.plan import planning
from kafscale.spark.source.plan.filters import EVERYTHING
from kafscale.spark.source.plan.options import OffsetRule, Options, read_options
from kafscale.spark.source.plan.splits import Slice
from kafscale.spark.source.rows.columns import schema_of, wanted
from kafscale.spark.source.rows.tasks import read_rows
from kafscale.spark.values import formats
from kafscale.spark.values.formats import Spec

SHORT_TAIL_BYTES: Final = 8 << 20  # stored; decoded it may be some times as much


class TopicFrames:
    """One version of a topic's table, with the log from there on."""

    def __init__(
        self, spark: SparkSession, bucket: Bucket, part: TablePart, given: Mapping[str, str]
    ) -> None:
        """`given`: the source's options for this topic."""
        self._spark, self._bucket, self._part, self._given = spark, bucket, part, dict(given)
        self._options = read_options(given, streaming=False)
        schema = StructType.fromDDL(schema_of(self._options.shape))
        assert isinstance(schema, StructType)
        self._schema = schema

    def empty(self) -> DataFrame:
        """No rows, with the topic's columns."""
        return self._spark.createDataFrame([], self._schema)

    def lasting(self) -> DataFrame:
        """A frame for any number of queries; where the log ends is looked up by each."""
        if self._is_foreign:
            return self._reader().option("useTable", "true").load()
        views = planning.views(self._bucket, self._options)
        starts = self._part.starts({view.partition: view.start for view in views})
        return self._joined(starts, self._log(starts), None)

    def once(self, needs: Needs | None) -> DataFrame:
        """A frame for one query, which needs so much of it; None: everything.

        A short end of the log is read here and now. Spark plans a Python source in processes of its
        own and runs at least one task for it, also if there is nothing to read.
        """
        if self._is_foreign:
            return self._narrow(self._reader().option("useTable", "true"), needs)
        views = planning.views(self._bucket, self._options)
        starts = self._part.starts({view.partition: view.start for view in views})
        rule = OffsetRule("offsets", {self._part.topic.name: starts})
        options = replace(self._options, starting=rule)
        slices = planning.windows(self._bucket, options, views, EVERYTHING)
        if sum(piece.size for piece in slices) > SHORT_TAIL_BYTES:
            offsets = _offsets(self._part.topic, starts)
            narrow = self._narrow(self._reader().option("startingOffsets", offsets), needs)
            return self._joined(starts, narrow, needs)
        return self._joined(starts, self._read_here(options, slices), needs)

    @property
    def _is_foreign(self) -> bool:
        """Whether Spark itself does not reach the table's files."""
        return self._part.place.where.kind != "file"

    def _reader(self) -> DataFrameReader:
        return self._spark.read.format("kafscale").options(**self._given)

    def _log(self, starts: Mapping[int, int]) -> DataFrame:
        return self._reader().option("startingOffsets", _offsets(self._part.topic, starts)).load()

    def _read_here(self, options: Options, slices: Sequence[Slice]) -> DataFrame | None:
        """The end of the log, read in this process; None: the table has all of it."""
        import pyarrow as pa

        asked = wanted(options.shape, self._schema)
        rows = [
            batch
            for split in planning.cut(self._bucket, options, slices)
            for batch in read_rows(options, asked, split, None)
        ]
        if not rows:
            return None
        return self._spark.createDataFrame(pa.Table.from_batches(rows), self._schema)

    def _narrow(self, reader: DataFrameReader, needs: Needs | None) -> DataFrame:
        """All columns, of which only those needed are read; the others are null."""
        if needs is None:
            return reader.load()
        asked = StructType(
            [_narrowed(field, needs) for field in self._schema if field.name in needs.columns]
            or [self._schema["offset"]]
        )
        rows = reader.schema(asked).load()
        return rows.select(*(_widened(field, asked) for field in self._schema))

    def _joined(
        self, starts: Mapping[int, int], log: DataFrame | None, needs: Needs | None
    ) -> DataFrame:
        """Three parts: the table, dead letters before the same offsets, the log from there."""
        part, made = self._part, [] if log is None else [log]
        if part.files:
            settings = part.topic.table
            assert settings is not None
            spec = formats.checked(Spec(settings.value_format, settings.value_schema.encode()))
            values = formats.columns_of(spec)
            files = _read(self._spark, _paths(part.place, part.files), schemas.with_values(values))
            value = _value(spec, values.names, by_field=needs is not None and bool(needs.fields))
            made.insert(0, files.select(*self._columns(value)))
        if part.dead_files:
            dead = _read(self._spark, _paths(part.dead_place, part.dead_files), schemas.DEAD)
            before = dead.filter(_is_before(starts)).dropDuplicates(["_partition", "_offset"])
            made.insert(0, before.select(*self._columns(f.lit(None))))
        return reduce(DataFrame.unionByName, made or [self.empty()])

    def _columns(self, value: Column) -> list[Column]:
        """The columns of the log, made of the table's."""
        made = {
            "key": f.col("_key"),
            "value": value,
            "topic": f.col("_topic"),
            "partition": f.col("_partition"),
            "offset": f.col("_offset"),
            "timestamp": f.col("_timestamp"),
            "timestampType": f.lit(self._part.timestamp_type),
            "headers": f.col("_headers"),
        }
        return [made[field.name].cast(field.dataType).alias(field.name) for field in self._schema]


def topic_frames(
    spark: SparkSession, bucket: Bucket, topic: TopicDescriptor, options: Mapping[str, str]
) -> TopicFrames | None:
    """The topic from its table and its log; None: the log alone."""
    settings = topic.table
    if settings is None:
        return None
    given = as_declared({**options, "store": bucket.url, "subscribe": topic.name}, settings)
    part = table_part(bucket, topic, read_options(given, streaming=False))
    return None if part is None else TopicFrames(spark, bucket, part, given)


def _narrowed(field: StructField, needs: Needs) -> StructField:
    if field.name != "value" or needs.fields is None:
        return field
    assert isinstance(field.dataType, StructType)
    kept = [part for part in field.dataType if part.name in needs.fields]
    return StructField("value", StructType(kept))


def _widened(field: StructField, asked: StructType) -> Column:
    """A column of the full type; what was not asked for is null."""
    if field.name not in asked.names:
        return f.lit(None).cast(field.dataType).alias(field.name)
    kind = asked[field.name].dataType
    if kind == field.dataType:
        return f.col(field.name)
    assert isinstance(kind, StructType)
    assert isinstance(field.dataType, StructType)
    parts = [
        f.col("value").getField(part.name).alias(part.name)
        if part.name in kind.names
        else f.lit(None).cast(part.dataType).alias(part.name)
        for part in field.dataType
    ]
    return f.struct(*parts).alias(field.name)


def _paths(place: TableFolder, files: list[TableFile]) -> list[str]:
    return [f"file://{place.path(file.path)}" for file in files]


def _offsets(topic: TopicDescriptor, starts: Mapping[int, int]) -> str:
    return json.dumps({topic.name: {str(number): at for number, at in starts.items()}})


def _read(spark: SparkSession, files: list[str], columns: Any) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.read.schema(from_arrow_schema(columns)).parquet(*files)


def _value(spec: Spec, names: list[str], *, by_field: bool) -> Column:
    """The value as the log has it: one column, or a struct; null where all of it is null.

    For a query that names fields only (`by_field`), a struct of nulls will do: then Spark reads no
    other fields.
    """
    if spec.format in ("binary", "string"):
        return f.col("value")
    parts = [f.col(f"`{name}`") for name in names]
    whole = f.struct(*parts)
    return whole if by_field else f.when(_any_there(parts), whole)


def _any_there(parts: list[Column]) -> Column:
    return reduce(or_, (part.isNotNull() for part in parts))


def _is_before(starts: Mapping[int, int]) -> Column:
    """Whether a dead letter lies before the log's part."""
    places = [
        (f.col("_partition") == number) & (f.col("_offset") < start)
        for number, start in starts.items()
    ]
    return reduce(or_, places, f.lit(False))
