"""The fleet's state machine: events in, effects out, in every phase."""

from typing import Any, get_args

import msgspec
import pytest

from kafscale.engine.cluster import events
from kafscale.engine.cluster.events import (
    Broken,
    BrokersChanged,
    BrokersListed,
    BrokersRead,
    ClaimController,
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
    TimerFired,
    Unavailable,
    WriteMembers,
    WriteRegistration,
)
from kafscale.engine.cluster.machine import TABLE, FleetMachine, Phase, UnexpectedEvent
from kafscale.metadata.keys import BrokerRow, ControllerRow, MemberList, MemberRow

LEASE_S = 2.0
GATHER_S = 1.0
TEMPLATE = BrokerRow(broker_id=0, host="h", port=1, started_at="", version="")
OTHER = BrokerRow(
    broker_id=1, host="h", port=2, started_at="", version="", incarnation=8, generation=20
)
OTHER_CONTROLS = ControllerRow(broker_id=1, incarnation=8)
OVERDUE_S = 2 * LEASE_S + 3.0


def ours(incarnation: int = 5, generation: int = 7, *, leaving: bool = False) -> BrokerRow:
    return msgspec.structs.replace(
        TEMPLATE, incarnation=incarnation, generation=generation, leaving=leaving
    )


def members(generation: int, previous: int, *rows: BrokerRow) -> MemberList:
    brokers = tuple(MemberRow(row.broker_id, row.incarnation) for row in rows)
    return MemberList(generation=generation, previous=previous, brokers=brokers)


class Played:
    """A machine and what it asked for."""

    def __init__(self) -> None:
        self.machine = FleetMachine(0, 5, lease_s=LEASE_S, gather_s=GATHER_S)
        self.now_s = 0.0

    def __call__(self, event: FleetEvent) -> list[FleetEffect]:
        return self.machine.handle(event, self.now_s)

    def at(self, now_s: float) -> "Played":
        self.now_s = now_s
        return self


def registered() -> Played:
    """A broker that follows a fleet whose controller is another one."""
    play = Played()
    play(JoinFleet(TEMPLATE))
    play(SessionOpened())
    play(RegistrationRead(None, 0, 7))
    play(RegistrationWritten(ours(), 11))
    play(BrokersListed((ours(), OTHER)))
    play(ControllerSeen(OTHER_CONTROLS))
    play(FleetRead(OTHER_CONTROLS, 3, (ours(), OTHER), members(7, 0), 2, 8, 2))
    return play


def settled() -> Played:
    """The same, a member of generation 9, and joined."""
    play = registered()
    play(MembersSeen(members(9, 7, ours(), OTHER)))
    play(HandedOver())
    play(RegistrationWritten(ours(generation=9), 12))
    play(BrokersChanged((ours(generation=9),)))
    play(BrokersRead(9, (ours(generation=9), OTHER)))
    assert play.machine.state.is_settled
    return play


# -- joining ---------------------------------------------------------------------------------------


def test_a_first_broker_registers_becomes_controller_and_opens_its_logs() -> None:
    play, alone = Played(), ours(generation=0)
    me = ControllerRow(broker_id=0, incarnation=5)
    nothing = MemberList(generation=0)
    first = members(6, 0, alone)
    assert play(JoinFleet(TEMPLATE)) == [OpenSession(takes_incarnation=False), SetTimer(10.0)]
    assert play(SessionOpened()) == [ReadRegistration()]
    assert play(RegistrationRead(None, 0, 0)) == [WriteRegistration(alone, 0)]
    assert play(RegistrationWritten(alone, 1)) == [FollowFleet(), ReadFleet()]
    assert play(FleetRead(None, 0, (alone,), nothing, 0, 6, 4)) == [ClaimController(me, 0)]
    assert play(ControllerClaimed()) == [ReadFleet()]
    assert play(FleetRead(me, 2, (alone,), nothing, 0, 6, 4)) == [WriteMembers(first, 2, 0, 4)]
    assert play(BrokersListed((alone,))) == []
    assert play(MembersWritten()) == [ReadFleet()]  # registrations came meanwhile
    assert play(FleetRead(me, 2, (alone,), first, 3, 7, 3)) == []
    assert play(ControllerSeen(me)) == [ReadFleet()]
    assert play(MembersSeen(first)) == [HandOver(6, 1), SetTimer(OVERDUE_S)]
    current = msgspec.structs.replace(alone, generation=6)
    assert play(HandedOver()) == [WriteRegistration(current, 1)]
    assert play(RegistrationWritten(current, 5)) == []
    assert play(BrokersChanged((current,))) == [ReadBrokers(6)]
    assert play(BrokersRead(6, (current,))) == [OpenOwnedLogs(6), ReportJoined()]


def test_joining_is_over_after_a_while_even_without_a_store() -> None:
    play = Played()
    play(JoinFleet(TEMPLATE))
    assert play(SessionLost("away")) == [EndSession("away")]
    assert play(SessionEnded()) == [SetTimer(0.5)]
    assert play.at(0.5)(TimerFired()) == [OpenSession(takes_incarnation=False), SetTimer(10.0)]
    assert play.at(10.0)(TimerFired()) == [ReportJoined()]


def test_a_first_registration_takes_the_place_of_its_predecessor() -> None:
    play = Played()
    play(JoinFleet(TEMPLATE))
    play(SessionOpened())
    before = ours(incarnation=2)
    assert play(RegistrationRead(before, 4, 7)) == [WriteRegistration(ours(), 4)]
    assert play(Conflict(WriteRegistration(ours(), 4))) == [ReadRegistration()]


# -- handing over and settling ---------------------------------------------------------------------


def test_a_broker_says_that_it_has_let_go_when_everything_is_handed_over() -> None:
    play = settled()
    assert play(MembersSeen(members(12, 9, ours(), OTHER)))[0] == HandOver(12, 2)
    assert play(MembersSeen(members(13, 12, ours(), OTHER))) == [HandOver(13, 2)]
    assert play(HandedOver()) == []
    assert play(HandedOver()) == [WriteRegistration(ours(generation=13), 12)]


def test_a_generation_that_was_seen_is_not_handed_over_again() -> None:
    play = settled()
    assert play(MembersSeen(members(9, 7, ours(), OTHER))) == []
    assert play(MembersSeen(members(8, 7, ours()))) == []


def test_nothing_is_opened_before_every_other_broker_has_let_go() -> None:
    play = registered()
    play(MembersSeen(members(30, 7, ours(), OTHER)))
    play(HandedOver())
    current = ours(generation=30)
    assert play(RegistrationWritten(current, 12)) == []
    assert play(BrokersChanged((current,))) == []  # broker 1 is at 20
    assert not play.machine.state.may_open("default/t/0")
    caught_up = msgspec.structs.replace(OTHER, generation=30)
    assert play(BrokersChanged((caught_up,))) == [ReadBrokers(30)]
    assert play(BrokersRead(30, (current, caught_up))) == [OpenOwnedLogs(30), ReportJoined()]


def test_the_store_has_the_last_word_about_who_is_behind() -> None:
    play = registered()
    play(MembersSeen(members(9, 7, ours(), OTHER)))
    play(HandedOver())
    play(RegistrationWritten(ours(generation=9), 12))
    assert play(BrokersChanged((ours(generation=9),))) == [ReadBrokers(9)]
    late = msgspec.structs.replace(OTHER, broker_id=2, generation=8)
    assert play(BrokersRead(9, (ours(generation=9), late))) == [SetTimer(0.5)]
    assert play.at(0.5)(TimerFired()) == [ReadBrokers(9), SetTimer(10.0)]


def test_a_broker_that_never_answers_is_waited_for_two_leases_and_a_hand_over() -> None:
    play = registered()
    play(MembersSeen(members(30, 7, ours(), OTHER)))
    play(HandedOver())
    play(RegistrationWritten(ours(generation=30), 12))
    play(BrokersChanged((ours(generation=30),)))
    assert play.at(OVERDUE_S - 0.01)(TimerFired()) == [SetTimer(OVERDUE_S)]
    assert play.at(OVERDUE_S)(TimerFired())[0] == ReadBrokers(30)
    opened = play(BrokersRead(30, (ours(generation=30), OTHER)))
    assert opened == [OpenOwnedLogs(30, (1,)), ReportJoined()]


def test_what_is_kept_is_served_while_the_next_generation_settles() -> None:
    play = settled()
    state = play.machine.state
    owned = {name for name in map(str, range(50)) if state.may_open(name)}
    newcomer = msgspec.structs.replace(OTHER, broker_id=2, incarnation=10)
    play(MembersSeen(members(12, 9, ours(), OTHER, newcomer)))
    kept = {name for name in map(str, range(50)) if state.may_open(name)}
    assert kept
    assert kept < owned


def test_a_broker_that_missed_a_generation_serves_nothing_until_it_is_settled() -> None:
    play = settled()
    play(MembersSeen(members(12, 11, ours(), OTHER)))
    assert not any(play.machine.state.may_open(name) for name in map(str, range(50)))


def test_a_write_the_store_did_not_answer_is_written_again() -> None:
    play = settled()
    play(MembersSeen(members(12, 9, ours(), OTHER)))
    write = WriteRegistration(ours(generation=12), 12)
    assert play(HandedOver()) == [write]
    assert play(Unavailable(write, "away")) == [SetTimer(0.5)]
    assert play.at(0.5)(TimerFired())[0] == write


# -- losing the lease ------------------------------------------------------------------------------


def test_a_lost_lease_drops_everything_and_a_new_incarnation_registers() -> None:
    play = settled()
    assert play(SessionLost("the lease is lost")) == [DropAll(), EndSession("the lease is lost")]
    assert not any(play.machine.state.may_open(name) for name in map(str, range(50)))
    assert play(MembersSeen(members(12, 9, ours(), OTHER))) == []  # late news of the old session
    assert play(SessionEnded()) == [SetTimer(0.5)]
    assert play.at(0.5)(TimerFired()) == [OpenSession(takes_incarnation=True)]
    assert play(SessionOpened(14)) == [ReadRegistration()]
    again = ours(incarnation=14, generation=12)
    assert play(RegistrationRead(ours(), 12, 12)) == [WriteRegistration(again, 12)]
    assert play(RegistrationWritten(again, 15)) == [FollowFleet()]
    assert not play.machine.state.is_member


def test_a_registration_that_another_process_wrote_stops_the_broker() -> None:
    play = settled()
    foreign = ours(incarnation=99)
    reason = (
        "another broker has registered as broker 0, at h:1; "
        "every broker needs an id of its own (broker.id)"
    )
    assert play(BrokersChanged((foreign,))) == [DropAll(), EndSession(reason)]
    assert play(SessionEnded()) == [ReportFailed(reason)]
    assert play.machine.phase is Phase.FAILED


def test_a_removed_registration_ends_the_session() -> None:
    reason = "the registration of this broker was removed"
    assert settled()(BrokersChanged(gone=(0,))) == [DropAll(), EndSession(reason)]


def test_a_refused_registration_ends_the_session() -> None:
    play = settled()
    write = WriteRegistration(ours(generation=12), 12)
    assert play(Conflict(write, "taken")) == [DropAll(), EndSession("taken")]


def test_an_unexpected_error_stops_the_broker() -> None:
    play = settled()
    assert play(Broken("a bug")) == [DropAll(), EndSession("a bug")]
    assert play(SessionEnded()) == [ReportFailed("a bug")]


# -- leaving and closing ---------------------------------------------------------------------------


def test_a_leaving_broker_says_so_and_goes_when_its_share_is_handed_over() -> None:
    play = settled()
    leaving = ours(generation=9, leaving=True)
    assert play(LeaveFleet()) == [WriteRegistration(leaving, 12)]
    assert play(RegistrationWritten(leaving, 13)) == []
    assert play(MembersSeen(members(12, 9, OTHER))) == [HandOver(12, 1)]
    gone = ours(generation=12, leaving=True)
    assert play(HandedOver()) == [WriteRegistration(gone, 13)]
    assert play(RegistrationWritten(gone, 14)) == [ReportLeft(None)]


def test_a_broker_without_heirs_leaves_at_once() -> None:
    play = settled()
    assert play(BrokersChanged(gone=(1,))) == [ReadFleet()]
    leaving = ours(generation=9, leaving=True)
    assert play(LeaveFleet())[0] == WriteRegistration(leaving, 12)
    assert play(RegistrationWritten(leaving, 13)) == [ReportLeft(None)]


def test_a_broker_that_is_not_registered_leaves_without_a_hand_over() -> None:
    assert Played()(LeaveFleet()) == [ReportLeft("the broker is not registered")]


def test_leaving_ends_when_the_store_is_away_or_it_takes_too_long() -> None:
    play = settled()
    write = WriteRegistration(ours(generation=9, leaving=True), 12)
    play(LeaveFleet())
    assert play(Unavailable(write, "away")) == [ReportLeft("away"), SetTimer(0.5)]
    play = settled()
    play(LeaveFleet())
    play(RegistrationWritten(write.row, 13))
    reason = "the other brokers did not take over in time"
    assert play.at(10.0)(TimerFired()) == [ReportLeft(reason)]


def test_a_closed_broker_gives_up_its_lease() -> None:
    play = settled()
    assert play(Close()) == [DropAll(), EndSession(None)]
    assert play(SessionEnded()) == []
    assert play.machine.phase is Phase.CLOSED


# -- the controller --------------------------------------------------------------------------------


def test_while_the_controller_is_registered_no_other_broker_reads_the_fleet() -> None:
    play = settled()
    changed = msgspec.structs.replace(OTHER, generation=25)
    assert play(BrokersChanged((changed,))) == []


def test_when_the_controller_goes_another_broker_claims_its_key() -> None:
    play = settled()
    assert play(BrokersChanged(gone=(1,))) == [ReadFleet()]
    mine = ours(generation=9)
    me = ControllerRow(broker_id=0, incarnation=5)
    facts = FleetRead(OTHER_CONTROLS, 3, (mine,), members(9, 7, mine, OTHER), 6, 10, 6)
    assert play(facts) == [ClaimController(me, 3)]
    assert play(Conflict(ClaimController(me, 3))) == [SetTimer(0.1)]
    assert play.at(0.1)(TimerFired()) == [ReadFleet()]


def test_a_leaving_broker_does_not_become_the_controller_if_another_one_stays() -> None:
    play = settled()
    play(LeaveFleet())
    third = msgspec.structs.replace(OTHER, broker_id=2)
    assert play(BrokersChanged((third,), gone=(1,))) == [ReadFleet()]
    rows = (ours(generation=9, leaving=True), third)
    assert play(FleetRead(None, 0, rows, members(9, 7), 6, 10, 6)) == []


def test_generations_rise_over_all_that_a_broker_remembers() -> None:
    play = settled()
    me = ControllerRow(broker_id=0, incarnation=5)
    play(ControllerSeen(None))
    restored = FleetRead(me, 3, (ours(),), members(2, 1), 6, 3, 6)
    (write,) = play(restored)
    assert isinstance(write, WriteMembers)
    assert (write.members.generation, write.members.previous) == (10, 2)


# -- the table -------------------------------------------------------------------------------------

EXAMPLES: dict[type[Any], FleetEvent] = {
    type(event): event
    for event in (
        JoinFleet(TEMPLATE),
        LeaveFleet(),
        Close(),
        HandedOver(),
        Broken("b"),
        TimerFired(),
        SessionOpened(),
        SessionLost("s"),
        SessionEnded(),
        BrokersListed((ours(), OTHER)),
        BrokersChanged(),
        ControllerSeen(None),
        MembersSeen(members(9, 7, OTHER)),
        RegistrationRead(None, 0, 0),
        RegistrationWritten(ours(), 1),
        BrokersRead(9, ()),
        FleetRead(None, 0, (), members(9, 7), 0, 0, 0),
        ControllerClaimed(),
        MembersWritten(),
        Conflict(ReadFleet()),
        Unavailable(ReadFleet()),
    )
}


def in_phase(phase: Phase) -> Played:
    play = Played()
    if phase is Phase.NEW:
        return play
    play(JoinFleet(TEMPLATE))
    if phase is Phase.OPENING:
        return play
    play(SessionOpened())
    if phase is Phase.REGISTERING:
        return play
    if phase is Phase.REGISTERED:
        return registered()
    play({Phase.FAILED: Broken("b"), Phase.CLOSED: Close()}.get(phase, SessionLost("s")))
    if phase is not Phase.ENDING:
        play(SessionEnded())
    return play


def test_every_event_has_an_example() -> None:
    assert set(EXAMPLES) == set(get_args(events.FleetEvent))


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_every_pair_of_phase_and_event_is_in_the_table_or_refused(
    phase: Phase, kind: type[Any]
) -> None:
    play = in_phase(phase)
    assert play.machine.phase is phase
    if kind in TABLE[phase]:
        play(EXAMPLES[kind])
    else:
        with pytest.raises(UnexpectedEvent):
            play(EXAMPLES[kind])
        assert play.machine.phase is phase
