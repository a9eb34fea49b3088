"""Text of others on a terminal."""

import pytest

from kafscale.model.printable import printable, printable_value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-é-東京", "orders-é-東京"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\u202eb", "a\\u202eb"),
        ("\udc80", "\\udc80"),
    ],
)
def test_control_characters_of_names_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_values_keep_their_lines_and_tabs() -> None:
    assert printable_value(b"a\n\tb\x1b[31m\xff") == b"a\n\tb\\x1b[31m\\xff"
