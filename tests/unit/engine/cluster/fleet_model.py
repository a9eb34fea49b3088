"""Several fleet machines joined by a model of the metadata store: no event loop, no sleeping.

Here: the store's keys, versions, leases and watches; what each broker has asked for and not heard
of yet; which logs its engine serves or still flushes. The test that drives the model says
what happens next, in any order.
Next door: what is asked of it (test_machine_properties.py).
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from kafscale.engine.cluster.events import (
    BrokersChanged,
    BrokersListed,
    BrokersRead,
    ClaimController,
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
    ReadFleet,
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
    StoreEffect,
    TimerFired,
    Unavailable,
    WriteMembers,
    WriteRegistration,
)
from kafscale.engine.cluster.machine import FleetMachine, Phase
from kafscale.metadata.keys import BrokerRow, ControllerRow, MemberList

LEASE_S: Final = 2.0
GATHER_S: Final = 1.0
LOGS: Final = tuple(f"default/t/{number}" for number in range(12))
_NO_MEMBERS: Final = MemberList(generation=0)

Action = Callable[[], None]


class Versioned(NamedTuple):
    """A value, its version, and the broker whose lease it goes with."""

    value: BrokerRow | ControllerRow | MemberList
    version: int
    lease: int = 0


class StoreModel:
    """Keys: broker ids, "controller", "members". A lease is a number."""

    def __init__(self) -> None:
        self.version = 0
        self.next_epoch = 0
        self.epochs_version = 0
        self.leases: set[int] = set()
        self.keys: dict[int | str, Versioned] = {}
        self.watchers: list[BrokerModel] = []

    def take_epoch(self) -> int:
        self.version += 1
        self.epochs_version = self.version
        self.next_epoch += 1
        return self.next_epoch - 1

    def grant(self) -> int:
        self.version += 1
        self.leases.add(self.version)
        return self.version

    def version_of(self, key: int | str) -> int:
        return self.keys[key].version if key in self.keys else 0

    def put(self, key: int | str, value: BrokerRow | ControllerRow | MemberList, lease: int) -> int:
        self.version += 1
        self.keys[key] = Versioned(value, self.version, lease)
        for watcher in self.watchers:
            watcher.hear(key, value)
        return self.version

    def expire(self, lease: int) -> None:
        self.leases.discard(lease)
        for key in [key for key, held in self.keys.items() if lease and held.lease == lease]:
            del self.keys[key]
            for watcher in self.watchers:
                watcher.hear(key, None)

    def brokers(self) -> tuple[BrokerRow, ...]:
        rows = (held.value for held in self.keys.values())
        return tuple(row for row in rows if isinstance(row, BrokerRow))

    def controller(self) -> ControllerRow | None:
        held = self.keys.get("controller")
        return held.value if held and isinstance(held.value, ControllerRow) else None

    def members(self) -> MemberList:
        held = self.keys.get("members")
        return held.value if held and isinstance(held.value, MemberList) else _NO_MEMBERS


class BrokerModel:
    """One broker's process: its machine, its engine, and what is under way."""

    def __init__(self, fleet: "FleetModel", broker_id: int) -> None:
        self.fleet = fleet
        self.broker_id = broker_id
        self.lease = 0
        self.machine = FleetMachine(
            broker_id, fleet.store.take_epoch(), lease_s=LEASE_S, gather_s=GATHER_S
        )
        self.asked: list[StoreEffect] = []
        self.answers: list[FleetEvent] = []
        self.news: dict[str, list[FleetEvent]] = {}
        self.opening: OpenSession | None = None
        self.is_ending = False
        self.timer_s = math.inf
        self.served: set[str] = set()
        self.flushing: list[set[str]] = []
        self.has_joined = self.has_left = False
        self.failure: str | None = None
        row = BrokerRow(broker_id=broker_id, host="h", port=1, started_at="", version="")
        self.feed(JoinFleet(row))

    @property
    def is_up(self) -> bool:
        return self.machine.phase is Phase.REGISTERED

    def holding(self) -> set[str]:
        """Logs that this broker serves, or still flushes for the next owner."""
        return self.served.union(*self.flushing)

    def owned(self) -> set[str]:
        return {log for log in LOGS if self.machine.state.may_open(log)}

    # -- events in, effects out ----------------------------------------------------------------

    def feed(self, event: FleetEvent) -> list[FleetEffect]:
        effects = self.machine.handle(event, self.fleet.now_s)
        for effect in effects:
            self._carry_out(effect)
        return effects

    def _carry_out(self, effect: FleetEffect) -> None:
        match effect:
            case OpenSession():
                self.opening = effect
            case FollowFleet():
                store = self.fleet.store
                store.watchers.append(self)
                self.news = {
                    "brokers": [BrokersListed(store.brokers())],
                    "controller": [ControllerSeen(store.controller())],
                    "members": [MembersSeen(store.members())],
                }
            case EndSession():
                self.is_ending = True
            case HandOver():
                lost = self.served - self.owned()
                self.served -= lost
                self.flushing.append(lost)
            case OpenOwnedLogs(_, overdue):
                self.served = self.owned()
                if overdue:
                    self.fleet.opened_late |= self.served
            case DropAll():
                self.served.clear()
                for logs in self.flushing:
                    logs.clear()
            case SetTimer(when_s):
                self.timer_s = when_s
            case ReportJoined():
                self.has_joined = True
            case ReportLeft():
                self.has_left = True
            case ReportFailed(reason):
                self.failure = reason
            case _:
                self.asked.append(effect)

    def hear(self, key: int | str, value: BrokerRow | ControllerRow | MemberList | None) -> None:
        """Queue what a watch tells of one key."""
        match key, value:
            case "controller", (ControllerRow() | None) as row:
                self.news["controller"].append(ControllerSeen(row))
            case "members", MemberList() as members:
                self.news["members"].append(MembersSeen(members))
            case int(), BrokerRow() as row:
                self.news["brokers"].append(BrokersChanged((row,)))
            case int() as broker_id, None:
                self.news["brokers"].append(BrokersChanged(gone=(broker_id,)))

    # -- what can happen next ------------------------------------------------------------------

    def actions(self) -> list[Action]:
        """Each is one step that can happen now."""
        steps: list[Action] = []
        if self.is_ending:
            return [self._end]
        if self.opening is not None:
            steps.append(self._open)
        steps += [lambda effect=effect: self._answer(effect) for effect in self.asked]  # type: ignore[misc]
        steps += [lambda event=event: self._hear_answer(event) for event in self.answers]  # type: ignore[misc]
        steps += [lambda queue=queue: self._follow(queue) for queue in self.news.values() if queue]  # type: ignore[misc]
        if self.flushing:
            steps.append(self._finish_hand_over)
        if self.owned() - self.served:
            steps.append(self._open_on_request)
        if self.fleet.now_s >= self.timer_s:
            steps.append(self._fire)
        return steps

    def _open(self) -> None:
        assert self.opening is not None
        takes, self.opening = self.opening.takes_incarnation, None
        incarnation = self.fleet.store.take_epoch() if takes else None
        self.lease = self.fleet.store.grant()
        self.feed(SessionOpened(incarnation))

    def _end(self) -> None:
        self.is_ending = False
        self.forget_session()
        self.fleet.store.expire(self.lease)
        self.feed(SessionEnded())

    def forget_session(self) -> None:
        """Cancel what runs and close the watches."""
        self.opening = None
        self.asked.clear()
        self.answers.clear()
        self.news = {}
        if self in self.fleet.store.watchers:
            self.fleet.store.watchers.remove(self)

    def _answer(self, effect: StoreEffect) -> None:
        self.asked.remove(effect)
        self.answers.append(self._done(effect))

    def _hear_answer(self, event: FleetEvent) -> None:
        self.answers.remove(event)
        self.feed(event)

    def _follow(self, queue: list[FleetEvent]) -> None:
        self.feed(queue.pop(0))

    def _finish_hand_over(self) -> None:
        self.flushing.pop(0)
        self.feed(HandedOver())

    def _open_on_request(self) -> None:
        self.served |= self.owned()

    def _fire(self) -> None:
        self.timer_s = math.inf
        self.feed(TimerFired())

    def _done(self, effect: StoreEffect) -> FleetEvent:
        store = self.fleet.store
        match effect:
            case ReadRegistration():
                held = store.keys.get(self.broker_id)
                row = held.value if held and isinstance(held.value, BrokerRow) else None
                version = store.version_of(self.broker_id)
                return RegistrationRead(row, version, store.members().generation)
            case WriteRegistration(row, version):
                if self.lease not in store.leases or store.version_of(self.broker_id) != version:
                    return Conflict(effect)
                return RegistrationWritten(row, store.put(self.broker_id, row, self.lease))
            case ReadBrokers(generation):
                return BrokersRead(generation, store.brokers())
            case ReadFleet():
                return FleetRead(
                    store.controller(),
                    store.version_of("controller"),
                    store.brokers(),
                    store.members(),
                    store.version_of("members"),
                    store.next_epoch,
                    store.epochs_version,
                )
            case ClaimController(row, version):
                if self.lease not in store.leases or store.version_of("controller") != version:
                    return Conflict(effect)
                store.put("controller", row, self.lease)
                return ControllerClaimed()
            case WriteMembers():
                return self._write_members(effect)

    def _write_members(self, effect: WriteMembers) -> FleetEvent:
        store, members = self.fleet.store, effect.members
        found = (store.version_of("controller"), store.version_of("members"), store.epochs_version)
        if found != (effect.controller_version, effect.members_version, effect.epochs_version):
            return Conflict(effect)
        assert members.generation > store.members().generation
        assert members.previous == store.members().generation
        store.epochs_version = store.put("members", members, 0)
        store.next_epoch = members.generation + 1
        return MembersWritten()

    # -- bad luck ------------------------------------------------------------------------------

    def lose_answer(self, pick: int, *, was_done: bool) -> None:
        """The store does not answer one question; a write may have happened or not."""
        if self.asked and not self.is_ending:
            effect = self.asked.pop(pick % len(self.asked))
            if was_done:
                self._done(effect)
            self.answers.append(Unavailable(effect, "lost"))

    def lose_lease(self) -> None:
        """The broker counts its lease for lost before the store does."""
        if self.machine.phase in (Phase.REGISTERING, Phase.REGISTERED):
            self.feed(SessionLost("the lease is lost"))

    def leave(self) -> None:
        if not self.machine.state.is_leaving:
            self.feed(LeaveFleet())


class FleetModel:
    """Brokers, one store, one time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.store = StoreModel()
        self.brokers: dict[int, BrokerModel] = {}
        self.left_behind: list[int] = []  # leases of brokers that crashed
        self.opened_late: set[str] = set()  # logs whose former owner did not say in time

    def start(self, broker_id: int) -> None:
        if broker_id not in self.brokers:
            self.brokers[broker_id] = BrokerModel(self, broker_id)

    def crash(self, broker_id: int) -> None:
        """End a process; its keys stay until its lease ends."""
        broker = self.brokers.pop(broker_id, None)
        if broker is not None:
            broker.forget_session()
            self.left_behind.append(broker.lease)

    def actions(self, but: int | None = None) -> list[Action]:
        """What can happen now, without the steps of one broker that is slow."""
        awake = [broker for broker_id, broker in self.brokers.items() if broker_id != but]
        steps = [step for broker in awake for step in broker.actions()]
        if self.left_behind:
            steps.append(lambda: self.store.expire(self.left_behind.pop()))
        return steps

    def heal(self) -> None:
        """Let everything that can happen happen, in the order it comes, until nothing is left."""
        for _ in range(20_000):
            steps = self.actions()
            if steps:
                steps[0]()
                continue
            next_s = min((broker.timer_s for broker in self.brokers.values()), default=math.inf)
            if next_s == math.inf:
                return
            self.now_s = max(self.now_s, next_s)
        raise AssertionError("the fleet does not come to rest")
