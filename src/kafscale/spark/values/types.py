"""Types of columns: which there are, how two become one, and arrays made to fit.

Here: Arrow types alone. Next door: columns as SQL writes them (ddl.py).
"""

from collections.abc import Iterable

import pyarrow as pa

from kafscale.model.errors import InvalidRequest


def plain(kind: pa.DataType) -> pa.DataType:
    """The nearest type that all tables and Spark have: nullable throughout, microseconds, UTC."""
    match kind:
        case pa.TimestampType():
            return pa.timestamp("us", tz="UTC")
        case pa.ListType() | pa.LargeListType():
            return pa.list_(pa.field("element", plain(kind.value_type)))
        case pa.MapType():
            return pa.map_(plain(kind.key_type), plain(kind.item_type))
        case pa.StructType():
            return pa.struct([pa.field(field.name, plain(field.type)) for field in kind])
    if pa.types.is_union(kind):
        raise InvalidRequest(f"no column holds values of several types: {kind}")
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


def plain_schema(schema: Iterable[pa.Field]) -> pa.Schema:
    """The same columns in such types."""
    return pa.schema([pa.field(field.name, plain(field.type)) for field in schema])


def widened(left: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that holds the values of both without loss, or InvalidRequest."""
    if left == other:
        return left
    if pa.types.is_struct(left) and pa.types.is_struct(other):
        return pa.struct(list(union(left, other)))
    if pa.types.is_list(left) and pa.types.is_list(other):
        return pa.list_(pa.field("element", widened(left.value_type, other.value_type)))
    if pa.types.is_map(left) and pa.types.is_map(other) and left.key_type == other.key_type:
        return pa.map_(left.key_type, widened(left.item_type, other.item_type))
    pair = {left, other}
    for wide, narrow in ((pa.int64(), pa.int32()), (pa.float64(), pa.float32())):
        if pair == {wide, narrow}:
            return wide
    if pair == {pa.int32(), pa.float64()}:
        return pa.float64()
    raise InvalidRequest(f"no column holds both {left} and {other}")


def union(one: Iterable[pa.Field], other: Iterable[pa.Field]) -> pa.Schema:
    """The columns of both, in the order they were met."""
    kinds = {field.name: field.type for field in one}
    for field in other:
        there = kinds.get(field.name)
        try:
            kinds[field.name] = field.type if there is None else widened(there, field.type)
        except InvalidRequest as problem:
            raise InvalidRequest(f"column {field.name!r}: {problem}") from problem
    return pa.schema(list(kinds.items()))


def unfit(kind: pa.DataType, target: pa.DataType) -> str:
    """What keeps every value of one type from a column of the other; nothing, if none."""
    try:
        fits = widened(target, kind) == target
    except InvalidRequest as problem:
        return str(problem)
    return "" if fits else f"{kind} does not fit into {target}"


def fit(values: pa.Array, target: pa.DataType) -> pa.Array:
    """An array as a column wants it: fields by name, those it lacks null."""
    if values.type == target:
        return values
    if not pa.types.is_struct(target):
        return values.cast(target)
    children = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
    arrays = [
        fit(children[field.name], field.type)
        if field.name in children
        else pa.nulls(len(values), field.type)
        for field in target
    ]
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=mask)
