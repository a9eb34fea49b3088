"""What the machines of all group types have in common: some events, outcomes, and all effects.

Here: values. Next door: the events of one type (classic/events.py, consumer/events.py).
Never here: behaviour.
"""

from dataclasses import dataclass

from kafscale.model.errors import KafscaleError

Caller = object  # identifies the request that waits for a reply; the machine never opens it


class Event:
    """What happens to a group."""

    __slots__ = ()


class GroupOutcome:
    """What a request that concerns a group is answered with."""

    __slots__ = ()


class Snapshot:
    """The part of a group that is saved."""

    __slots__ = ()

    def take(self) -> "Snapshot":
        """The snapshot to save now."""
        return self


# -- events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets(Event):
    """A client wants to commit offsets: a member, or any client with generation -1."""

    call: Caller
    generation: int  # of a consumer group: the member's epoch
    member_id: str
    instance_id: str | None = None
    is_transactional: bool = False  # then a member may commit while the group gets its assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Event):
    """A client deletes the group."""

    call: Caller


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed."""


# -- outcomes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted(GroupOutcome):
    """The group accepted the request; there is nothing more to say."""


@dataclass(frozen=True, slots=True)
class Rejected(GroupOutcome):
    """The reason for the refusal, and the member id to try again with."""

    problem: KafscaleError
    member_id: str = ""


# -- effects ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """The caller, who may have waited for long, gets its outcome."""

    call: Caller
    outcome: GroupOutcome


@dataclass(frozen=True, slots=True)
class WakeAt:
    """The group wants a Tick at this time."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Persist:
    """The shell must save this snapshot before a member learns its assignment."""

    snapshot: Snapshot


Effect = Reply | WakeAt | Persist
