"""Which changes the controller acts on at once, and which it gathers, so that leaders flip less."""

import msgspec
import pytest

from kafscale.engine.cluster.events import (
    BrokersChanged,
    BrokersListed,
    ControllerSeen,
    FleetEffect,
    FleetEvent,
    FleetRead,
    MembersSeen,
    MembersWritten,
    ReadFleet,
    RegistrationRead,
    RegistrationWritten,
    SessionEnded,
    SessionLost,
    SessionOpened,
    SetTimer,
    TimerFired,
    WriteMembers,
)
from kafscale.engine.cluster.fleet_state import VANISHED_S
from kafscale.metadata.keys import BrokerRow, ControllerRow, MemberList
from tests.unit.engine.cluster.test_machine import GATHER_S, OTHER, Played, members, ours, settled

LONG_AFTER_S = 100.0
MINE = ours(generation=9)
THIRD = msgspec.structs.replace(OTHER, broker_id=2, port=3, incarnation=10)
FOURTH = msgspec.structs.replace(OTHER, broker_id=3, port=4, incarnation=11)
CURRENT = members(9, 7, MINE, OTHER)
AWAY = msgspec.structs.replace(OTHER, leaving=True)
RETURNED = msgspec.structs.replace(OTHER, incarnation=30)


def facts(me: ControllerRow, *rows: BrokerRow, current: MemberList = CURRENT) -> FleetRead:
    return FleetRead(me, 3, rows, current, 6, 40, 8)


def written(*rows: BrokerRow) -> WriteMembers:
    """What the controller writes about these brokers, by the facts above."""
    return WriteMembers(members(40, 9, *rows), 3, 6, 8)


class Controlling:
    """Broker 0 is the controller of generation 9, long after it registered."""

    me = ControllerRow(broker_id=0, incarnation=5)

    def __init__(self) -> None:
        self.play = settled().at(LONG_AFTER_S)
        self.play(TimerFired())
        self.play(ControllerSeen(self.me))
        assert self.read(MINE, OTHER) == []

    def at(self, now_s: float) -> "Controlling":
        self.play.at(now_s)
        return self

    def hear(self, event: FleetEvent) -> list[FleetEffect]:
        return self.play(event)

    def read(self, *rows: BrokerRow) -> list[FleetEffect]:
        return self.play(facts(self.me, *rows))


# -- brokers that join ---------------------------------------------------------------------------


def test_a_broker_that_joins_waits_for_others_that_join() -> None:
    one = Controlling()
    assert one.hear(BrokersChanged((THIRD,))) == [ReadFleet()]
    assert one.read(MINE, OTHER, THIRD) == [SetTimer(LONG_AFTER_S + GATHER_S)]
    one.at(LONG_AFTER_S + 0.9 * GATHER_S)
    assert one.hear(BrokersChanged((FOURTH,))) == [ReadFleet()]
    assert one.read(MINE, OTHER, THIRD, FOURTH) == []  # the timer is set
    one.at(LONG_AFTER_S + GATHER_S)
    assert one.hear(TimerFired()) == [ReadFleet()]
    assert one.read(MINE, OTHER, THIRD, FOURTH) == [written(MINE, OTHER, THIRD, FOURTH)]


def test_brokers_that_join_one_after_the_other_cannot_delay_the_first_one() -> None:
    one = Controlling()
    one.hear(BrokersChanged((THIRD,)))
    one.read(MINE, OTHER, THIRD)
    again = msgspec.structs.replace(THIRD, incarnation=12)  # it crashed and was started again
    one.at(LONG_AFTER_S + 0.9 * GATHER_S).hear(BrokersChanged((again,)))
    assert one.read(MINE, OTHER, again) == []
    one.at(LONG_AFTER_S + GATHER_S).hear(TimerFired())
    assert one.read(MINE, OTHER, again) == [written(MINE, OTHER, again)]


def test_a_broker_that_is_gone_before_it_joined_changes_nothing() -> None:
    one = Controlling()
    one.hear(BrokersChanged((THIRD,)))
    one.read(MINE, OTHER, THIRD)
    assert one.hear(BrokersChanged(gone=(2,))) == [ReadFleet()]
    assert one.read(MINE, OTHER) == []
    one.at(LONG_AFTER_S + GATHER_S)
    assert one.hear(TimerFired()) == []


# -- brokers that go -----------------------------------------------------------------------------


def test_a_dead_brokers_logs_are_given_away_at_once_and_gathered_brokers_join_with_that() -> None:
    one = Controlling()
    one.hear(BrokersChanged((THIRD,)))
    one.read(MINE, OTHER, THIRD)
    assert one.hear(BrokersChanged(gone=(1,))) == [ReadFleet()]
    assert one.read(MINE, THIRD) == [written(MINE, THIRD)]


def test_a_leaving_brokers_logs_are_given_away_at_once() -> None:
    one = Controlling()
    assert one.hear(BrokersChanged((AWAY,))) == [ReadFleet()]
    assert one.read(MINE, AWAY) == [written(MINE)]


def test_a_broker_that_died_and_comes_back_joins_after_the_others_have_gathered() -> None:
    one = Controlling()
    one.hear(BrokersChanged(gone=(1,)))
    alone = members(40, 9, MINE)
    assert one.read(MINE) == [written(MINE)]
    assert one.hear(MembersWritten()) == []
    one.hear(BrokersChanged((RETURNED,)))
    assert one.play(facts(one.me, MINE, RETURNED, current=alone)) == [
        SetTimer(LONG_AFTER_S + GATHER_S)
    ]


# -- brokers that come back ----------------------------------------------------------------------


def test_a_broker_that_comes_back_while_its_lease_runs_has_its_place_again_at_once() -> None:
    one = Controlling()
    assert one.hear(BrokersChanged((RETURNED,))) == [ReadFleet()]
    assert one.read(MINE, RETURNED) == [written(MINE, RETURNED)]


def returned() -> Played:
    """Every lease was lost. Broker 0 is the first to be back, at second 100, and controls."""
    play = settled().at(LONG_AFTER_S)
    play(SessionLost("the lease is lost"))
    play(SessionEnded())
    play.at(LONG_AFTER_S + 0.5)(TimerFired())
    play(SessionOpened(20))
    play(RegistrationRead(None, 0, 9))
    play.at(LONG_AFTER_S + 1.0)(RegistrationWritten(BACK, 21))
    play(BrokersListed((BACK,)))
    play(ControllerSeen(NOW_ME))
    assert play(facts(NOW_ME, BACK)) == [ReadFleet()]  # news came while it read
    return play


BACK = ours(incarnation=20, generation=9)
NOW_ME = ControllerRow(broker_id=0, incarnation=20)
GATHERED_S = LONG_AFTER_S + 1.0 + GATHER_S


def test_a_controller_that_has_just_come_back_waits_for_the_others() -> None:
    play = returned()
    assert play(facts(NOW_ME, BACK)) == [SetTimer(GATHERED_S)]
    assert play(BrokersChanged((RETURNED,))) == [ReadFleet()]
    # All members of before are here again: no log changes its leader.
    assert play(facts(NOW_ME, BACK, RETURNED)) == [written(BACK, RETURNED)]


def test_a_controller_that_has_just_come_back_waits_no_longer_than_it_gathers() -> None:
    play = returned()
    assert play(facts(NOW_ME, BACK)) == [SetTimer(GATHERED_S)]
    assert play.at(GATHERED_S - 0.01)(TimerFired()) == [SetTimer(GATHERED_S)]
    assert play.at(GATHERED_S)(TimerFired()) == [ReadFleet()]
    assert play(facts(NOW_ME, BACK)) == [written(BACK)]


def test_the_first_members_of_all_are_written_at_once() -> None:
    play = returned()
    nothing = MemberList(generation=0)
    first = WriteMembers(members(40, 0, BACK), 3, 6, 8)
    assert play(facts(NOW_ME, BACK, current=nothing)) == [first]


# -- what clients are told meanwhile ---------------------------------------------------------------


def test_a_member_that_is_away_is_named_as_before_until_the_members_change() -> None:
    one = Controlling()
    state = one.play.machine.state
    one.hear(BrokersChanged(gone=(1,)))
    assert state.row_of(1) == OTHER
    assert state.reachable() == [0, 1]
    one.hear(MembersSeen(members(40, 9, MINE)))
    assert state.row_of(1) is None
    assert state.reachable() == [0]


def test_a_broker_that_lost_its_lease_knows_the_members_as_before_when_it_is_back() -> None:
    state = returned().machine.state
    assert sorted(state.brokers) == [0]
    assert state.reachable() == [0, 1]
    assert state.row_of(1) == OTHER


def test_a_broker_that_is_no_member_is_named_while_it_is_registered() -> None:
    one = Controlling()
    one.hear(BrokersChanged((THIRD,)))
    assert one.play.machine.state.reachable() == [0, 1, 2]
    one.hear(BrokersChanged(gone=(2,)))
    assert one.play.machine.state.reachable() == [0, 1]


@pytest.mark.parametrize("known", [OTHER, msgspec.structs.replace(RETURNED, port=9)])
def test_a_broker_is_named_by_its_newest_registration(known: BrokerRow) -> None:
    one = Controlling()
    one.hear(BrokersChanged((known,)))
    assert one.play.machine.state.row_of(1) == known
    one.hear(BrokersChanged(gone=(1,)))
    assert one.play.machine.state.row_of(1) == known


def test_a_broker_that_vanished_is_remembered_for_longer_than_clients_wait_for_its_answers() -> (
    None
):
    one = Controlling()
    state = one.play.machine.state
    one.hear(BrokersChanged(gone=(1,)))
    one.hear(MembersSeen(members(40, 9, MINE)))
    assert state.list_vanished(LONG_AFTER_S + VANISHED_S - 1) == [OTHER]
    assert state.list_vanished(LONG_AFTER_S + VANISHED_S + 1) == []


def test_a_broker_that_left_or_came_back_has_not_vanished() -> None:
    one = Controlling()
    state = one.play.machine.state
    one.hear(BrokersChanged((AWAY,)))
    one.hear(BrokersChanged(gone=(1,)))
    assert state.list_vanished(LONG_AFTER_S) == []
    one.hear(BrokersChanged((THIRD,)))
    one.hear(BrokersChanged(gone=(2,)))
    assert state.list_vanished(LONG_AFTER_S) == [THIRD]
    one.hear(BrokersChanged((THIRD,)))
    assert state.list_vanished(LONG_AFTER_S) == []


def test_a_member_that_is_away_is_named_anyway_and_is_not_counted_twice() -> None:
    one = Controlling()
    state = one.play.machine.state
    one.hear(BrokersChanged(gone=(1,)))
    assert state.reachable() == [0, 1]
    assert state.list_vanished(LONG_AFTER_S) == []
