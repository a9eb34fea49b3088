"""Where to start."""

import pytest

from kafscale.cli.brokers.records import consume
from kafscale.cli.terminal.errors import CommandError, UsageError


@pytest.mark.parametrize(
    ("where", "start"),
    [("beginning", 5), ("end", 20), ("5", 5), ("12", 12), ("20", 20), ("-3", 17), ("-99", 5)],
)
def test_a_start_is_a_word_an_offset_or_a_distance_from_the_end(where: str, start: int) -> None:
    assert consume.start_offset(where, 0, 5, 20) == start


@pytest.mark.parametrize("where", ["4", "21"])
def test_an_offset_that_is_not_there_is_refused(where: str) -> None:
    with pytest.raises(CommandError, match=f"partition 2 has offsets 5 to 20, not {where}"):
        consume.start_offset(where, 2, 5, 20)


def test_a_start_that_is_no_place_is_refused() -> None:
    with pytest.raises(UsageError, match="expected beginning, end or a number, found 'soon'"):
        consume.start_offset("soon", 0, 5, 20)
