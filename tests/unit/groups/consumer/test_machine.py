from kafscale.groups.consumer.assigned import ConsumerGroupState
from kafscale.groups.consumer.events import Beaten
from kafscale.groups.events import Accepted
from kafscale.model.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupFull,
    GroupNotEmpty,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
)
from tests.unit.groups.consumer.bench import Bench, places, problem_of


def test_the_first_member_gets_all_partitions_with_its_first_heartbeat() -> None:
    bench = Bench(orders=3)
    assert bench.join("a", "orders") == Beaten("a", 1, 5.0, places("orders", 0, 1, 2))
    assert bench.group.state is ConsumerGroupState.STABLE


def test_a_second_member_waits_for_partitions_until_the_first_has_given_them_up() -> None:
    bench = Bench(orders=2)
    bench.join("a", "orders")
    assert bench.join("b", "orders") == Beaten("b", 2, 5.0, frozenset())
    assert bench.group.state is ConsumerGroupState.RECONCILING
    kept = bench.beat("a")
    assert isinstance(kept, Beaten)
    assert kept.epoch == 1, "it keeps its epoch until it has given up"
    assert kept.assigned is not None
    assert len(kept.assigned) == 1
    assert bench.beat("b") == Beaten("b", 2, 5.0, None)
    assert bench.beat("a") == Beaten("a", 2, 5.0, None)
    assert bench.beat("b") == Beaten("b", 2, 5.0, places("orders", 0, 1) - kept.assigned)
    assert bench.group.state is ConsumerGroupState.STABLE


def test_a_member_that_does_not_say_what_it_owns_keeps_what_it_must_give_up() -> None:
    bench = Bench(orders=2)
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.beat("a")
    bench.beat("a", owned=None)
    assert bench.beat("b") == Beaten("b", 2, 5.0, None)


def test_a_member_that_never_gives_up_is_removed_after_its_rebalance_timeout() -> None:
    bench = Bench(orders=2)
    bench.join("a", "orders")
    bench.join("b", "orders")
    for _ in range(7):
        bench.pass_time(10)
        bench.beat("a", owned=places("orders", 0, 1))
        bench.beat("b")
    assert problem_of(bench.beat("a")) is UnknownMember
    bench.settle("b")
    assert bench.told["b"] == places("orders", 0, 1)


def test_what_a_member_leaves_behind_goes_to_the_others() -> None:
    bench = Bench(orders=4)
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.settle("a", "b")
    assert bench.leave("b") == Beaten("b", -1)
    bench.settle("a")
    assert bench.told["a"] == places("orders", 0, 1, 2, 3)


def test_a_silent_member_is_removed_when_its_session_is_over() -> None:
    bench = Bench(orders=1)
    bench.join("a", "orders")
    bench.pass_time(44)
    assert isinstance(bench.beat("a"), Beaten)
    bench.pass_time(46)
    assert problem_of(bench.beat("a")) is UnknownMember
    assert bench.group.state is ConsumerGroupState.EMPTY


def test_a_topic_that_grows_raises_the_epoch() -> None:
    bench = Bench(orders=1)
    bench.join("a", "orders")
    bench.topics.set("orders", 2)
    assert bench.beat("a") == Beaten("a", 2, 5.0, places("orders", 0, 1))


def test_a_change_of_other_topics_does_not_raise_the_epoch() -> None:
    bench = Bench(orders=1)
    bench.join("a", "orders")
    bench.topics.set("others", 2)
    assert bench.beat("a") == Beaten("a", 1, 5.0, None)


def test_a_topic_that_was_deleted_leaves_the_assignment() -> None:
    bench = Bench(orders=1, others=1)
    bench.join("a", "orders", "others")
    bench.topics.set("others", None)
    bench.settle("a")
    assert bench.told["a"] == places("orders", 0)


def test_a_changed_subscription_counts_from_the_same_heartbeat_on() -> None:
    bench = Bench(orders=1, others=1)
    bench.join("a", "orders")
    bench.beat("a", names=frozenset({"others"}))
    bench.settle("a")
    assert bench.told["a"] == places("others", 0)


def test_topics_that_a_pattern_matches_are_subscribed_to() -> None:
    bench = Bench(orders=1)
    bench.join("a", regex="ord.*", matched=frozenset({"orders"}), matched_at=0)
    assert bench.told["a"] == places("orders", 0)
    assert bench.group.regex_to_match_again("a") is None
    bench.topics.set("ordinary", 1)
    assert bench.group.regex_to_match_again("a") == "ord.*"


def test_an_epoch_that_is_not_the_members_is_fenced() -> None:
    bench = Bench(orders=1)
    bench.join("a", "orders")
    assert problem_of(bench.beat("a", epoch=7)) is FencedMemberEpoch
    assert problem_of(bench.beat("z", epoch=1)) is UnknownMember


def test_the_previous_epoch_counts_if_the_answer_was_lost() -> None:
    bench = Bench(orders=1)
    bench.join("a", "orders")
    bench.topics.set("orders", 2)
    bench.beat("a")
    lost = bench.beat("a", epoch=1, owned=places("orders", 0), rebalance_timeout_s=60.0,
                      names=frozenset({"orders"}))  # fmt: skip
    assert lost == Beaten("a", 2, 5.0, places("orders", 0, 1))
    assert problem_of(bench.beat("a", epoch=1, owned=None)) is FencedMemberEpoch


def test_a_member_that_joins_again_gets_its_assignment_again() -> None:
    bench = Bench(orders=2)
    bench.join("a", "orders")
    assert bench.join("a", "orders") == Beaten("a", 1, 5.0, places("orders", 0, 1))


def test_a_static_member_that_is_back_has_its_old_partitions() -> None:
    bench = Bench(orders=2)
    bench.join("a", "orders", instance_id="one")
    bench.join("b", "orders")
    bench.settle("a", "b")
    had = bench.told["a"]
    assert bench.go_away("a", "one") == Beaten("a", -2)
    bench.beat("b")
    assert bench.told["b"].isdisjoint(had), "its partitions wait for it"
    bench.join("a2", "orders", instance_id="one")
    assert bench.told["a2"] == had


def test_a_static_member_that_stays_away_is_removed() -> None:
    bench = Bench(orders=2)
    bench.join("a", "orders", instance_id="one")
    bench.join("b", "orders")
    bench.settle("a", "b")
    bench.go_away("a", "one")
    bench.pass_time(30)
    bench.beat("b")
    bench.pass_time(30)
    bench.settle("b")
    assert bench.told["b"] == places("orders", 0, 1)


def test_an_instance_id_belongs_to_one_member() -> None:
    bench = Bench(orders=2)
    bench.join("a", "orders", instance_id="one")
    assert problem_of(bench.join("b", "orders", instance_id="one")) is UnreleasedInstance
    bench.join("c", "orders")
    assert problem_of(bench.beat("c", instance_id="one")) is FencedInstance


def test_a_full_group_and_an_unknown_assignor_are_refused() -> None:
    bench = Bench(orders=9)
    for member in "abcde":
        bench.join(member, "orders")
    assert problem_of(bench.join("f", "orders")) is GroupFull
    assert problem_of(bench.beat("a", assignor="sticky")) is UnsupportedAssignor


def test_members_commit_and_fetch_offsets_in_their_epoch() -> None:
    bench = Bench(orders=1)
    assert bench.commit("", -1) == Accepted(), "the group is empty"
    bench.join("a", "orders")
    assert bench.commit("a", 1) == Accepted()
    assert bench.fetch("a", 1) == Accepted()
    assert problem_of(bench.commit("a", 9)) is StaleMemberEpoch
    assert problem_of(bench.fetch("a", 0)) is StaleMemberEpoch
    assert problem_of(bench.commit("z", 1)) is UnknownMember
    assert problem_of(bench.commit("", -1)) is UnknownMember


def test_only_an_empty_group_is_deleted() -> None:
    bench = Bench(orders=1)
    bench.join("a", "orders")
    assert problem_of(bench.delete()) is GroupNotEmpty
    bench.leave("a")
    assert bench.delete() == Accepted()
    assert bench.group.state is ConsumerGroupState.DEAD


def test_another_broker_goes_on_where_the_group_was_saved() -> None:
    bench = Bench(orders=4)
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.beat("a")
    bench.restart()
    assert bench.beat("b") == Beaten("b", 2, 5.0, None), "the first has not given up"
    bench.settle("a", "b")
    assert bench.told["a"] | bench.told["b"] == places("orders", 0, 1, 2, 3)
    assert bench.told["a"].isdisjoint(bench.told["b"])


def test_a_plain_heartbeat_writes_nothing() -> None:
    bench = Bench(orders=1)
    bench.join("a", "orders")
    bench.saved = None
    bench.beat("a")
    bench.beat("a", owned=None)
    assert bench.saved is None


def test_another_broker_notices_what_has_grown_meanwhile() -> None:
    bench = Bench(orders=1)
    bench.join("a", "orders")
    bench.topics.set("orders", 2)
    bench.restart()
    assert bench.beat("a") == Beaten("a", 2, 5.0, places("orders", 0, 1))


def test_another_broker_keeps_the_epoch_if_nothing_has_changed() -> None:
    bench = Bench(orders=2)
    bench.join("a", "orders")
    bench.restart()
    assert bench.beat("a") == Beaten("a", 1, 5.0, None)
