"""The data pipeline: Spark on the objects themselves, without a broker.

bucket.py reaches the store; views.py says what is in it; source/ makes topics into
DataFrames and sink/ DataFrames into topics; kernels/ decodes records and values/ what is in them;
lake/ writes tables; units.py runs work whose bytes never enter Spark; jobs/ has one job per file,
moving/ and report/ what several of them share.
"""

from typing import TYPE_CHECKING, Any

from kafscale.spark import worker_python

if TYPE_CHECKING:
    from kafscale.spark.jobs.export import export_topic
    from kafscale.spark.source.lag import stream_lag
    from kafscale.spark.source.sql import register_topics

__all__ = ["export_topic", "register_topics", "stream_lag"]


def __getattr__(name: str) -> Any:
    """What notebooks import from here, loaded when asked for: workers import this package too."""
    if name == "register_topics":
        worker_python.warn_of_other_python()
        from kafscale.spark.source import sql

        return sql.register_topics
    if name == "stream_lag":
        from kafscale.spark.source import lag

        return lag.stream_lag
    if name == "export_topic":
        worker_python.warn_of_other_python()
        from kafscale.spark.jobs import export

        return export.export_topic
    raise AttributeError(name)
