"""Where the table of a topic lies, and from the name of a format to a table of it.

Each format needs a library that may not be installed: it is imported when it is asked for.
"""

from kafscale.log.formats import keys
from kafscale.model.errors import InvalidRequest
from kafscale.model.topics import TopicDescriptor
from kafscale.spark.bucket import Bucket
from kafscale.spark.lake.table import KINDS, Table
from kafscale.spark.lake.table_folder import TableFolder


def open_table(url: str, kind: str, catalog: str = "") -> Table:
    """A table by its place and kind; it need not exist."""
    if catalog and kind != "iceberg":
        raise InvalidRequest("only Iceberg tables have a catalog")
    match kind:
        case "parquet":
            from kafscale.spark.lake.parquet import ParquetTable

            return ParquetTable(TableFolder(url))
        case "delta":
            from kafscale.spark.lake.delta import DeltaTable

            return DeltaTable(TableFolder(url))
        case "iceberg":
            from kafscale.spark.lake.iceberg import IcebergTable

            return IcebergTable.open(url, catalog)
    raise InvalidRequest(f"a table is one of {', '.join(KINDS)}, not {kind!r}")


def table_url(bucket: Bucket, topic: TopicDescriptor) -> str:
    """Where the table of a topic lies."""
    table = topic.table
    if table is not None and table.location:
        return table.location
    where = bucket.where
    folder = keys.table_folder(bucket.namespace, topic.name)
    return f"s3://{where.root}/{folder}" if where.kind == "s3" else f"{where.root}/{folder}"
