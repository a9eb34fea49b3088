"""Breadth-first search through all states of a small model; the first hit has a shortest trace.

In this room: the search itself, for models whose states can be kept whole.
Next door: the log's own search (search.py), which keeps hashes because it has millions of states.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from tests.model.search import Result

S = TypeVar("S", bound=Hashable)


def explore(
    start: S,
    successors: Callable[[S], Iterable[tuple[str, S]]],
    violation: Callable[[S, str, S], str],
    limit: int = 2_000_000,
    at_rest: Callable[[S], str] = lambda _: "",
) -> Result:
    """Look for a step with a violation. `at_rest` judges what becomes of a state by itself."""
    came: dict[S, tuple[S, str] | None] = {start: None}
    level = [start]
    while level and len(came) <= limit:
        following = []
        for state in level:
            found = at_rest(state)
            if found:
                return Result(len(came), False, found, (*_trace(state, came), "no client comes"))
            for label, after in successors(state):
                found = violation(state, label, after)
                if found:
                    return Result(len(came), False, found, (*_trace(state, came), label))
                if after not in came:
                    came[after] = state, label
                    following.append(after)
        level = following
    return Result(len(came), not level, "", ())


def _trace(state: S, came: dict[S, tuple[S, str] | None]) -> tuple[str, ...]:
    labels: list[str] = []
    while (step := came[state]) is not None:
        state, label = step
        labels.append(label)
    return tuple(reversed(labels))
