"""Which columns a query has, and which types.

Here: Spark's schema of each table, and what a narrower one decodes.
Next door: the options that decide it (plan/options.py), decoding values (values.py, ../values/).
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.types import StructType

from kafscale.spark.source.plan.options import BadOption, Shape

if TYPE_CHECKING:
    from kafscale.spark.values.formats import Spec

RECORDS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
_BAD_VALUE: Final = "badValue"


class WantedColumns(NamedTuple):
    """What rows are to consist of."""

    columns: tuple[str, ...]
    value_format: "Spec | None" = None
    value_type: Any = None  # Arrow's, of the decoded value


def schema_of(shape: Shape) -> str:
    """All columns, in Spark's words."""
    return ", ".join(f"{name} {kind}" for name, kind in _types(shape).items())


def _types(shape: Shape) -> dict[str, str]:
    if shape.table != "records":
        from kafscale.spark.source.rows import tables

        return tables.BATCHES if shape.table == "batches" else tables.SEGMENTS
    types = {name: kind for name, kind in RECORDS.items() if name != "headers"}
    if shape.include_headers:
        types["headers"] = RECORDS["headers"]
    if shape.value_format != "binary":
        types["value"] = _value_type(shape)
        if shape.bad_records == "column":
            types[_BAD_VALUE] = "binary"
    return types


def _value_type(shape: Shape) -> str:
    from pyspark.sql.pandas.types import from_arrow_type

    from kafscale.spark.source.rows import values

    natural = values.natural_type(values.load_spec(shape))
    if isinstance(natural, str):
        return natural
    # Times of Avro and Protobuf are moments; Arrow's form of them does not say so.
    kind: str = from_arrow_type(natural).simpleString()
    return kind.replace("timestamp_ntz", "timestamp")


def wanted(shape: Shape, schema: StructType) -> WantedColumns:
    """What a schema asks for; its types must be those of the source: nothing is cast."""
    known = dict(_types(shape)) if shape.value_format == "binary" else dict(RECORDS)
    if shape.table == "records":
        known |= {"headers": RECORDS["headers"]}
        if shape.value_format != "binary":
            known[_BAD_VALUE] = "binary"
    for field in schema.fields:
        expected = known.get(field.name)
        if expected is None:
            raise BadOption(f"{field.name}: there are the columns {', '.join(known)}")
        decoded = field.name == "value" and shape.value_format != "binary"
        if not decoded and field.dataType.simpleString() != expected:
            hint = " (valueFormat=string makes it text)" if field.name == "value" else ""
            raise BadOption(f"{field.name}: this column is {expected}{hint}")
        if not field.nullable:
            raise BadOption(f"{field.name}: columns of this source are nullable")
    names = tuple(field.name for field in schema.fields)
    if shape.value_format == "binary" or not {"value", _BAD_VALUE} & set(names):
        return WantedColumns(names)
    return _with_values(shape, schema, names)


def _with_values(shape: Shape, schema: StructType, names: tuple[str, ...]) -> WantedColumns:
    from pyspark.sql.pandas.types import to_arrow_type

    from kafscale.spark.source.rows import values

    given = values.load_spec(shape)
    if "value" not in names:
        raise BadOption(f"{_BAD_VALUE}: comes with the column value only")
    kind = schema["value"].dataType
    try:
        target = to_arrow_type(kind, timezone="UTC")
    except TypeError:  # Spark before 4.2 takes UTC for granted
        target = to_arrow_type(kind)
    return WantedColumns(names, given, target)
