"""Printing records."""

import json

import pytest

from kafscale.admin.records.consuming import ConsumedRecord
from kafscale.cli.brokers.records.record_format import as_json, compile_format
from kafscale.cli.terminal.errors import UsageError

RECORD = ConsumedRecord("orders", 3, 17, 1700000000000, b"k", b"v", (("a", b"1"), ("b", None)))
BARE = ConsumedRecord("orders", 0, 0, None, None, None, ())


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%v\n", b"v\n"),
        ("%t/%p@%o", b"orders/3@17"),
        (r"%k\t%v", b"k\tv"),
        ("%T %h", b"1700000000000 a=1,b="),
        (r"100%% \\ \0", b"100% \\ \0"),
        ("grüße %v", "grüße v".encode()),
        ("\udcff%v", b"\xffv"),  # typed as a byte that is no UTF-8
        ("", b""),
    ],
)
def test_a_format_names_the_fields(text: str, printed: bytes) -> None:
    assert compile_format(text)(RECORD) == printed


def test_what_is_missing_prints_as_nothing_and_no_time_as_minus_one() -> None:
    assert compile_format("[%k|%v|%h|%T]")(BARE) == b"[|||-1]"


@pytest.mark.parametrize("text", ["%q", "50%", "\\x", "a\\", "%"])
def test_an_unknown_field_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--format: expected"):
        compile_format(text)


def test_json_holds_everything_in_one_line() -> None:
    line = as_json(RECORD)
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 3,
        "offset": 17,
        "timestamp": 1700000000000,
        "key": "k",
        "value": "v",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }


def test_json_tells_null_from_empty_and_text_from_bytes() -> None:
    record = BARE._replace(key=b"", value=b"\xff\x00", headers=(("h", b"\xfe"),))
    fields = json.loads(as_json(record))
    assert fields["key"] == ""
    assert fields["value_base64"] == "/wA="
    assert "value" not in fields
    assert fields["headers"] == [{"name": "h", "value_base64": "/g=="}]
    assert json.loads(as_json(BARE))["value"] is None


def test_a_terminal_gets_control_characters_escaped() -> None:
    hostile = RECORD._replace(key=b"\x1b[2J", value=b"line\n\x07")
    assert compile_format(r"%k %v\n", for_terminal=True)(hostile) == b"\\x1b[2J line\n\\x07\n"
    assert compile_format(r"%k %v\n")(hostile) == b"\x1b[2J line\n\x07\n"
