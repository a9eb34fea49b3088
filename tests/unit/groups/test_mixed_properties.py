"""No partition is read by two members, whichever protocol each of them speaks."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.groups.classic.events import Joined, Synced
from kafscale.groups.consumer.events import Beaten, MemberPartition
from kafscale.groups.events import Accepted, Rejected
from kafscale.model.errors import IllegalGeneration, MemberIdRequired, UnknownMember
from tests.unit.groups.mixed_group import TOPIC, MixedBench, codec, numbers_of, subscription

_COUNT = 4
_CLASSIC, _NEWER = ("a", "b"), ("x", "y")
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("step", "step", "step", "lost", "leave", "crash")),
        st.sampled_from((*_CLASSIC, *_NEWER)),
    ),
    max_size=60,
)


class _Newer:
    """A member of the newer protocol, as real clients are."""

    def __init__(self, bench: MixedBench, name: str) -> None:
        self._bench, self._name = bench, name
        self._epoch = 0
        self._owned: frozenset[MemberPartition] = frozenset()

    @property
    def reads(self) -> set[int]:
        return {number for _, number in self._owned}

    @property
    def is_at_rest(self) -> bool:
        return self._epoch > 0

    def broker_died(self) -> None:
        """It goes on: no answer is outstanding."""

    def leave(self) -> None:
        self._bench.depart(self._name)
        self._epoch, self._owned = 0, frozenset()

    def step(self, *, is_lost: bool = False) -> None:
        outcome = self._bench.beat(self._name, self._epoch, self._owned)
        if is_lost:
            return
        if isinstance(outcome, Beaten):
            self._epoch = outcome.epoch
            self._owned = self._owned if outcome.assigned is None else outcome.assigned
        elif self._epoch:
            self._epoch, self._owned = 0, frozenset()


class _Classic:
    """A member of the classic protocol: eager, or cooperative."""

    def __init__(self, bench: MixedBench, *, is_cooperative: bool) -> None:
        self._bench, self._is_cooperative = bench, is_cooperative
        self.reads: set[int] = set()
        self._reset()

    def _reset(self) -> None:
        self.reads = set()
        self._member_id, self._generation = "", -1
        self._phase, self._call, self._leads = "join", -1, False
        self._assigns: dict[str, bytes] = {}

    @property
    def is_at_rest(self) -> bool:
        return self._phase == "stable"

    def broker_died(self) -> None:
        if self._call >= 0 and self._bench.outcome(self._call) is None:
            self._call = -1  # it asks again
            self._phase = "join"

    def leave(self) -> None:
        if self._member_id:
            self._bench.leave(self._member_id)
        self._reset()

    def step(self, *, is_lost: bool = False) -> None:
        if self._call < 0:
            self._call = self._ask()
        outcome = self._bench.outcome(self._call)
        if outcome is None:
            return
        self._call = -1
        if is_lost:
            return
        if isinstance(outcome, Rejected):
            self._refused(outcome)
        elif isinstance(outcome, Joined):
            self._member_id, self._generation = outcome.member_id, outcome.generation
            self._assigns = self._plan(outcome) if outcome.leader == self._member_id else {}
            self._phase = "sync"
        elif isinstance(outcome, Synced):
            assigned = numbers_of(outcome.assignment)
            must_say_so = self._is_cooperative and bool(self.reads - assigned)
            self.reads = assigned
            self._phase = "join" if must_say_so else "stable"
        else:
            assert outcome == Accepted()

    def _ask(self) -> int:
        if self._phase == "join":
            if not self._is_cooperative:
                self.reads = set()
            protocols = {"it": subscription(self.reads)}
            return self._bench.join(self._member_id, protocols=protocols, needs_id=True)
        if self._phase == "sync":
            member_id, assigns = self._member_id, self._assigns
            return self._bench.sync(member_id, self._generation, assignments=assigns)
        return self._bench.ask_heartbeat(self._member_id, self._generation)

    def _refused(self, outcome: Rejected) -> None:
        if isinstance(outcome.problem, MemberIdRequired):
            self._member_id = outcome.member_id
        elif isinstance(outcome.problem, UnknownMember):
            self._reset()
        elif isinstance(outcome.problem, IllegalGeneration):
            self.reads = set()
        self._phase = "join"

    def _plan(self, joined: Joined) -> dict[str, bytes]:
        """Partitions in turn; a cooperative leader gives none that another member reads."""
        members = sorted(row.member_id for row in joined.members)
        owners = {
            number: row.member_id for row in joined.members for number in _owned_by(row.metadata)
        }
        plan: dict[str, list[int]] = {member: [] for member in members}
        for number in range(_COUNT):
            wanted = members[number % len(members)]
            if owners.get(number, wanted) == wanted:
                plan[wanted].append(number)
        return {
            member: codec.write_assignment([(TOPIC, numbers)]) for member, numbers in plan.items()
        }


def _owned_by(metadata: bytes) -> Iterable[int]:
    said = codec.read_subscription(metadata)
    assert said is not None
    return [number for _, numbers in said.owned for number in numbers]


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
@given(steps=_STEPS, staying=st.sampled_from([_CLASSIC, _NEWER, (*_CLASSIC, *_NEWER), ("a", "x")]))
def test_no_partition_is_read_twice_and_in_the_end_each_is_read(
    is_cooperative: bool, steps: list[tuple[str, str]], staying: tuple[str, ...]
) -> None:
    bench = MixedBench(_COUNT)
    clients: dict[str, _Classic | _Newer] = {name: _Newer(bench, name) for name in _NEWER}
    clients |= {name: _Classic(bench, is_cooperative=is_cooperative) for name in _CLASSIC}
    for action, name in steps:
        if action == "crash":
            bench.restart()
            for client in clients.values():
                client.broker_died()
        elif action == "leave":
            clients[name].leave()
        else:
            clients[name].step(is_lost=action == "lost")
        _check(clients.values())
    for name in clients.keys() - set(staying):
        clients[name].leave()
    for _ in range(40):
        for name in staying:
            clients[name].step()
            _check(clients.values())
        bench.pass_time(1)
    assert all(clients[name].is_at_rest for name in staying)
    assert set().union(*(clients[name].reads for name in staying)) == set(range(_COUNT))
    assert bench.group_type == ("consumer" if set(_NEWER) & set(staying) else "classic")


def _check(clients: Iterable[_Classic | _Newer]) -> None:
    read = [number for client in clients for number in client.reads]
    assert len(read) == len(set(read)), "two members read one partition"
