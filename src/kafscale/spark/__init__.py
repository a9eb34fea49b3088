"""The data pipeline: Spark on the objects themselves, without a broker.

bucket.py reaches the store and views.py says what is in it. source/ turns topics into DataFrames,
sink/ turns DataFrames into topics. kernels/ decodes records, values/ decodes what is in them.
execution/ runs work on Spark or in this process. lake/ writes tables, report/ counts and draws,
transfer/ carries records between topics and clusters. jobs/ has one file for each job, runner/ does
them when they are due. history/ reads a topic from its table and its log.
"""

from typing import TYPE_CHECKING, Any

from kafscale.spark import worker_python

if TYPE_CHECKING:
    from kafscale.spark.history.queries import register_topics
    from kafscale.spark.jobs.export import export_topic
    from kafscale.spark.source.lag import stream_lag

__all__ = ["export_topic", "register_topics", "stream_lag"]


def __getattr__(name: str) -> Any:
    """Load what notebooks import from here only when it is asked for: workers import this, too."""
    if name == "register_topics":
        worker_python.warn_of_other_python()
        from kafscale.spark.history import queries

        return queries.register_topics
    if name == "stream_lag":
        from kafscale.spark.source import lag

        return lag.stream_lag
    if name == "export_topic":
        worker_python.warn_of_other_python()
        from kafscale.spark.jobs import export

        return export.export_topic
    raise AttributeError(name)
