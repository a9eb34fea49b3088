"""Rows as people and programs want them."""

import argparse
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from kafscale.cli.bucket import sql

# Spark hands out times without a zone; the command runs in UTC.
ROWS = [
    [1, "text", b"bytes", b"\xff", datetime(2026, 1, 2, 3, 4, 5), True, None],  # noqa: DTZ001
    [2, 'quo"te', None, None, None, False, [{"a": date(2026, 1, 2)}, {"a": Decimal("1.50")}]],
]
NAMES = ["n", "text", "raw", "binary", "at", "flag", "list"]


def test_json_has_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    sql._print("json", NAMES, iter(ROWS), None)
    assert capsys.readouterr().out.splitlines() == [
        '{"n":1,"text":"text","raw":"bytes","binary":"/w==","at":"2026-01-02T03:04:05.000Z",'
        '"flag":true,"list":null}',
        '{"n":2,"text":"quo\\"te","raw":null,"binary":null,"at":null,"flag":false,'
        '"list":[{"a":"2026-01-02"},{"a":"1.50"}]}',
    ]


def test_csv_has_a_heading_and_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    sql._print("csv", NAMES, iter(ROWS), 1)
    assert capsys.readouterr().out.splitlines() == [
        "n,text,raw,binary,at,flag,list",
        "1,text,bytes,ff,2026-01-02T03:04:05.000Z,true,",
    ]


def test_columns_say_when_there_is_more(capsys: pytest.CaptureFixture[str]) -> None:
    sql._print("columns", ["n"], iter([[1], [20], [3]]), 2)
    shown = capsys.readouterr()
    assert shown.out == " n\n 1\n20\n"
    assert "the first 2 rows" in shown.err


def test_a_schema_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "schema"
    file.write_text("id bigint\n")
    parser = argparse.ArgumentParser()
    sql.add_arguments(parser)

    def options(*words: str) -> dict[str, str]:
        return sql._value_options(parser.parse_args(["q", "--store", "s", *words]))

    assert options() == {}, "the table of the topic decides, else it is text"
    assert options("--value-format", "json", "--value-schema", str(file)) == {
        "valueFormat": "json",
        "valueSchema": "id bigint",
    }
    assert options("--value-format", "avro", "--value-schema", str(file)) == {
        "valueFormat": "avro",
        "valueSchemaFile": str(file),
    }
