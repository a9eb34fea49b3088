"""When offsets are to go back to."""

import argparse
from datetime import timedelta

import pytest

from kafscale.cli.brokers.groups import group_offsets
from kafscale.cli.terminal.durations import parse_duration
from kafscale.cli.terminal.errors import UsageError


def when_ms(**given: str) -> int | None:
    fields: dict[str, str | None] = {"to_datetime": None, "by_duration": None}
    return group_offsets._when_ms(argparse.Namespace(**{**fields, **given}))


def test_a_time_without_a_zone_is_utc() -> None:
    assert when_ms(to_datetime="1970-01-01T00:00:02") == 2000
    assert when_ms(to_datetime="1970-01-01T01:00:02+01:00") == 2000
    assert when_ms() is None


@pytest.mark.parametrize(
    "given",
    [
        {"to_datetime": "1969-12-31T23:59:59.999"},  # -1 is the protocol's word for the end
        {"to_datetime": "0001-01-01"},
        {"by_duration": "36500d"},
        {"by_duration": "9999999999d"},
    ],
)
def test_before_all_records_is_the_beginning(given: dict[str, str]) -> None:
    assert when_ms(**given) == 0


def test_durations_are_read_in_both_spellings() -> None:
    assert parse_duration("--by-duration", "1d12h") == timedelta(days=1, hours=12)
    assert parse_duration("--by-duration", "PT90M") == timedelta(minutes=90)
    for text in ("", "P", "90", "1w"):
        with pytest.raises(UsageError, match="--by-duration"):
            parse_duration("--by-duration", text)
