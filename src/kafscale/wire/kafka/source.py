"""The text of a Python function while it is generated: lines, indentation, names, constants.

Here: what both emitters share.
Next door: what they write (emit_decode.py, emit_encode.py).
Never here: the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

ROWS_PER_STEP: Final = 256


class FunctionSource:
    """Collects the text of one function and the objects its text refers to."""

    def __init__(self, *, in_steps: bool = False) -> None:
        self._in_steps = in_steps
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._used = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def begin_steps(self) -> None:
        """If the function works in steps: make it a generator and count its rows from here."""
        if self._in_steps:
            self.line("stepped = 0")
            self.line("if False: yield")

    def step(self) -> None:
        """If the function works in steps: count a row, and pause after every so many."""
        if self._in_steps:
            self.line("stepped += 1")
            self.line(f"if not stepped % {ROWS_PER_STEP}: yield")

    def fresh(self, hint: str) -> str:
        """A name that is not used yet in this function."""
        self._used += 1
        return f"{hint}_{self._used}"

    def constant(self, hint: str, value: object) -> str:
        """Make an object known to the text under a fresh name."""
        name = self.fresh(hint)
        self.names[name] = value
        return name

    def helper(self, function: Callable[..., object], name: str) -> str:
        """Make a function known under its own name."""
        self.names[name] = function
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def function(self, name: str) -> Callable[..., Any]:
        """Compile the text and give the function that it defines."""
        exec(compile(self.text(), f"<{name}>", "exec"), self.names)
        return self.names[name]  # type: ignore[no-any-return]
