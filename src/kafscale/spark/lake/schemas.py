"""The columns of exported tables.

Here: what every table has, what a table of dead letters has, and how columns are added.
Next door: where value columns come from and which types they have (spark/values/).
"""

from typing import Final

import pyarrow as pa

from kafscale.model.configs.table_settings import PARTITION_COLUMNS as PARTITION_COLUMNS
from kafscale.model.configs.table_settings import RESERVED_COLUMNS
from kafscale.model.errors import InvalidRequest
from kafscale.spark.values.types import plain

HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
# Where a record came from: ours, kept in every table under names a value hardly has.
ORIGIN: Final = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", tz="UTC")),
        ("_key", pa.binary()),
        ("_headers", HEADERS),
    ]
)
DEAD: Final = pa.schema([*ORIGIN, ("reason", pa.string()), ("value", pa.binary())])

# How a table can be partitioned: by what, the column that says so, its type where it is stored.
PARTITION_TYPES: Final = {"day": pa.date32(), "hour": pa.string()}


def with_values(values: pa.Schema) -> pa.Schema:
    """The columns of a table for records with these values."""
    if taken := RESERVED_COLUMNS & set(values.names):
        raise InvalidRequest(
            f"the name {sorted(taken)[0]!r} is taken: choose another in the schema"
        )
    return pa.schema([*ORIGIN, *values])


def additions(table: pa.Schema, wanted: pa.Schema) -> list[pa.Field]:
    """The columns a table lacks; InvalidRequest where one would have to change its type.

    Columns that are wanted no longer stay, and are null from now on.
    """
    missing = []
    for field in wanted:
        at = table.get_field_index(field.name)
        if at < 0:
            missing.append(field)
        elif plain(table.field(at).type) != plain(field.type):
            raise InvalidRequest(
                f"column {field.name!r} is {plain(table.field(at).type)} in the table and "
                f"{field.type} in the schema: columns can be added, never changed"
            )
    return missing
