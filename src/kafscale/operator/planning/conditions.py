"""Conditions: what is judged now, beside what was judged before.

Here: a time changes only when a status changes, so that people see since when something is so.
Next door: who judges (health.py).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafscale.operator.kinds.metadata import Condition


class Judgement(NamedTuple):
    """A judgement: what, whether it is so, and why."""

    type: str
    status: bool | None  # None: not known
    reason: str
    message: str = ""


_WORDS = {True: "True", False: "False", None: "Unknown"}


def merge(
    old: Sequence[Condition], findings: Iterable[Judgement], now: str, generation: int
) -> list[Condition]:
    """Give the conditions by these findings; what is not found any more is left out."""
    before = {condition.type: condition for condition in old}
    made = []
    for finding in findings:
        status = _WORDS[finding.status]
        earlier = before.get(finding.type)
        same = earlier is not None and earlier.status == status and earlier.last_transition_time
        made.append(
            Condition(
                type=finding.type,
                status=status,
                reason=finding.reason,
                message=finding.message,
                last_transition_time=earlier.last_transition_time if same and earlier else now,
                observed_generation=generation,
            )
        )
    return made


class Turn(NamedTuple):
    """A condition that has turned, for an event."""

    condition: Condition
    is_bad: bool


# Conditions whose being true is bad news, or no news.
_BAD_WHEN_TRUE = frozenset({"Paused", "Stopped", "Restoring"})


def changes(old: Sequence[Condition], new: Sequence[Condition]) -> list[Turn]:
    """Give the conditions that have turned or have another reason. A first good one is no news."""
    before = {condition.type: (condition.status, condition.reason) for condition in old}
    found = []
    for condition in new:
        earlier = before.get(condition.type)
        is_good = (condition.status == "True") != (condition.type in _BAD_WHEN_TRUE)
        if earlier == (condition.status, condition.reason) or (earlier is None and is_good):
            continue
        # What is not known is news, but no bad news.
        found.append(Turn(condition, is_bad=not is_good and condition.status != "Unknown"))
    return found
