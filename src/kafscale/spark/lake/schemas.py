"""The columns of exported tables.

Here: what every table has, what a table of dead letters has, which Arrow types tables of all
kinds can hold, and how columns are added. Next door: where value columns come from (values.py).
"""

from typing import Final

import pyarrow as pa

from kafscale.model.errors import InvalidRequest

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
PARTITION_COLUMNS: Final = {"day": "_day", "hour": "_hour"}
PARTITION_TYPES: Final = {"day": pa.date32(), "hour": pa.string()}
RESERVED: Final = frozenset(ORIGIN.names) | frozenset(PARTITION_COLUMNS.values())


def lake(kind: pa.DataType) -> pa.DataType:
    """The nearest type all tables have: nullable throughout, microseconds, UTC."""
    match kind:
        case pa.TimestampType():
            return pa.timestamp("us", tz="UTC")
        case pa.ListType() | pa.LargeListType():
            return pa.list_(pa.field("element", lake(kind.value_type)))
        case pa.MapType():
            return pa.map_(lake(kind.key_type), lake(kind.item_type))
        case pa.StructType():
            return pa.struct([pa.field(field.name, lake(field.type)) for field in kind])
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_int8(kind) or pa.types.is_int16(kind) or pa.types.is_uint8(kind):
        return pa.int32()
    if pa.types.is_uint16(kind):
        return pa.int32()
    if pa.types.is_uint32(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    return kind


def lake_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns as all tables can hold them."""
    return pa.schema([pa.field(field.name, lake(field.type)) for field in schema])


def with_values(values: pa.Schema) -> pa.Schema:
    """The columns of a table for records with these values."""
    if taken := RESERVED & set(values.names):
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
        elif lake(table.field(at).type) != lake(field.type):
            raise InvalidRequest(
                f"column {field.name!r} is {lake(table.field(at).type)} in the table and "
                f"{field.type} in the schema: columns can be added, never changed"
            )
    return missing
