"""Spark's own Kafka connector, from Maven Central: the peer of our source and sink.

The newest releases that could be had when this was written; none for the newest Spark was, and of
the second jar only the oldest. They work together, and with the Spark that is installed here.
"""

from pyspark.sql import SparkSession

from tests.support.maven import jars

COORDINATES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def add_connector(spark: SparkSession) -> None:
    """Have the format `kafka` in a session that runs already; Unavailable says why not."""
    for jar in jars(*COORDINATES):
        spark.sql(f"ADD JAR '{jar}'")
