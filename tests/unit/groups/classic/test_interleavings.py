"""A group keeps its promises in whatever order requests, time and restarts come."""

import random

import pytest

from kafscale.groups.classic.events import Joined, Synced
from kafscale.groups.classic.states import GroupState
from kafscale.groups.events import Rejected
from kafscale.groups.rules import GroupRules
from kafscale.model.errors import MemberIdRequired
from tests.unit.groups.classic.group_harness import Bench

STEPS = 300
PARTITIONS = range(6)


class Crowd:
    """Members that do anything at any time, and what they were told."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        delay_s = self.dice.choice([0.0, 3.0])
        self.bench = Bench(GroupRules(initial_delay_s=delay_s, most_members=4))
        self.ids: list[str] = []
        self.asked: dict[int, tuple[str, str]] = {}  # call: what for, by whom
        self.seen: set[int] = set()
        self.generation = 0
        self.owners: dict[tuple[int, int], str] = {}  # generation, partition

    def step(self) -> None:
        bench, dice = self.bench, self.dice
        who = dice.choice([*self.ids[-8:], "", "unknown"])
        generation = bench.group.generation - dice.choice([0, 0, 0, 0, 1])
        what = dice.choice(["join", "join", "sync", "sync", "beat", "commit", "leave", "time"])
        if what == "join":
            instance = dice.choice([None, None, None, "i", "j"])
            call = bench.join(
                who,
                instance_id=instance,
                needs_id=dice.random() < 0.5,
                can_skip=dice.random() < 0.5,
                session_timeout_s=dice.choice([6.0, 10.0]),
                rebalance_timeout_s=dice.choice([5.0, 30.0]),
                protocols=dice.choice([{"a": b"1"}, {"a": b"", "b": b""}, {"b": b"", "a": b""}]),
            )
            self.asked[call] = "join", who
        elif what == "sync":
            members = list(bench.group.roster.by_id)
            plan: dict[str, list[int]] = {name: [] for name in members}
            for partition in PARTITIONS if members else ():
                plan[dice.choice(members)].append(partition)
            shares = {name: bytes(share) for name, share in plan.items()}
            self.asked[bench.sync(who, generation, assignments=shares)] = "sync", who
        elif what == "beat":
            self.asked[bench.heartbeat(who, generation)] = "beat", who
        elif what == "commit":
            self.asked[bench.commit(who, generation)] = "commit", who
        elif what == "leave" and dice.random() < 0.4:
            self.asked[bench.leave((who, None))] = "leave", who
        elif what == "time":
            bench.pass_s(dice.choice([0.1, 1.0, 4.0, 12.0]))
        self.check()

    def check(self) -> None:
        bench = self.bench
        assert bench.group.generation >= self.generation
        self.generation = bench.group.generation
        for call in sorted(bench.answers.keys() - self.seen):
            self.seen.add(call)
            outcome = bench.outcome(call)
            what, who = self.asked.get(call, ("join", ""))
            if isinstance(outcome, Joined):
                self.ids.append(outcome.member_id)
                assert outcome.generation <= self.generation
            elif isinstance(outcome, Rejected) and isinstance(outcome.problem, MemberIdRequired):
                self.ids.append(outcome.member_id)
                assert outcome.member_id in bench.group.pending
            elif isinstance(outcome, Synced):
                assert what == "sync"
                self.own(who, outcome.assignment)
        if bench.group.state is GroupState.EMPTY:
            assert not bench.group.roster.by_id
        else:
            assert bench.group.roster.leader in bench.group.roster.by_id

    def own(self, who: str, assignment: bytes) -> None:
        for partition in assignment:
            owner = self.owners.setdefault((self.generation, partition), who)
            # A static member's new process has the place, and the share, of the old one.
            assert owner == who or owner not in self.bench.group.roster.by_id

    def waiting(self) -> set[int]:
        return self.asked.keys() - self.bench.answers.keys()


@pytest.mark.parametrize("seed", range(150))
def test_any_order_of_events_keeps_the_promises(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(STEPS):
        crowd.step()
    # Without another request, every call that waits is answered and the group empties.
    crowd.bench.pass_s(200.0)
    crowd.check()
    assert crowd.waiting() == set()
    assert crowd.bench.group.state is GroupState.EMPTY
    assert crowd.bench.group.is_idle


def test_the_orders_tried_reach_every_state_and_every_kind_of_answer() -> None:
    states, kinds, problems = set(), set(), set()
    for seed in range(20):
        crowd = Crowd(seed)
        for _ in range(STEPS):
            crowd.step()
            states.add(crowd.bench.group.state)
        kinds |= {type(outcome).__name__ for outcome in crowd.bench.answers.values()}
        problems |= {
            type(outcome.problem).__name__
            for outcome in crowd.bench.answers.values()
            if isinstance(outcome, Rejected)
        }
    assert states == set(GroupState) - {GroupState.DEAD}
    assert kinds == {"Joined", "Synced", "Accepted", "Left", "Rejected"}
    assert problems >= {
        "MemberIdRequired",
        "UnknownMember",
        "IllegalGeneration",
        "RebalanceInProgress",
        "FencedInstance",
        "GroupFull",
    }
