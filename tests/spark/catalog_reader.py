"""Spark with Iceberg's own runtime at a REST catalog; prints the rows of a query as JSON.

Run by an interpreter that has pyspark and no kafscale: `catalog_reader.py JAR URI TOKEN QUERY`.
"""

import json
import sys

from pyspark.sql import SparkSession

jar, uri, token, query = sys.argv[1:]
settings = {
    "spark.jars": jar,
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalog.topics": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.topics.type": "rest",
    "spark.sql.catalog.topics.uri": uri,
    "spark.sql.catalog.topics.token": token,
}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
session.sparkContext.setLogLevel("ERROR")
tables = sorted(row["tableName"] for row in session.sql("show tables in topics.default").collect())
print(json.dumps([tables, [list(row) for row in session.sql(query).collect()]]))
session.stop()
