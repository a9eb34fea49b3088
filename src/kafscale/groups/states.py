"""The states of a group, the transitions between them, and the configured limits.

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


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The configured limits of groups."""

    shortest_session_s: float = 6.0
    longest_session_s: float = 1800.0
    initial_delay_s: float = 3.0
    most_members: int = 1000
    most_metadata_bytes: int = 1 << 20
    # Of all members of a group together, before packing: much more does not fit into one value.
    most_group_bytes: int = 4 << 20
    most_assigned_bytes: int = 1 << 20
    most_bytes_in_all: int = 256 << 20  # of the members of all groups of a broker
