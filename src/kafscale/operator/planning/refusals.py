"""Brokers that refuse a change: for good, or only at this moment.

Here: by Kafka's number of the error. What is for good waits for a person; what is not is asked
again soon.
Next door: who asks (loops/topics.py, loops/users.py).
"""

from typing import Final

from kafscale.operator.planning.conditions import Judgement

MOVING: Final = "Moving"
RETRYING: Final = "Retrying"
_REASSIGNMENT_IN_PROGRESS: Final = 60
# Codes of moments: no leader, no answer, no coordinator, a store that is away, too many requests.
# A topic that is there already, or not yet, was described before another request took effect.
_PASSING: Final = frozenset({3, 5, 6, 7, 8, 13, 14, 15, 16, 19, 20, 36, 41, 56, 89})


def judge_refusal(reason: str, words: str, code: int | None) -> Judgement:
    """Say what a refusal means; `reason` is told if only another wish can help."""
    if code == _REASSIGNMENT_IN_PROGRESS:
        return Judgement("Ready", None, MOVING, f"{words}; it is asked again until the move ends")
    if code is not None and (code < 0 or code in _PASSING):
        return Judgement("Ready", None, RETRYING, f"{words}; it is asked again soon")
    return Judgement("Ready", False, reason, words)


def is_passing(finding: Judgement) -> bool:
    """Whether the same request may succeed soon."""
    return finding.reason in (MOVING, RETRYING)
