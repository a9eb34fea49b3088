"""Where Spark finds the data source `kafscale` by itself: it imports every `pyspark_*` package.

Here: the name Spark looks for, nothing else. Next door: kafscale.spark.source.source.
"""

from kafscale.spark.source.source import KafscaleSource as DefaultSource

__all__ = ["DefaultSource"]
