"""Columns as SQL writes them."""

import pyarrow as pa
import pytest

from kafscale.model.errors import InvalidRequest
from kafscale.spark.values import ddl

ALL = (
    "a boolean, b int, c bigint, d float, e double, f string, g binary, h date, i timestamp, "
    "j decimal(10,2), k array<string>, l map<string,bigint>, "
    "m struct<x:int, `a b`:array<struct<y:double>>>, `odd name` string"
)


def test_what_is_written_is_read_again() -> None:
    schema = ddl.parse(ALL)
    assert ddl.text(schema) == ALL
    assert ddl.parse(ddl.text(schema)) == schema


def test_types_are_arrows() -> None:
    schema = ddl.parse("Id BIGINT, at: timestamp, tags ARRAY<STRING>, d decimal")
    assert schema.names == ["Id", "at", "tags", "d"]
    assert schema.types == [
        pa.int64(),
        pa.timestamp("us", tz="UTC"),
        pa.list_(pa.field("element", pa.string())),
        pa.decimal128(10, 0),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "at least one column"),
        ("id", "no type"),
        ("id bigintt", "'bigintt' is no type"),
        ("id bigint name string", "expected"),
        ("id bigint, id string", "'id' twice"),
        ("a array<string", "'>' was expected"),
        ("a decimal(40,2)", "1 to 38 digits"),
        ("a decimal(x)", "a number was expected"),
        ("a ; b", "a name or a type"),
        ("a struct<b:int", "'>' was expected"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(text: str, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        ddl.parse(text)
