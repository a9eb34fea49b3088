"""Text that others chose (names, keys, messages), made fit for a terminal or a line of a log.

A terminal obeys control characters: a topic's or a client's name must not be able to move the
cursor, hide lines or rename the window.
"""

from typing import Final

_KEPT_IN_VALUES: Final = frozenset("\n\t")


def printable(text: str) -> str:
    """The text, with every character that is not printable as Python's escape of it."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_value(value: bytes) -> bytes:
    """A record's key or value for a terminal: what is no text is escaped, lines are kept."""
    text = value.decode("utf-8", "backslashreplace")
    if not text.isprintable():
        text = "".join(one if one in _KEPT_IN_VALUES else _escaped(one) for one in text)
    return text.encode()


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
