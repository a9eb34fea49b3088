"""Every trial says what it tries; the page is made of that.

A trial is a test. `make test` runs those that are `always` tried, `make ecosystem` runs them all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest


@dataclass(frozen=True, slots=True)
class Trial:
    """One row of the page."""

    name: str
    version: str
    what: str  # what the test does, as the page says it

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


TRIALS: Final[dict[str, Trial]] = {}  # by the name of the test


def tried(
    name: str, version: str, what: str, *, always: bool = False
) -> Callable[[Callable[..., None]], Any]:
    """Mark a test as the trial of a program."""

    def register(test: Callable[..., None]) -> Any:
        TRIALS[test.__name__] = Trial(name, version, what)
        test = pytest.mark.slow(test)
        return test if always else pytest.mark.ecosystem(test)

    return register
