"""Brokers come, go, crash and lose answers in any interleaving: the fleet's promises hold."""

import itertools
import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.engine.cluster import fleet_state
from kafscale.engine.cluster.controller import Controller
from kafscale.engine.cluster.fleet_state import FleetState
from kafscale.engine.cluster.machine import FleetMachine
from kafscale.engine.cluster.placement import Placement
from kafscale.metadata.keys import BrokerRow, MemberList
from tests.support.examples import examples
from tests.unit.engine.cluster.fleet_model import LOGS, BrokerModel, FleetModel

BROKERS = 3
STEPS = 300


class Walk:
    """One random order of steps and bad luck; at the end everything heals."""

    def __init__(self, order: random.Random, brokers: int) -> None:
        self.order = order
        self.model = FleetModel()
        for broker_id in range(brokers):
            self.model.start(broker_id)
        self.model.heal()

    def go(self) -> None:
        slow: int | None = None
        for _ in range(STEPS):
            if self.order.random() < 0.05:
                slow = self.order.choice([None, *range(BROKERS)])
            if self.order.random() < 0.05:
                self.strike(self.order.randrange(BROKERS))
            elif steps := self.model.actions(but=slow):
                self.order.choice(steps)()
            self.check()
        self.check_healed()

    def strike(self, broker_id: int) -> None:
        broker = self.model.brokers.get(broker_id)
        if broker is None:
            self.model.start(broker_id)
            return
        blows: list[Callable[[], None]] = [
            broker.leave,
            broker.lose_lease,
            lambda: self.model.crash(broker_id),
            lambda: broker.lose_answer(self.order.randrange(9), was_done=True),
            lambda: broker.lose_answer(self.order.randrange(9), was_done=False),
            lambda: self.pass_time(0.1),
            lambda: self.pass_time(0.6),
            lambda: self.pass_time(12.0),
        ]
        self.order.choice(blows)()

    def pass_time(self, seconds: float) -> None:
        self.model.now_s += seconds

    def check(self) -> None:
        brokers = self.model.brokers.values()
        for one, other in itertools.combinations(brokers, 2):
            both = one.holding() & other.holding()
            assert both <= self.model.opened_late, "a log is held twice"
            if one.machine.state.generation == other.machine.state.generation:
                assert not one.owned() & other.owned(), "a generation gives a log to two brokers"
        for broker in brokers:
            assert broker.is_up or not (broker.holding() or broker.owned()), "held without lease"

    def check_healed(self) -> None:
        """When nothing goes wrong any more, all agree, and every log has one owner."""
        self.model.heal()
        self.check()
        brokers = list(self.model.brokers.values())
        assert all(broker.is_up and broker.has_joined for broker in brokers)
        assert all(broker.failure is None for broker in brokers)
        assert all(broker.has_left for broker in brokers if broker.machine.state.is_leaving)
        staying = [broker for broker in brokers if not broker.machine.state.is_leaving]
        if staying:
            self.check_settled(brokers, staying)

    def check_settled(self, brokers: list[BrokerModel], staying: list[BrokerModel]) -> None:
        members = self.model.store.members()
        states = [broker.machine.state for broker in brokers]
        assert {state.generation for state in states} == {members.generation}
        ids = sorted(broker.broker_id for broker in staying)
        assert [row.broker_id for row in members.brokers] == ids
        assert all(broker.machine.state.is_settled for broker in staying)
        assert sum(state.controller == state.as_controller for state in states) == 1
        assert sorted(log for broker in brokers for log in broker.served) == sorted(LOGS)


@examples(200)
@given(order=st.randoms(use_true_random=True), brokers=st.integers(0, BROKERS))
def test_any_interleaving_keeps_the_promises(order: random.Random, brokers: int) -> None:
    Walk(order, brokers).go()


def walk_often() -> None:
    for seed in range(100):
        Walk(random.Random(seed), seed % BROKERS).go()


# -- the walk finds what it is meant to find -------------------------------------------------------


def says_too_early(self: FleetMachine, row: BrokerRow) -> BrokerRow:
    """Tell the others that everything is let go of, before it is flushed."""
    return msgspec.structs.replace(
        row,
        leaving=row.leaving or self.state.is_leaving,
        generation=max(row.generation, self.state.generation),
    )


def goes_by_the_newest_alone(self: FleetState, members: MemberList, now_s: float) -> bool:
    """Forget that other brokers have not let go of what they had before."""
    if members.generation <= self.placement.generation:
        return False
    self.placement, self.learned_s, self.is_settled = Placement(members), now_s, False
    self._since = [self.placement]
    return True


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (fleet_state, "behind", lambda *_: ()),
        (FleetMachine, "_wanted_row", says_too_early),
        (FleetState, "take_generation", goes_by_the_newest_alone),
        (FleetState, "lose", lambda _: None),
        (Controller, "try_again", lambda *_: None),
    ],
    ids=["opens at once", "says too early", "newest alone", "keeps all", "never tries again"],
)
def test_the_walk_finds_a_planted_bug(owner: Any, name: str, bug: Any) -> None:
    with patch.object(owner, name, bug), pytest.raises(AssertionError):
        walk_often()
