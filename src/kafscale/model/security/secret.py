"""Passwords and keys: text that shows itself to nothing but the one place that needs it.

Here: one type. Settings hold secrets as such, so that a log line, an error text, a traceback or a
page that prints settings shows stars.
"""

from typing import Final

_STARS: Final = "***"


class Secret:
    """A text that prints as stars. `reveal` gives the text, where it is sent or compared."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        """Keep the text."""
        self._text = text

    def reveal(self) -> str:
        """The text itself. Call this where it is used, and keep no copy."""
        return self._text

    def __bool__(self) -> bool:
        """Whether there is any text."""
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same; settings are compared, passwords of clients are not."""
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        """Of the text."""
        return hash(self._text)

    def __repr__(self) -> str:
        """Stars, however long the text is."""
        return _STARS

    __str__ = __repr__

    def __format__(self, form: str) -> str:
        """Stars in every format."""
        return _STARS


NO_SECRET: Final = Secret()
