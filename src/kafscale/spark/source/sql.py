"""Topics as tables of Spark SQL.

    from kafscale.spark import register_topics
    topics = register_topics(spark, store="s3://bucket")
    topics.sql("select count(*) from topic.orders where timestamp > '2026-11-01'").show()

Here: views over the source, one per topic, and finding `topic.NAME` in a query. Spark has no
temporary views below a name, so the view's own name is "topic.orders", and the query is given the
backquotes that this takes. Next door: the source itself (source.py), the command
(cli/bucket/sql.py).
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource

from kafscale.model.errors import InvalidRequest, UnknownTopic
from kafscale.spark.bucket import Bucket
from kafscale.spark.errors import QueryRefused
from kafscale.spark.source.closed_sql import check_closed

PREFIX: Final = "topic."
_SHOWN: Final = 5  # names of topics in an error
STORE_SETTING: Final = "spark.kafscale.store"
DEFAULTS: Final = {"includeHeaders": "true", "badRecords": "null"}
# What a name may hide in: strings, quoted names, comments.
_SKIPPED: Final = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/"


class TopicTables:
    """The topics of a store in a session. Views are made when a query names them."""

    def __init__(
        self,
        spark: SparkSession,
        bucket: Bucket,
        options: dict[str, str],
        usual_format: str = "",
    ) -> None:
        self._spark = spark
        self._bucket = bucket
        self._options = options
        self._usual_format = usual_format
        self._views: set[str] = set()
        self.names = [topic.name for topic in bucket.topics()]

    def sql(self, query: str, *, is_closed: bool = False) -> DataFrame:
        """Run a query in which `topic.NAME` is a topic; closed: it may read nothing else."""
        text, used = quoted(query, self.names)
        if is_closed:
            check_closed(self._spark, text)
        return self.run(text, used)

    def run(self, text: str, used: list[str]) -> DataFrame:
        """Run a query that names the views of these topics."""
        self.register(used)
        return self._spark.sql(text)

    def register(self, names: Iterable[str]) -> None:
        """Create views of these topics, for plain `spark.sql` and backquotes around the name."""
        for name in names:
            if name not in self._views:
                self.frame(name).createOrReplaceTempView(f"`{PREFIX}{name}`")
                self._views.add(name)

    def frame(self, name: str) -> DataFrame:
        """One topic as a DataFrame, with the columns the views have."""
        if name not in self.names:
            raise UnknownTopic(f"there is no topic {name!r} in {self._bucket.url}")
        reader = self._spark.read.format("kafscale").options(**self._options)
        if self._usual_format and "valueformat" not in {one.lower() for one in self._options}:
            reader = reader.option("valueFormat", self._usual_format)
        return reader.option("store", self._bucket.url).option("subscribe", name).load()


def register_topics(
    spark: SparkSession,
    store: str = "",
    topics: Iterable[str] | None = None,
    *,
    tables: type[TopicTables] = TopicTables,
    usual_format: str = "",
    source: type[DataSource] | None = None,
    **options: str,
) -> TopicTables:
    """Make topics (all of them, if none is named) tables `topic.NAME` of a session.

    Without `store`, the session's setting spark.kafscale.store says where they are.
    `options` go to the source: valueFormat, startingOffsets, endingTimestamp and so on. Headers
    are there; a value that cannot be decoded is null, unless badRecords says otherwise.
    `usual_format` is the value's format where neither `options` nor `tables` says it.
    """
    store = store or str(spark.conf.get(STORE_SETTING, ""))
    if not store:
        raise InvalidRequest(f"which bucket? give store=, or set {STORE_SETTING} in the session")
    _make_known(spark, source)
    given = {name.lower() for name in options}
    defaults = {"includeHeaders": "true"} if "mode" in given else DEFAULTS
    made = tables(spark, Bucket(store), {**defaults, **options}, usual_format)
    made.register(made.names if topics is None else topics)
    return made


def _make_known(spark: SparkSession, source: type[DataSource] | None) -> None:
    """Register the source in the session, also if Spark did not find it."""
    from pyspark.errors import AnalysisException

    from kafscale.spark.source.source import KafscaleSource

    try:
        spark.dataSource.register(source or KafscaleSource)
    except AnalysisException as refused:  # Spark 4.0, where it has found it
        if refused.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def quoted(query: str, names: Iterable[str]) -> tuple[str, list[str]]:
    """The query with each `topic.NAME` as one quoted name, and the topics it names.

    Of several topics that a text could mean, it means the one with the longest name.
    """
    known = sorted(names, key=len, reverse=True)
    words = "|".join([*(re.escape(name) for name in known), r"[A-Za-z0-9._-]+"])
    place = rf"\btopic\s*\.\s*(?:`([^`]+)`|({words})(?![\w]))"
    used: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name is None:
            whole = match[0].removeprefix(f"`{PREFIX}").removesuffix("`")
            if match[0].startswith("`") and whole in known:
                used.append(whole)  # the query names the view itself
            return match[0]
        if name not in known:
            raise UnknownTopic(f"there is no topic {name!r}; {_nearest(name, known)}")
        used.append(name)
        return f"`{PREFIX}{name}`"

    text = re.sub(f"{_SKIPPED}|{place}", replaced, query, flags=re.DOTALL | re.IGNORECASE)
    return text, list(dict.fromkeys(used))


def _nearest(name: str, known: list[str]) -> str:
    """The topics that the query may mean, or how many there are."""
    near = get_close_matches(name, known, n=_SHOWN, cutoff=0.6)
    if near:
        return f"the nearest: {', '.join(near)}"
    shown = ", ".join(sorted(known)[:_SHOWN])
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"there are: {shown or 'none'}{more}"


def unknown_table(table: str, names: list[str]) -> str:
    """What to tell about a query that names a table which is no topic."""
    if table in names:
        return f"there is no table {table!r}; the topic of that name is {PREFIX}{table}"
    return f"there is no table {table!r}; topics are tables {PREFIX}NAME, {_nearest(table, names)}"


def run_query(
    spark: SparkSession,
    topics: TopicTables,
    query: str,
    at_most: int | None = None,
    *,
    is_closed: bool = False,
) -> tuple[list[str], Iterator[list[Any]]]:
    """The names of the columns, and the rows as they come, at most `at_most`."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        frame = topics.sql(query, is_closed=is_closed)
    except (AnalysisException, ParseException) as wrong:
        if wrong.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            table = (wrong.getMessageParameters() or {}).get("relationName", "")
            raise UnknownTopic(unknown_table(table.replace("`", ""), topics.names)) from None
        raise QueryRefused(str(wrong).split("\n\nJVM stacktrace")[0].split(";\n")[0]) from None
    if at_most is not None:
        frame = frame.limit(at_most)
    return frame.columns, (list(row) for row in frame.toLocalIterator())
