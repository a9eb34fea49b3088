"""A broker's life in the fleet: when it registers, lets go, opens, loses everything, leaves.

Here: the state machine. Events come in with the time, effects go out in the order in which the
shell carries them out. After every event the machine looks at its state and asks for whatever is
missing and not under way yet, so that it does not matter in which order news arrives. A pair of
phase and event that is not in the table is a mistake in the shell.
Next door: what is known of the fleet (fleet_state.py), the controller (controller.py), events and
effects (events.py), the shell with its watches, lease and timers (fleet.py).
Never here: clocks, stores, tasks.

    NEW -> OPENING -> REGISTERING -> REGISTERED -> ENDING -> PAUSED -> OPENING -> ...
                                                   ENDING -> FAILED or CLOSED

A broker registers under a lease. What it lost by a new generation it lets go of, and then says so
in its registration; what it gained it opens when all others have said so. When the lease is lost
it drops everything, and registers anew, as another incarnation, as soon as the store is back.
"""

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import msgspec

from kafscale.engine.cluster import fleet_state
from kafscale.engine.cluster.controller import Controller
from kafscale.engine.cluster.events import (
    Broken,
    BrokersChanged,
    BrokersListed,
    BrokersRead,
    Close,
    Conflict,
    ControllerClaimed,
    ControllerSeen,
    DropAll,
    EndSession,
    FleetEffect,
    FleetEvent,
    FleetRead,
    FollowFleet,
    HandedOver,
    HandOver,
    JoinFleet,
    LeaveFleet,
    MembersSeen,
    MembersWritten,
    OpenOwnedLogs,
    OpenSession,
    ReadBrokers,
    ReadRegistration,
    RegistrationRead,
    RegistrationWritten,
    ReportFailed,
    ReportJoined,
    ReportLeft,
    SessionEnded,
    SessionLost,
    SessionOpened,
    SetTimer,
    TimerFired,
    Unavailable,
    WriteRegistration,
)
from kafscale.engine.cluster.fleet_state import FleetState
from kafscale.metadata.keys import BrokerRow

HAND_OVER_S: Final = 3.0  # for flushing what another broker waits for
JOIN_S: Final = 10.0
LEAVE_S: Final = 10.0
PAUSE_S: Final = 0.5  # before the store is asked again
LOOK_S: Final = 0.5  # before registrations are read again that were behind


class Phase(Enum):
    """Where a broker stands between two sessions, or in one."""

    NEW = "new"  # `join` has not been called
    OPENING = "opening"  # it asks for a lease
    REGISTERING = "registering"  # it has a lease and writes its registration
    REGISTERED = "registered"  # it follows the fleet
    ENDING = "ending"  # it has dropped everything and gives up its lease
    PAUSED = "paused"  # it opens the next session in a moment
    FAILED = "failed"  # it must be stopped
    CLOSED = "closed"


class UnexpectedEvent(Exception):
    """The shell sent an event that cannot happen in this phase."""


class FleetMachine:
    """One broker. `handle` is the only way in."""

    def __init__(
        self, broker_id: int, incarnation: int, *, lease_s: float, gather_s: float
    ) -> None:
        """Begin outside of the fleet; `incarnation` is for the first session.

        `gather_s`: how long the controller gathers brokers that join or return.
        """
        self.phase = Phase.NEW
        self.state = FleetState(broker_id, incarnation)
        self.controller = Controller(self.state, gather_s=gather_s)
        # A broker that is cut off knows it by the end of its lease. One that hears of a generation
        # only then still flushes for the time of a hand-over.
        self._patience_s = 2 * lease_s + HAND_OVER_S
        self._effects: list[FleetEffect] = []
        self._incarnations = {incarnation}
        self._is_first = True  # no session was registered yet
        self._end: Phase = Phase.PAUSED  # the phase after ENDING
        self._failure = ""
        self._template: BrokerRow | None = None
        self._row: BrokerRow | None = None  # what the store has under this broker's id
        self._version = 0
        self._was_seen = False  # whether the watch has shown this incarnation's registration
        self._is_writing = False
        self._is_reading_brokers = False
        self._handing_over = 0  # how many HandOvers the engine has not carried out yet
        self._join_until_s: float | None = None  # not None: `join` waits
        self._leave_until_s: float | None = None  # not None: `leave` waits
        self._open_s = math.inf  # when the next session is opened
        self._write_s = -math.inf  # not before then the registration is written again
        self._look_s = -math.inf  # not before then registrations are read again
        self._timer_s = math.inf  # what the shell was asked for last

    def handle(self, event: FleetEvent, now_s: float) -> list[FleetEffect]:
        """Let something happen."""
        handler = TABLE[self.phase].get(type(event))
        if handler is None:
            raise UnexpectedEvent(f"{type(event).__name__} while {self.phase.value}")
        self._effects = []
        handler(self, event, now_s)
        if self.phase is Phase.REGISTERED:
            self._update_registration(now_s)
            self._try_to_settle(now_s)
            self._add(self.controller.next_effect(now_s))
        self._report_joined(now_s)
        self._report_left(now_s)
        self._set_timer(now_s)
        return self._effects

    def _add(self, effect: FleetEffect | None) -> None:
        if effect is not None:
            self._effects.append(effect)

    # -- what the process wants --------------------------------------------------------------

    def _join(self, event: JoinFleet, now_s: float) -> None:
        self._template = event.row
        self._join_until_s = now_s + JOIN_S
        self._open(now_s)

    def _leave(self, _event: LeaveFleet, now_s: float) -> None:
        self.state.is_leaving = True
        self._leave_until_s = now_s + LEAVE_S

    def _close(self, _event: Close, _now_s: float) -> None:
        self.state.is_leaving = True
        if self.phase is Phase.ENDING:
            self._end = Phase.CLOSED
        elif self.phase in (Phase.OPENING, Phase.REGISTERING, Phase.REGISTERED):
            self._end_session(None, Phase.CLOSED)
        else:
            self.phase = Phase.CLOSED

    def _broken(self, event: Broken, _now_s: float) -> None:
        self._failure = self._failure or event.reason
        if self.phase is Phase.ENDING:
            self._end = Phase.FAILED
        elif self.phase in (Phase.OPENING, Phase.REGISTERING, Phase.REGISTERED):
            self._end_session(event.reason, Phase.FAILED)
        else:
            self.phase = Phase.FAILED
            self._effects.append(ReportFailed(self._failure))

    def _timer_fired(self, _event: TimerFired, now_s: float) -> None:
        self._timer_s = math.inf
        if self.phase is Phase.PAUSED and now_s >= self._open_s:
            self._open(now_s)

    # -- one session after the other ---------------------------------------------------------

    def _open(self, _now_s: float) -> None:
        self.phase = Phase.OPENING
        self._effects.append(OpenSession(takes_incarnation=not self._is_first))

    def _session_opened(self, event: SessionOpened, _now_s: float) -> None:
        if event.incarnation is not None:
            self.state.incarnation = event.incarnation
            self._incarnations.add(event.incarnation)
        self.phase = Phase.REGISTERING
        self._effects.append(ReadRegistration())

    def _session_lost(self, event: SessionLost, _now_s: float) -> None:
        self._end_session(event.reason, Phase.PAUSED)

    def _end_session(self, reason: str | None, then: Phase) -> None:
        """Drop everything, now; the next phase begins when nothing of the session runs."""
        if self.phase is not Phase.OPENING:
            self.state.lose()
            self._effects.append(DropAll())
        self._effects.append(EndSession(reason))
        self.phase, self._end = Phase.ENDING, then

    def _session_ended(self, _event: SessionEnded, now_s: float) -> None:
        self._is_writing = self._is_reading_brokers = self._was_seen = False
        self._row = None
        self.controller.restart()
        self.phase = self._end
        if self.phase is Phase.PAUSED:
            self._open_s = now_s + PAUSE_S
        elif self.phase is Phase.FAILED:
            self._effects.append(ReportFailed(self._failure))

    # -- registering -------------------------------------------------------------------------

    def _registration_read(self, event: RegistrationRead, _now_s: float) -> None:
        # At the first start a predecessor of the same id is taken for dead.
        if not self._is_first and event.row is not None and not self._check_ours(event.row):
            return
        assert self._template is not None
        row = msgspec.structs.replace(
            self._template,
            incarnation=self.state.incarnation,
            leaving=self.state.is_leaving,
            generation=event.generation,  # this incarnation has nothing to let go of
        )
        self._effects.append(WriteRegistration(row, event.version))

    def _registered(self, event: RegistrationWritten, now_s: float) -> None:
        self._is_first = False
        self.phase = Phase.REGISTERED
        self._write_s = self._look_s = -math.inf
        self.state.registered_s = now_s
        self._effects.append(FollowFleet())
        self._registration_written(event, now_s)

    def _registration_written(self, event: RegistrationWritten, _now_s: float) -> None:
        self._row, self._version = event.row, event.version
        self._is_writing = False

    def _registering_refused(self, event: Conflict, _now_s: float) -> None:
        self._effects.append(ReadRegistration())

    def _registering_unanswered(self, event: Unavailable, _now_s: float) -> None:
        self._end_session(event.reason, Phase.PAUSED)

    def _check_ours(self, row: BrokerRow) -> bool:
        """Fail unless an incarnation of this very process wrote the registration."""
        if row.incarnation in self._incarnations:
            return True
        self._failure = (
            f"another broker has registered as broker {row.broker_id}, "
            f"at {row.host}:{row.port}; every broker needs an id of its own (broker.id)"
        )
        self._end_session(self._failure, Phase.FAILED)
        return False

    def _update_registration(self, now_s: float) -> None:
        """Say that this broker leaves, and up to which generation it has let go."""
        if self._is_writing or self._row is None or now_s < self._write_s:
            return
        wanted = self._wanted_row(self._row)
        if wanted != self._row:
            self._is_writing = True
            self._effects.append(WriteRegistration(wanted, self._version))

    def _wanted_row(self, row: BrokerRow) -> BrokerRow:
        has_let_go = self._handing_over == 0
        return msgspec.structs.replace(
            row,
            leaving=row.leaving or self.state.is_leaving,
            generation=max(row.generation, self.state.generation) if has_let_go else row.generation,
        )

    # -- following the fleet -----------------------------------------------------------------

    def _brokers_listed(self, event: BrokersListed, now_s: float) -> None:
        self.state.note_brokers({row.broker_id: row for row in event.rows}, now_s)
        self._check_registration()

    def _brokers_changed(self, event: BrokersChanged, now_s: float) -> None:
        brokers = {who: row for who, row in self.state.brokers.items() if who not in event.gone}
        self.state.note_brokers(brokers | {row.broker_id: row for row in event.rows}, now_s)
        self._check_registration()

    def _check_registration(self) -> None:
        """Notice that this broker's registration was taken over or removed."""
        self.controller.note_news()
        self._look_s = -math.inf
        row = self.state.brokers.get(self.state.broker_id)
        if row is not None and self._check_ours(row):
            self._was_seen = self._was_seen or row.incarnation == self.state.incarnation
        elif row is None and self._was_seen:
            self._end_session("the registration of this broker was removed", Phase.PAUSED)

    def _controller_seen(self, event: ControllerSeen, _now_s: float) -> None:
        self.state.controller = event.row
        self.controller.note_news()

    def _members_seen(self, event: MembersSeen, now_s: float) -> None:
        if self.state.take_generation(event.members, now_s):
            self._handing_over += 1
            self._look_s = -math.inf
            self.controller.note_news()
            self._effects.append(HandOver(event.members.generation, len(event.members.brokers)))

    def _handed_over(self, _event: HandedOver, _now_s: float) -> None:
        self._handing_over -= 1

    # -- settling ----------------------------------------------------------------------------

    @property
    def _overdue_s(self) -> float:
        """From then on no broker can go on unaware of the newest generation."""
        return self.state.learned_s + self._patience_s

    def _try_to_settle(self, now_s: float) -> None:
        """Read who has let go, once the watch shows no broker that has not, or it is overdue."""
        state = self.state
        if state.is_settled or not state.is_member or self._is_reading_brokers:
            return
        is_overdue = now_s >= self._overdue_s
        if now_s < self._look_s or (
            fleet_state.behind(state.brokers.values(), state.generation) and not is_overdue
        ):
            return
        # The watch may be behind; every member of the generation before is in the store's list.
        self._is_reading_brokers = True
        self._effects.append(ReadBrokers(state.generation))

    def _brokers_read(self, event: BrokersRead, now_s: float) -> None:
        self._is_reading_brokers = False
        state = self.state
        if event.generation != state.generation or state.is_settled or not state.is_member:
            return
        late = fleet_state.behind(event.rows, event.generation)
        if late and now_s < self._overdue_s:
            self._look_s = now_s + LOOK_S
            return
        state.settle()
        self._effects.append(OpenOwnedLogs(state.generation, late))

    # -- answers of the store ----------------------------------------------------------------

    def _fleet_read(self, event: FleetRead, now_s: float) -> None:
        self._add(self.controller.decide(event, now_s))

    def _controller_claimed(self, _event: ControllerClaimed, _now_s: float) -> None:
        self._effects.append(self.controller.claimed())

    def _members_written(self, _event: MembersWritten, _now_s: float) -> None:
        self.controller.written()

    def _refused(self, event: Conflict, now_s: float) -> None:
        if isinstance(event.effect, WriteRegistration):
            self._end_session(event.reason, Phase.PAUSED)
        else:
            self.controller.try_again(now_s)

    def _unanswered(self, event: Unavailable, now_s: float) -> None:
        match event.effect:
            case WriteRegistration():
                self._is_writing = False
                self._write_s = now_s + PAUSE_S
                self._give_up_leaving(event.reason)
            case ReadBrokers():
                self._is_reading_brokers = False
                self._look_s = now_s + PAUSE_S
            case _:
                self.controller.try_again(now_s)

    def _ignore(self, _event: FleetEvent, _now_s: float) -> None:
        """Pass over what comes late: the session it belongs to is over."""

    # -- who waits -----------------------------------------------------------------------------

    def _report_joined(self, now_s: float) -> None:
        if self._join_until_s is None:
            return
        has_share = (
            self.phase is Phase.REGISTERED
            and self.state.is_member
            and self.state.is_settled
            and self.state.controller is not None
        )
        is_over = self.phase in (Phase.FAILED, Phase.CLOSED) or now_s >= self._join_until_s
        if has_share or is_over:
            self._join_until_s = None
            self._effects.append(ReportJoined())

    def _report_left(self, now_s: float) -> None:
        if self._leave_until_s is None:
            return
        if self.phase is not Phase.REGISTERED or self._row is None:
            self._give_up_leaving("the broker is not registered")
        elif self._row.leaving and not self._is_needed(self._row):
            self._leave_until_s = None
            self._effects.append(ReportLeft(None))
        elif now_s >= self._leave_until_s:
            self._give_up_leaving("the other brokers did not take over in time")

    def _is_needed(self, row: BrokerRow) -> bool:
        """Whether there is a broker that can take over what this one still has."""
        state = self.state
        return state.has_heirs and (state.is_member or row.generation < state.generation)

    def _give_up_leaving(self, reason: str) -> None:
        if self._leave_until_s is not None:
            self._leave_until_s = None
            self._effects.append(ReportLeft(reason))

    def _set_timer(self, now_s: float) -> None:
        wake_s = self._next_wake_s(now_s)
        if wake_s < self._timer_s:  # a timer that fires too early does no harm
            self._timer_s = wake_s
            self._effects.append(SetTimer(wake_s))

    def _next_wake_s(self, now_s: float) -> float:
        waits = (self._join_until_s, self._leave_until_s)
        times = [until_s for until_s in waits if until_s is not None]
        if self.phase is Phase.PAUSED:
            times.append(self._open_s)
        if self.phase is Phase.REGISTERED:
            times.append(self.controller.wake_s())
            if not self._is_writing and self._row and self._wanted_row(self._row) != self._row:
                times.append(self._write_s)
            if not self.state.is_settled and self.state.is_member and not self._is_reading_brokers:
                times.append(self._look_s if self._look_s > now_s else self._overdue_s)
        return min(times, default=math.inf)


_Handler = Callable[[FleetMachine, Any, float], None]

_ALWAYS: Final[dict[type, _Handler]] = {
    HandedOver: FleetMachine._handed_over,
    LeaveFleet: FleetMachine._leave,
    Close: FleetMachine._close,
    Broken: FleetMachine._broken,
    TimerFired: FleetMachine._timer_fired,
}
_IN_SESSION: Final[dict[type, _Handler]] = {
    BrokersListed: FleetMachine._brokers_listed,
    BrokersChanged: FleetMachine._brokers_changed,
    ControllerSeen: FleetMachine._controller_seen,
    MembersSeen: FleetMachine._members_seen,
    BrokersRead: FleetMachine._brokers_read,
    FleetRead: FleetMachine._fleet_read,
    ControllerClaimed: FleetMachine._controller_claimed,
    MembersWritten: FleetMachine._members_written,
    SessionLost: FleetMachine._session_lost,
}
_OVER: Final[dict[type, _Handler]] = {
    **_ALWAYS,
    Close: FleetMachine._close,
    Broken: FleetMachine._ignore,
}

TABLE: Final[dict[Phase, dict[type, _Handler]]] = {
    Phase.NEW: {**_ALWAYS, JoinFleet: FleetMachine._join},
    Phase.OPENING: {
        **_ALWAYS,
        SessionOpened: FleetMachine._session_opened,
        SessionLost: FleetMachine._session_lost,
    },
    Phase.REGISTERING: {
        **_ALWAYS,
        RegistrationRead: FleetMachine._registration_read,
        RegistrationWritten: FleetMachine._registered,
        Conflict: FleetMachine._registering_refused,
        Unavailable: FleetMachine._registering_unanswered,
        SessionLost: FleetMachine._session_lost,
    },
    Phase.REGISTERED: {
        **_ALWAYS,
        **_IN_SESSION,
        RegistrationWritten: FleetMachine._registration_written,
        Conflict: FleetMachine._refused,
        Unavailable: FleetMachine._unanswered,
    },
    # What the session asked for may still be answered before the shell has cancelled it.
    Phase.ENDING: {
        **dict.fromkeys(_IN_SESSION, FleetMachine._ignore),
        **dict.fromkeys(
            (SessionOpened, RegistrationRead, RegistrationWritten, Conflict, Unavailable),
            FleetMachine._ignore,
        ),
        **_ALWAYS,
        SessionEnded: FleetMachine._session_ended,
    },
    Phase.PAUSED: {**_ALWAYS},
    Phase.FAILED: _OVER,
    Phase.CLOSED: _OVER,
}
