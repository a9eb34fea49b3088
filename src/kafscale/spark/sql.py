"""Topics as tables of Spark SQL.

    from kafscale.spark import register_topics
    topics = register_topics(spark, store="s3://bucket")
    topics.sql("select count(*) from topic.orders where timestamp > '2026-11-01'").show()

Here: views over the source, one per topic, and finding `topic.NAME` in a query. Spark has no
temporary views below a name, so the view's own name is "topic.orders", and the query is given the
backquotes that this takes. Next door: the source itself (source.py), the command (cli/sql.py).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its customary name
from pyspark.sql.column import Column
from pyspark.sql.pandas.functions import arrow_udf

from kafscale.model.errors import InvalidRequest, UnknownTopic
from kafscale.spark import values
from kafscale.spark.bucket import Bucket
from kafscale.spark.tables import ddl
from kafscale.spark.values import Spec

PREFIX: Final = "topic."
# What a name may hide in: strings, quoted names, comments.
_SKIPPED: Final = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/"


class Topics:
    """The topics of a store in a session. Views are made when a query names them."""

    def __init__(
        self, spark: SparkSession, bucket: Bucket, spec: Spec, options: dict[str, str]
    ) -> None:
        self._spark = spark
        self._bucket = bucket
        self._spec = spec
        self._options = options
        self._views: set[str] = set()
        self.names = [topic.name for topic in bucket.topics()]

    def sql(self, query: str) -> DataFrame:
        """Run a query in which `topic.NAME` is a topic."""
        text, used = quoted(query, self.names)
        self.register(used)
        return self._spark.sql(text)

    def register(self, names: Iterable[str]) -> None:
        """Have views of these topics, for plain `spark.sql` and backquotes around the name."""
        for name in names:
            if name not in self._views:
                self.frame(name).createOrReplaceTempView(f"`{PREFIX}{name}`")
                self._views.add(name)

    def frame(self, name: str) -> DataFrame:
        """One topic as a DataFrame, with the columns the views have."""
        if name not in self.names:
            raise UnknownTopic(f"there is no topic {name!r} in {self._bucket.url}")
        reader = self._spark.read.format("kafscale").options(**self._options)
        rows = reader.option("store", self._bucket.url).option("subscribe", name).load()
        return rows.withColumn("value", value_column(self._spec))


def register_topics(
    spark: SparkSession,
    store: str,
    topics: Iterable[str] | None = None,
    *,
    value_format: str = "binary",
    value_schema: str = "",
    value_message: str = "",
    value_framing: str = "none",
    options: dict[str, str] | None = None,
) -> Topics:
    """Make topics (all of them, if none is named) tables `topic.NAME` of a session.

    `options` go to the source: startingOffsets, endingTimestamp, includeHeaders and so on.
    """
    from kafscale.spark.source import KafscaleSource

    spark.dataSource.register(KafscaleSource)
    spec = values.spec_of(value_format, value_schema, value_message, value_framing)
    found = Topics(spark, Bucket(store), spec, {"includeHeaders": "true", **(options or {})})
    found.register(found.names if topics is None else topics)
    return found


def value_column(spec: Spec) -> Column:
    """The column `value` in the wanted format; null where a value is not what it should be."""
    value = F.col("value")
    if spec == values.BINARY:
        return value
    if spec.format == "string" and spec.framing == "none":
        return value.cast("string")
    columns = values.decoder_of(spec).schema
    single = spec.format == "string"
    kind = "string" if single else f"struct<{ddl.text(columns)}>"

    def decode(raw: pa.Array) -> pa.Array:
        return _decoded(raw, spec, single)

    decode.__annotations__ = {"raw": pa.Array, "return": pa.Array}
    wrap: Any = arrow_udf
    column: Column = wrap(decode, kind)(value)
    return column


def _decoded(raw: pa.Array, spec: Spec, single: bool) -> pa.Array:
    """All rows again, null for the bad ones and for those without a value."""
    decoder = values.decoder_of(spec)
    found = decoder.decode(raw.cast(pa.binary()))
    kept = [at for at in range(len(raw)) if at not in found.bad]
    back = {row: at for at, row in enumerate(kept)}
    places = pa.array([back.get(row) for row in range(len(raw))], pa.int64())
    if single:
        return found.columns[0].take(places)
    absent = raw.filter(pa.array([row not in found.bad for row in range(len(raw))])).is_null()
    rows = pa.StructArray.from_arrays(found.columns, fields=list(decoder.schema), mask=absent)
    return rows.take(places)


def quoted(query: str, names: Iterable[str]) -> tuple[str, list[str]]:
    """The query with each `topic.NAME` as one quoted name, and the topics it names.

    Of several topics that a text could mean, it means the one with the longest name.
    """
    known = sorted(names, key=len, reverse=True)
    words = "|".join([*(re.escape(name) for name in known), r"[A-Za-z0-9._-]+"])
    place = rf"\btopic\s*\.\s*(?:`([^`]+)`|({words})(?![\w]))"
    used: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name is None:
            return found[0]
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise UnknownTopic(f"there is no topic {name!r}; there are: {there}")
        used.append(name)
        return f"`{PREFIX}{name}`"

    text = re.sub(f"{_SKIPPED}|{place}", replaced, query, flags=re.DOTALL | re.IGNORECASE)
    return text, list(dict.fromkeys(used))


def run_query(
    spark: SparkSession, topics: Topics, query: str, at_most: int | None = None
) -> tuple[list[str], Iterator[list[Any]]]:
    """The names of the columns, and the rows as they come, `at_most` so many."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        frame = topics.sql(query)
    except (AnalysisException, ParseException) as wrong:
        raise InvalidRequest(str(wrong).split("\n\nJVM stacktrace")[0].split(";\n")[0]) from None
    if at_most is not None:
        frame = frame.limit(at_most)
    return frame.columns, (list(row) for row in frame.toLocalIterator())
