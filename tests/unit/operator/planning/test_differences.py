"""What counts as a difference between a manifest and what the server has."""

from typing import Any

import pytest

from kafscale.operator.planning.differences import contains


@pytest.mark.parametrize(
    ("live", "wanted", "same"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),  # fields of others
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": 1}, False),
        ({}, {"a": False, "b": 0, "c": {}, "d": [], "e": ""}, True),  # left out by the server
        ({"a": True}, {"a": False}, False),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": "x"}, {"a": {"b": 1}}, False),
    ],
)
def test_only_what_is_named_is_compared(live: Any, wanted: Any, same: bool) -> None:
    assert contains(live, wanted) is same
