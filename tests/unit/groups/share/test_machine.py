"""Members of a share group: what they read, and when they hear of it."""

from hypothesis import given
from hypothesis import strategies as st

from kafscale.groups.consumer.assignors import TopicPartitions
from kafscale.groups.consumer.events import LEFT, Beat, Beaten, Depart
from kafscale.groups.consumer.snapshot import ConsumerSnapshot
from kafscale.groups.events import (
    CommitOffsets,
    Event,
    GroupOutcome,
    Persist,
    Rejected,
    Reply,
    Tick,
)
from kafscale.groups.rules import GroupRules
from kafscale.groups.share.assignor import assign_simple
from kafscale.groups.share.machine import ShareGroup
from kafscale.model.errors import FencedMemberEpoch, GroupFull, GroupNotFound, UnknownMember
from tests.unit.groups.consumer.bench import Directory, places, topic_id

RULES = GroupRules(most_share_members=3, share_session_s=45.0)


class Bench:
    def __init__(self, **counts: int) -> None:
        self.directory = Directory(**counts)
        self.group = ShareGroup(RULES, self.directory)
        self.now_s = 0.0
        self.saved: ConsumerSnapshot | None = None

    def say(self, event: Event) -> GroupOutcome | None:
        outcome = None
        for effect in self.group.handle(event, self.now_s):
            if isinstance(effect, Persist):
                taken = effect.snapshot.take()
                assert isinstance(taken, ConsumerSnapshot)
                self.saved = taken
            elif isinstance(effect, Reply):
                outcome = effect.outcome
        return outcome

    def beat(self, member: str, epoch: int = 0, *names: str) -> Beaten:
        outcome = self.say(
            Beat(call="", member_id=member, epoch=epoch, names=frozenset(names) if names else None)
        )
        assert isinstance(outcome, Beaten), outcome
        return outcome

    def refusal(self, event: Event) -> Exception:
        outcome = self.say(event)
        assert isinstance(outcome, Rejected)
        return outcome.problem


def test_members_share_a_partition_if_there_are_more_of_them() -> None:
    bench = Bench(t=1)
    assert bench.beat("a", 0, "t").assigned == places("t", 0)
    assert bench.beat("b", 0, "t").assigned == places("t", 0)
    assert bench.group.state.value == "Stable"


def test_a_member_has_its_new_partitions_at_once() -> None:
    bench = Bench(t=2)
    first = bench.beat("a", 0, "t")
    assert first.assigned == places("t", 0, 1)
    second = bench.beat("b", 0, "t")
    moved = bench.beat("a", first.epoch)
    assert second.assigned is not None
    assert moved.assigned is not None
    assert second.assigned | moved.assigned == places("t", 0, 1)
    assert moved.epoch == second.epoch > first.epoch
    assert bench.beat("a", moved.epoch).assigned is None, "nothing has changed"


def test_members_hear_of_partitions_that_were_added() -> None:
    bench = Bench(t=1)
    joined = bench.beat("a", 0, "t")
    bench.directory.set("t", 3)
    assert bench.beat("a", joined.epoch).assigned == places("t", 0, 1, 2)


def test_an_answer_that_was_lost_is_given_again_and_an_unknown_epoch_is_fenced() -> None:
    bench = Bench(t=1)
    joined = bench.beat("a", 0, "t")
    bench.beat("b", 0, "t")
    moved = bench.beat("a", joined.epoch)
    assert bench.beat("a", joined.epoch).epoch == moved.epoch
    beyond = Beat(call="", member_id="a", epoch=moved.epoch + 1)
    assert isinstance(bench.refusal(beyond), FencedMemberEpoch)


def test_a_silent_member_is_removed_and_a_member_can_leave() -> None:
    bench = Bench(t=1)
    joined = bench.beat("a", 0, "t")
    bench.now_s = 46.0
    bench.say(Tick())
    assert isinstance(
        bench.refusal(Beat(call="", member_id="a", epoch=joined.epoch)), UnknownMember
    )
    bench.beat("a", 0, "t")
    bench.say(Depart(call="", member_id="a", epoch=LEFT))
    assert bench.group.is_idle
    assert bench.group.state.value == "Empty"


def test_a_group_has_so_many_members_and_commits_no_offsets() -> None:
    bench = Bench(t=1)
    for member in "abc":
        bench.beat(member, 0, "t")
    full = Beat(call="", member_id="d", epoch=0, names=frozenset({"t"}))
    assert isinstance(bench.refusal(full), GroupFull)
    commit = CommitOffsets(call="", generation=-1, member_id="")
    assert isinstance(bench.refusal(commit), GroupNotFound)


def test_a_group_goes_on_on_another_broker_as_it_was_saved() -> None:
    bench = Bench(t=2)
    first = bench.beat("a", 0, "t")
    bench.beat("b", 0, "t")
    moved = bench.beat("a", first.epoch)
    assert bench.saved is not None
    restored = ShareGroup.restored(RULES, bench.directory, bench.saved, 0.0)
    assert restored.roster.by_id["a"].assigned == moved.assigned
    bench.group = restored
    assert bench.beat("a", moved.epoch).assigned is None
    bench.say(Depart(call="", member_id="b", epoch=LEFT))
    assert bench.beat("a", moved.epoch).assigned == places("t", 0, 1)


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.frozensets(st.sampled_from("xyz"), min_size=1), min_size=1
    ),
    st.fixed_dictionaries({name: st.integers(1, 7) for name in "xyz"}),
)
def test_every_partition_has_a_reader_and_every_member_something_to_read(
    subscriptions: dict[str, frozenset[str]], counts: dict[str, int]
) -> None:
    sizes = {name: TopicPartitions(topic_id(name), count) for name, count in counts.items()}
    target = assign_simple(subscriptions, sizes)
    assert all(target[member] for member in subscriptions)
    read = frozenset().union(*subscriptions.values())
    expected = frozenset().union(*(places(name, *range(counts[name])) for name in read))
    assert frozenset().union(*target.values()) == expected
    for member, given_places in target.items():
        allowed = {topic_id(name) for name in subscriptions[member]}
        assert {place[0] for place in given_places} <= allowed
