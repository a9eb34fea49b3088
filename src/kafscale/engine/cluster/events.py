"""What happens to a broker in the fleet, and what its machine asks the shell to do.

Here: events, which go into the machine with the time, and effects, which come out in the order in
which the shell carries them out.
Next door: the machine (machine.py), the shell (fleet.py).
"""

from dataclasses import dataclass

from kafscale.metadata.keys import BrokerRow, ControllerRow, MemberList

# -- events: what this broker's process wants ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinFleet:
    """The broker takes part in the fleet from now on."""

    row: BrokerRow  # how to reach it; the machine fills in what changes


@dataclass(frozen=True, slots=True)
class LeaveFleet:
    """The broker wants to hand over everything while it still answers requests."""


@dataclass(frozen=True, slots=True)
class Close:
    """The broker's process ends."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The engine has carried out one HandOver."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The shell met an error that it does not expect: the broker must be restarted."""

    reason: str


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time that SetTimer asked for has come."""


# -- events: a session, from taking a lease to giving it up ----------------------------------------


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The broker has a lease."""

    incarnation: int | None = None  # a new one, if OpenSession asked for it


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The lease is lost, or the session could not be opened, or a watch ended."""

    reason: str


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """EndSession is carried out: nothing of the session runs any more."""


# -- events: what other brokers wrote, as watches tell it ------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokersListed:
    """Every registration there is."""

    rows: tuple[BrokerRow, ...]


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Registrations that came or changed, and the ids of those that went."""

    rows: tuple[BrokerRow, ...] = ()
    gone: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ControllerSeen:
    """Who the controller is."""

    row: ControllerRow | None


@dataclass(frozen=True, slots=True)
class MembersSeen:
    """A member list, perhaps a new one."""

    members: MemberList


# -- events: answers of the metadata store to effects ----------------------------------------------


@dataclass(frozen=True, slots=True)
class RegistrationRead:
    """What the store has under this broker's id, and the newest generation there is."""

    row: BrokerRow | None
    version: int
    generation: int


@dataclass(frozen=True, slots=True)
class RegistrationWritten:
    """The store has taken a registration."""

    row: BrokerRow
    version: int


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """Every registration, read after this generation was known."""

    generation: int
    rows: tuple[BrokerRow, ...]


@dataclass(frozen=True, slots=True)
class FleetRead:
    """All that a controller decides by. Versions are 0 where there is no such key."""

    controller: ControllerRow | None
    controller_version: int
    brokers: tuple[BrokerRow, ...]
    members: MemberList
    members_version: int
    next_epoch: int
    epochs_version: int


@dataclass(frozen=True, slots=True)
class ControllerClaimed:
    """This broker has become the controller."""


@dataclass(frozen=True, slots=True)
class MembersWritten:
    """The store has taken a member list."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The store refused a write: what was compared has changed."""

    effect: "StoreEffect"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The store did not answer; a write may have happened or not."""

    effect: "StoreEffect"
    reason: str = ""


# -- effects: asked of the metadata store ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Take a lease, and before it a new incarnation. SessionOpened or SessionLost follows."""

    takes_incarnation: bool


@dataclass(frozen=True, slots=True)
class EndSession:
    """Cancel what the session still does and revoke its lease. SessionEnded follows."""

    reason: str | None  # None: the broker stops, and nothing is wrong


@dataclass(frozen=True, slots=True)
class FollowFleet:
    """Watch registrations, the controller and the members: this broker is registered."""


@dataclass(frozen=True, slots=True)
class ReadRegistration:
    """Read this broker's key and the newest generation."""


@dataclass(frozen=True, slots=True)
class WriteRegistration:
    """Write this broker's key under its lease, if it still has this version."""

    row: BrokerRow
    version: int


@dataclass(frozen=True, slots=True)
class ReadBrokers:
    """Read every registration: the watch may be behind."""

    generation: int


@dataclass(frozen=True, slots=True)
class ReadFleet:
    """Read the controller's key first, then registrations, members and the mark of epochs."""


@dataclass(frozen=True, slots=True)
class ClaimController:
    """Write the controller's key under this broker's lease, if it still has this version."""

    row: ControllerRow
    version: int


@dataclass(frozen=True, slots=True)
class WriteMembers:
    """Write a member list, if the three keys it was decided by still have these versions."""

    members: MemberList
    controller_version: int
    members_version: int
    epochs_version: int


# -- effects: for the engine and for those who wait ------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandOver:
    """Let the engine stop serving what is no longer this broker's. HandedOver follows."""

    generation: int
    brokers: int  # how many members the generation has


@dataclass(frozen=True, slots=True)
class OpenOwnedLogs:
    """The generation is settled: everything that is this broker's may be opened."""

    generation: int
    overdue: tuple[int, ...] = ()  # brokers that did not say in time that they have let go


@dataclass(frozen=True, slots=True)
class DropAll:
    """The broker may answer for nothing any more."""


@dataclass(frozen=True, slots=True)
class ReportJoined:
    """Joining is over: the broker has its share, or it took too long."""


@dataclass(frozen=True, slots=True)
class ReportLeft:
    """Leaving is over; with a reason if nothing, or not all, was handed over."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class ReportFailed:
    """The broker must stop."""

    reason: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send a TimerFired then; takes the place of the last SetTimer."""

    when_s: float


StoreEffect = (
    ReadRegistration | WriteRegistration | ReadBrokers | ReadFleet | ClaimController | WriteMembers
)
FleetEffect = (
    StoreEffect
    | OpenSession
    | EndSession
    | FollowFleet
    | HandOver
    | OpenOwnedLogs
    | DropAll
    | ReportJoined
    | ReportLeft
    | ReportFailed
    | SetTimer
)
FleetEvent = (
    JoinFleet
    | LeaveFleet
    | Close
    | HandedOver
    | Broken
    | TimerFired
    | SessionOpened
    | SessionLost
    | SessionEnded
    | BrokersListed
    | BrokersChanged
    | ControllerSeen
    | MembersSeen
    | RegistrationRead
    | RegistrationWritten
    | BrokersRead
    | FleetRead
    | ControllerClaimed
    | MembersWritten
    | Conflict
    | Unavailable
)
