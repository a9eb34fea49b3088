"""The events that a classic group handles and the outcomes that its members get.

Here: values. Next door: the state machine (machine.py), what all types of groups share
(groups/events.py).
Never here: behaviour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafscale.groups.events import Caller, Event, GroupOutcome
from kafscale.model.errors import KafscaleError

# -- events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Event):
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
class Sync(Event):
    """A member asks for its assignment; the leader brings all assignments."""

    call: Caller
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Event):
    """A member is alive."""

    call: Caller
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(Event):
    """Members leave, each named by member id, by instance id, or by both."""

    call: Caller
    leavers: tuple[tuple[str, str | None], ...]


# -- outcomes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined(GroupOutcome):
    """The member belongs to this generation; the leader also gets the list of members."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[Subscriber, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced(GroupOutcome):
    """The assignment that the leader made for this member."""

    protocol_type: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Left(GroupOutcome):
    """One entry per leaver: None if it has left, else the reason why it has not."""

    problems: tuple[KafscaleError | None, ...]
