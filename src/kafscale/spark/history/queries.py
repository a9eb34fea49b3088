"""SQL over topics that have tables: each query gets frames made for it.

Here: finding the topics' tables, telling a query's columns (pruning.py) and making views that live
as long as Spark needs to understand the query. Next door: the frames (frames.py), the log alone
(source/sql.py).
"""

from collections.abc import Iterable

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from kafscale.spark.history import frames
from kafscale.spark.history.frames import TopicFrames
from kafscale.spark.history.pruning import needs_of
from kafscale.spark.history.source import TopicSource
from kafscale.spark.source import sql
from kafscale.spark.source.sql import PREFIX, TopicTables


class HistoryTables(TopicTables):
    """The topics of a store, whose history comes from their tables where they have them."""

    def frame(self, name: str) -> DataFrame:
        """One topic for any number of queries: each looks at the end of the log anew."""
        found = self._found([name]).get(name)
        return super().frame(name) if found is None else found.lasting()

    def run(self, text: str, used: list[str]) -> DataFrame:
        """Run a query over frames made for it: only its columns, and the log as it ends now."""
        found = {} if _is_remote(self._spark) else self._found(used)
        self.register(name for name in used if name not in found)
        before = {name: self._view(name) for name in found}
        try:
            for name, topic in found.items():
                topic.empty().createOrReplaceTempView(f"`{PREFIX}{name}`")
            needs = needs_of(self._spark, text, [f"{PREFIX}{name}" for name in found])
            for name, topic in found.items():
                made = topic.once(needs.get(f"{PREFIX}{name}"))
                made.createOrReplaceTempView(f"`{PREFIX}{name}`")
            return self._spark.sql(text)
        finally:
            for name, frame in before.items():
                self._restore(name, frame)

    def _found(self, names: Iterable[str]) -> dict[str, TopicFrames]:
        known = (name for name in names if name in self.names)
        looked = {
            name: frames.topic_frames(
                self._spark, self._bucket, self._bucket.topic(name), self._options
            )
            for name in known
        }
        return {name: topic for name, topic in looked.items() if topic is not None}

    def _view(self, name: str) -> DataFrame | None:
        """What the session has by this name: views that were registered for later queries."""
        try:
            return self._spark.table(f"`{PREFIX}{name}`")
        except AnalysisException:
            return None

    def _restore(self, name: str, frame: DataFrame | None) -> None:
        if frame is None:
            self._spark.catalog.dropTempView(f"{PREFIX}{name}")
        else:
            frame.createOrReplaceTempView(f"`{PREFIX}{name}`")


def _is_remote(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, which understands a query when it runs."""
    return not hasattr(spark, "_jsparkSession")


def register_topics(
    spark: SparkSession,
    store: str = "",
    topics: Iterable[str] | None = None,
    *,
    use_tables: bool = True,
    value_format: str = "",
    **options: str,
) -> TopicTables:
    """Make topics tables `topic.NAME`; history comes from a topic's own table where it has one.

    `value_format` is how values are read where neither the topic's table nor an option says it.
    The rest is as for the function of the same name in source/sql.py.
    """
    return sql.register_topics(
        spark,
        store,
        topics,
        tables=HistoryTables if use_tables else TopicTables,
        usual_format=value_format,
        source=TopicSource,
        **options,
    )
