"""The events a group handles and the effects it gives back.

Here: events, outcomes and effects, as values. Next door: the state machine (machine.py).
Never here: behaviour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafscale.groups.snapshot import GroupSnapshot
from kafscale.model.errors import KafscaleError

Caller = object  # identifies the request that waits for a reply; the machine never opens it

# -- events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A client wants to become a member, or a member joins the next generation."""

    call: Caller
    member_id: str = ""
    fresh_id: str = ""  # an unused id, for a client that has none
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_s: float
    rebalance_timeout_s: float
    protocol_type: str
    protocols: Mapping[str, bytes]  # name to the member's metadata, the preferred one first
    needs_id: bool = False  # a client without an id gets one and has to join again
    can_skip: bool = False  # the client, as leader, understands `skip_assignment`


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A member asks for its assignment; the leader brings all assignments."""

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
    """A client wants to commit offsets: a member, or any client with generation -1."""

    call: Caller
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Members leave, each named by member id, by instance id, or by both."""

    call: Caller
    leavers: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A client deletes the group."""

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
    """The member belongs to this generation; the leader also gets the list of members."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[Subscriber, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """The assignment that the leader made for this member."""

    protocol_type: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """The group accepted the request; there is nothing more to say."""


@dataclass(frozen=True, slots=True)
class Left:
    """One entry per leaver: None if it has left, else the reason why it has not."""

    problems: tuple[KafscaleError | None, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """The reason for the refusal, and the member id to try again with."""

    problem: KafscaleError
    member_id: str = ""


GroupOutcome = Joined | Synced | Accepted | Left | Rejected

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

    snapshot: GroupSnapshot


Effect = Reply | WakeAt | Persist
