"""From the name of a format to a table of it; each needs a library that may not be installed."""

from kafscale.model.errors import InvalidRequest
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
