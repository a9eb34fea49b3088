"""The states of a classic group and the transitions between them.

Here: tables. Next door: what happens on the way (machine.py).
"""

from enum import Enum
from typing import Final


class GroupState(Enum):
    """The protocol's own names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Transition(Enum):
    """Why a group changes its state."""

    REBALANCE = "a member joined, left or changed"
    JOINED = "the members of the next generation have joined"
    EMPTIED = "no member is left"
    ASSIGNED = "the leader has assigned"
    DELETED = "a client deletes the group"


NEXT: Final[dict[tuple[GroupState, Transition], GroupState]] = {
    (GroupState.EMPTY, Transition.REBALANCE): GroupState.PREPARING,
    (GroupState.COMPLETING, Transition.REBALANCE): GroupState.PREPARING,
    (GroupState.STABLE, Transition.REBALANCE): GroupState.PREPARING,
    (GroupState.PREPARING, Transition.JOINED): GroupState.COMPLETING,
    (GroupState.PREPARING, Transition.EMPTIED): GroupState.EMPTY,
    (GroupState.COMPLETING, Transition.ASSIGNED): GroupState.STABLE,
    (GroupState.EMPTY, Transition.DELETED): GroupState.DEAD,
}
