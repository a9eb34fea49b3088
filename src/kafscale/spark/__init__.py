"""The data pipeline: Spark on the objects themselves, without a broker.

bucket.py and wiring.py reach the store; splits.py, source.py and stream.py make topics into
DataFrames; units.py runs work whose bytes never enter Spark; jobs/ has one job per file.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafscale.spark.jobs.export import export_topic
    from kafscale.spark.sql import register_topics

__all__ = ["export_topic", "register_topics"]


def __getattr__(name: str) -> Any:
    """What notebooks import from here, loaded when asked for: workers import this package too."""
    if name == "register_topics":
        from kafscale.spark import sql

        return sql.register_topics
    if name == "export_topic":
        from kafscale.spark.jobs import export

        return export.export_topic
    raise AttributeError(name)
