"""No partition is ever read by two members, whatever is lost and whichever broker goes on."""

from hypothesis import given
from hypothesis import strategies as st

from kafscale.groups.consumer.assigned import ConsumerGroupState
from kafscale.groups.consumer.events import Beaten
from tests.unit.groups.consumer.bench import Bench, places

_MEMBERS = ("a", "b", "c")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from(_MEMBERS)),
        st.tuples(st.just("beat"), st.sampled_from(_MEMBERS)),
        st.tuples(st.just("lost"), st.sampled_from(_MEMBERS)),
        st.tuples(st.just("leave"), st.sampled_from(_MEMBERS)),
        st.tuples(st.just("grow"), st.just("")),
        st.tuples(st.just("time"), st.just("")),
        st.tuples(st.just("crash"), st.just("")),
    ),
    max_size=40,
)


class _Client:
    """A member as real clients are: what it is told to give up it gives up, and says so."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.name = name

    def step(self, action: str) -> None:
        bench, name = self.bench, self.name
        if action == "leave":
            if name in bench.epochs:
                bench.leave(name)
                bench.epochs.pop(name, None)
            return
        owned = bench.told.get(name, frozenset())
        epoch = bench.epochs.get(name, 0)
        if action == "join" or name not in bench.epochs:
            bench.told.pop(name, None)  # it owns nothing before it joins
            outcome = bench.join(name, "orders")
        else:
            outcome = bench.beat(name, rebalance_timeout_s=60.0, names=frozenset({"orders"}))
        if not isinstance(outcome, Beaten):
            bench.told.pop(name, None)  # fenced: it lets go of all and joins again
            bench.epochs.pop(name, None)
        elif action == "lost":
            bench.told[name], bench.epochs[name] = owned, epoch


@given(_STEPS)
def test_no_partition_is_read_by_two_members(steps: list[tuple[str, str]]) -> None:
    bench = Bench(orders=3)
    clients = {name: _Client(bench, name) for name in _MEMBERS}
    count = 3
    for action, name in steps:
        if action == "grow":
            count += 1
            bench.topics.set("orders", count)
        elif action == "time":
            bench.now_s += 20
        elif action == "crash":
            if bench.saved is not None:
                bench.restart()
        else:
            clients[name].step(action)
        _check(bench)
    for _ in range(3):  # a client that is fenced joins with its next heartbeat
        for name in _MEMBERS:
            clients[name].step("beat")
    bench.settle(*_MEMBERS)
    assert bench.group.state is ConsumerGroupState.STABLE
    assert frozenset().union(*bench.told.values()) == places("orders", *range(count))


def _check(bench: Bench) -> None:
    held = [place for name in bench.told for place in bench.told[name]]
    assert len(held) == len(set(held)), "two members read one partition"
