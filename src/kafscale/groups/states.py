"""The states of a group, what moves it from one to another, and what the configuration says.

Here: tables. Next door: what happens on the way (machine.py).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class GroupState(Enum):
    """The protocol's own names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Turn(Enum):
    """What moves a group from one state to another."""

    REBALANCE = "somebody came, went or changed"
    JOINED = "all have joined who will"
    EMPTIED = "nobody is left"
    ASSIGNED = "the leader has assigned"
    DELETED = "the group is to be forgotten"


NEXT: Final[dict[tuple[GroupState, Turn], GroupState]] = {
    (GroupState.EMPTY, Turn.REBALANCE): GroupState.PREPARING,
    (GroupState.COMPLETING, Turn.REBALANCE): GroupState.PREPARING,
    (GroupState.STABLE, Turn.REBALANCE): GroupState.PREPARING,
    (GroupState.PREPARING, Turn.JOINED): GroupState.COMPLETING,
    (GroupState.PREPARING, Turn.EMPTIED): GroupState.EMPTY,
    (GroupState.COMPLETING, Turn.ASSIGNED): GroupState.STABLE,
    (GroupState.EMPTY, Turn.DELETED): GroupState.DEAD,
}


@dataclass(frozen=True, slots=True)
class GroupRules:
    """What the configuration says about groups."""

    shortest_session_s: float = 6.0
    longest_session_s: float = 1800.0
    initial_delay_s: float = 3.0
    most_members: int = 1000
    most_metadata_bytes: int = 1 << 20
