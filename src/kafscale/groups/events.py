"""What can happen to a group, and what it makes happen.

Here: events, effects and outcomes, as values. Next door: what becomes of them (machine.py).
Never here: behaviour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafscale.groups.snapshot import GroupSnapshot
from kafscale.model.errors import KafscaleError

Caller = object  # whoever waits for an answer; never looked at

# -- events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Somebody wants to be a member, or to be one of the next generation."""

    call: Caller
    member_id: str = ""
    fresh_id: str = ""  # the id to give to one who has none; never used before
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_s: float
    rebalance_timeout_s: float
    protocol_type: str
    protocols: Mapping[str, bytes]  # by preference, with what this member says about itself
    needs_id: bool = False  # one without id is given one and sent back
    can_skip: bool = False  # a leader who understands that nothing is to be assigned


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A member asks for its assignment; the leader brings everyone's."""

    call: Caller
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member is alive."""

    call: Caller
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """Somebody wants to commit offsets: a member, or with generation -1 anybody."""

    call: Caller
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Members go, each named by member id, by instance id, or by both."""

    call: Caller
    leavers: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Somebody wants the group to be forgotten."""

    call: Caller


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Join | Sync | Heartbeat | CommitOffsets | Leave | Delete | Tick

# -- outcomes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """A place in a generation; the leader also learns who the others are."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[Subscriber, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """What the leader assigned to this member."""

    protocol_type: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """Fine."""


@dataclass(frozen=True, slots=True)
class Left:
    """Leaver by leaver, why not; None for those who are gone."""

    problems: tuple[KafscaleError | None, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why not; and the member id to try again with."""

    problem: KafscaleError
    member_id: str = ""


GroupOutcome = Joined | Synced | Accepted | Left | Rejected

# -- effects ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """A call that waited, or has just come, gets its outcome."""

    call: Caller
    outcome: GroupOutcome


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Nothing happens by itself before this time; then a Tick is due."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Persist:
    """This must outlive the process."""

    snapshot: GroupSnapshot


Effect = Reply | WakeAt | Persist
