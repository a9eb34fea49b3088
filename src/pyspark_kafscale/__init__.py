"""Where Spark finds the data source `kafscale` by itself: it imports every `pyspark_*` package.

Here: the name Spark looks for, nothing else. Next door: kafscale.spark.history.source.
"""

from kafscale.spark.history.source import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
