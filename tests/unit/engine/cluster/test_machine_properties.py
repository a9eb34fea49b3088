"""Brokers come, go, crash and lose answers in any interleaving: the fleet's promises hold."""

import itertools
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.examples import examples
from tests.unit.engine.cluster.fleet_model import LOGS, FleetModel

broker_ids = st.integers(0, 2)
picks = st.integers(0, 1 << 16)


class FleetLife(RuleBasedStateMachine):
    """Any order of steps and bad luck; at the end everything heals."""

    def __init__(self) -> None:
        super().__init__()
        self.model = FleetModel()

    @initialize(brokers=st.integers(0, 2))
    def begin(self, brokers: int) -> None:
        for broker_id in range(brokers):
            self.model.start(broker_id)
        self.model.heal()

    @rule(
        order=st.randoms(use_true_random=True),
        count=st.sampled_from([1, 3, 10, 30]),
        slow=st.none() | broker_ids,
    )
    def go_on(self, order: random.Random, count: int, slow: int | None) -> None:
        """Let some steps happen, in any order, one broker being slow."""
        for _ in range(count):
            steps = self.model.actions(but=slow)
            if steps:
                order.choice(steps)()
                self.no_log_is_held_twice()

    @rule(broker_id=broker_ids)
    def start(self, broker_id: int) -> None:
        self.model.start(broker_id)

    @rule(broker_id=broker_ids)
    def crash(self, broker_id: int) -> None:
        self.model.crash(broker_id)

    @rule(broker_id=broker_ids)
    def leave(self, broker_id: int) -> None:
        if broker_id in self.model.brokers:
            self.model.brokers[broker_id].leave()

    @rule(broker_id=broker_ids)
    def lose_lease(self, broker_id: int) -> None:
        if broker_id in self.model.brokers:
            self.model.brokers[broker_id].lose_lease()

    @rule(broker_id=broker_ids, pick=picks, was_done=st.booleans())
    def lose_answer(self, broker_id: int, pick: int, was_done: bool) -> None:
        if broker_id in self.model.brokers:
            self.model.brokers[broker_id].lose_answer(pick, was_done=was_done)

    @rule(seconds=st.sampled_from([0.1, 0.6, 3.0, 12.0]))
    def pass_time(self, seconds: float) -> None:
        self.model.now_s += seconds

    @invariant()
    def no_log_is_held_twice(self) -> None:
        for one, other in itertools.combinations(self.model.brokers.values(), 2):
            assert one.holding() & other.holding() <= self.model.opened_late

    @invariant()
    def one_generation_gives_a_log_to_one_broker(self) -> None:
        for one, other in itertools.combinations(self.model.brokers.values(), 2):
            if one.machine.state.generation == other.machine.state.generation:
                assert not one.owned() & other.owned()

    @invariant()
    def a_broker_without_lease_holds_nothing(self) -> None:
        for broker in self.model.brokers.values():
            if not broker.is_up:
                assert not broker.holding()
                assert not broker.owned()

    def teardown(self) -> None:
        """When nothing goes wrong any more, all agree, and every log has one owner."""
        model = self.model
        model.heal()
        self.no_log_is_held_twice()
        brokers = list(model.brokers.values())
        assert all(broker.is_up and broker.has_joined for broker in brokers)
        assert all(broker.failure is None for broker in brokers)
        assert all(broker.has_left for broker in brokers if broker.machine.state.is_leaving)
        staying = [broker for broker in brokers if not broker.machine.state.is_leaving]
        if not staying:
            return
        states = [broker.machine.state for broker in brokers]
        (generation,) = {state.generation for state in states}
        assert generation == model.store.members().generation
        members = model.store.members().brokers
        assert [row.broker_id for row in members] == sorted(b.broker_id for b in staying)
        assert all(broker.machine.state.is_settled for broker in staying)
        assert sum(state.controller == state.as_controller for state in states) == 1
        assert sorted(log for broker in brokers for log in broker.served) == sorted(LOGS)


TestFleetLife = FleetLife.TestCase
TestFleetLife.settings = settings(examples(200), stateful_step_count=40, deadline=None)
