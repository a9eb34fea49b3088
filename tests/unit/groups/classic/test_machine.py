from typing import Any

import pytest

from kafscale.groups.classic.events import Joined, Left, Subscriber, Synced
from kafscale.groups.classic.machine import ClassicGroup
from kafscale.groups.classic.states import NEXT, GroupState, Transition
from kafscale.groups.events import Accepted, Delete
from kafscale.groups.rules import GroupRules
from kafscale.model.errors import (
    FencedInstance,
    GroupFull,
    GroupIsGoing,
    GroupNotEmpty,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from tests.unit.groups.classic.group_harness import RANGE, RULES, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_turn_that_is_not_in_the_table_is_a_mistake() -> None:
    assert (GroupState.STABLE, Transition.DELETED) not in NEXT
    group = ClassicGroup(RULES)
    with pytest.raises(KeyError):
        group._move(Transition.ASSIGNED)


# -- joining -------------------------------------------------------------------------------------


def test_the_first_member_leads_and_learns_who_is_there(bench: Bench) -> None:
    call = bench.join()
    assert bench.outcome(call) == Joined(
        "m1", 1, "consumer", "range", "m1", (Subscriber("m1", None, b"sub"),)
    )
    assert bench.group.state is GroupState.COMPLETING


def test_a_second_member_waits_until_the_first_has_joined_again(bench: Bench) -> None:
    (first,) = bench.stable()
    waiting = bench.join(protocols={"range": b"other"})
    assert waiting not in bench.answers
    assert bench.problem(bench.heartbeat(first, 1)) is RebalanceInProgress
    again = bench.join(first)
    assert bench.outcome(again).members == (
        Subscriber(first, None, b"sub"),
        Subscriber(f"m{waiting}", None, b"other"),
    )
    assert bench.outcome(waiting) == Joined(f"m{waiting}", 2, "consumer", "range", first)


def test_who_has_not_joined_when_the_rebalance_timeout_is_over_is_no_member(bench: Bench) -> None:
    (first,) = bench.stable(session_timeout_s=1000.0)
    waiting = bench.join()
    bench.pass_s(59.9)
    assert waiting not in bench.answers
    bench.pass_s(0.2)
    assert bench.outcome(waiting).leader == f"m{waiting}"
    assert bench.problem(bench.heartbeat(first, 1)) is UnknownMember


def test_an_empty_group_waits_for_more_members_to_come() -> None:
    bench = Bench(GroupRules(initial_delay_s=3.0))
    first = bench.join(rebalance_timeout_s=5.0)
    bench.pass_s(2.0)
    second = bench.join(rebalance_timeout_s=5.0)
    bench.pass_s(2.9)
    assert not bench.answers
    bench.pass_s(0.2)  # three seconds after the second one, five after the first
    assert bench.outcome(first).generation == bench.outcome(second).generation == 1


def test_a_member_without_id_is_sent_back_with_one(bench: Bench) -> None:
    call = bench.join(needs_id=True)
    assert bench.problem(call) is MemberIdRequired
    assert bench.outcome(call).member_id == "m1"
    assert bench.problem(bench.heartbeat("m1", 0)) is UnknownMember
    assert isinstance(bench.outcome(bench.join("m1", needs_id=True)), Joined)


def test_an_id_that_is_not_used_within_a_session_is_forgotten(bench: Bench) -> None:
    bench.join(needs_id=True)
    bench.pass_s(10.0)
    assert bench.problem(bench.join("m1")) is UnknownMember
    assert bench.group.is_idle


def test_a_rebalance_waits_for_ids_that_were_given_out(bench: Bench) -> None:
    (first,) = bench.stable()
    bench.join(needs_id=True)
    new = bench.join()
    again = bench.join(first)
    assert again not in bench.answers
    bench.pass_s(10.0)
    assert bench.outcome(again).generation == bench.outcome(new).generation == 2


@pytest.mark.parametrize("session_s", [0.0, 5.999, 1800.001, -1.0])
def test_a_session_timeout_has_bounds(bench: Bench, session_s: float) -> None:
    assert bench.problem(bench.join(session_timeout_s=session_s)) is InvalidSessionTimeout
    assert bench.group.is_idle


@pytest.mark.parametrize(
    "other",
    [
        {"protocol_type": "connect"},
        {"protocols": {"sticky": b""}},
        {"protocols": {}},
        {"protocol_type": ""},
    ],
)
def test_members_speak_a_common_protocol(bench: Bench, other: dict[str, Any]) -> None:
    bench.stable()
    assert bench.problem(bench.join(**other)) is InconsistentProtocol
    assert bench.group.state is GroupState.STABLE


def test_the_protocol_most_members_prefer_is_chosen_among_those_all_speak(bench: Bench) -> None:
    first = bench.join(protocols={"a": b"", "b": b"", "c": b""})
    second = bench.join(protocols={"c": b"", "b": b""})
    third = bench.join(protocols={"x": b"", "c": b"", "b": b""})
    bench.join("m1", protocols={"a": b"", "b": b"", "c": b""})
    assert first in bench.answers
    assert bench.outcome(second).protocol == bench.outcome(third).protocol == "c"


def test_the_member_that_makes_a_group_too_large_is_refused() -> None:
    bench = Bench(GroupRules(initial_delay_s=0.0, most_group_bytes=2500))
    kilobyte = {"range": bytes(1000)}
    first, second = bench.join(protocols=kilobyte), bench.join(protocols=kilobyte)
    assert bench.problem(bench.join(protocols=kilobyte)) is GroupFull
    bench.join("m1", protocols=kilobyte)  # what it said before does not count twice
    assert bench.outcome(first).generation == 1
    assert bench.outcome(second).generation == 2


def test_a_group_has_so_many_members_and_no_more(bench: Bench) -> None:
    names = bench.stable(4)
    bench.join(needs_id=True)  # an id given out counts
    assert bench.problem(bench.join()) is GroupFull
    assert bench.problem(bench.join("unknown")) is UnknownMember
    bench.join(names[0], protocols={"range": b"new"})
    assert bench.group.state is GroupState.PREPARING


def test_what_a_member_says_about_itself_has_a_limit(bench: Bench) -> None:
    assert bench.problem(bench.join(protocols={"range": b"x" * 996})) is InvalidRequest
    assert isinstance(bench.outcome(bench.join(protocols={"range": b"x" * 995})), Joined)


def test_a_follower_that_joins_again_unchanged_gets_its_place_without_a_rebalance(
    bench: Bench,
) -> None:
    leader, follower = bench.stable(2)
    assert bench.outcome(bench.join(follower)).generation == 2
    assert bench.group.state is GroupState.STABLE
    bench.join(follower, protocols={"range": b"changed"})
    assert bench.group.state is GroupState.PREPARING
    assert bench.problem(bench.heartbeat(leader, 2)) is RebalanceInProgress


def test_a_leader_that_joins_again_wants_a_rebalance(bench: Bench) -> None:
    leader, _ = bench.stable(2)
    bench.join(leader)
    assert bench.group.state is GroupState.PREPARING


def test_an_answer_that_was_lost_is_given_again(bench: Bench) -> None:
    first = bench.join()
    again = bench.join("m1")
    assert bench.outcome(again) == bench.outcome(first)


def test_of_two_joins_of_one_member_the_later_one_counts(bench: Bench) -> None:
    (first,) = bench.stable()
    lost = bench.join(session_timeout_s=10.0)
    bench.join(f"m{lost}")
    assert bench.problem(lost) is RebalanceInProgress
    bench.join(first)
    assert bench.group.generation == 2


# -- syncing -------------------------------------------------------------------------------------


def test_everyone_gets_what_the_leader_says_byte_for_byte(bench: Bench) -> None:
    leader, follower = bench.stable(2)
    bench.join(leader)
    bench.join(follower)
    waiting = bench.sync(follower, 3)
    assert waiting not in bench.answers
    own = bench.sync(leader, 3, assignments={leader: b"\x00\xff", follower: b"", "else": b"x"})
    assert bench.outcome(own) == Synced("consumer", "range", b"\x00\xff")
    assert bench.outcome(waiting) == Synced("consumer", "range", b"")
    assert bench.outcome(bench.sync(leader, 3)).assignment == b"\x00\xff"
    assert {row.member_id: row.assignment for row in bench.saved[-1].members} == {
        leader: b"\x00\xff",
        follower: b"",
    }


def test_a_leader_that_never_assigns_is_removed_and_no_member_waits_for_it(bench: Bench) -> None:
    bench.join()
    follower = f"m{bench.join()}"
    bench.join("m1")
    waiting = bench.sync(follower, 2)
    for _ in range(20):
        bench.pass_s(3.0)
        if waiting in bench.answers:
            break
        assert bench.outcome(bench.heartbeat("m1", 2)) == Accepted()
    assert bench.problem(waiting) is RebalanceInProgress
    assert bench.problem(bench.heartbeat("m1", 2)) is UnknownMember
    assert bench.outcome(bench.join(follower)).leader == follower


def test_a_rebalance_sends_those_who_wait_for_an_assignment_back(bench: Bench) -> None:
    bench.join()
    follower = f"m{bench.join()}"
    bench.join("m1")
    waiting = bench.sync(follower, 2)
    bench.join()
    assert bench.problem(waiting) is RebalanceInProgress
    assert bench.problem(bench.sync(follower, 2)) is RebalanceInProgress


@pytest.mark.parametrize("wrong", [{"protocol": "sticky"}, {"protocol_type": "connect"}])
def test_a_sync_names_the_right_protocol(bench: Bench, wrong: dict[str, Any]) -> None:
    bench.join()
    assert bench.problem(bench.sync("m1", 1, **wrong)) is InconsistentProtocol
    call = bench.sync("m1", 1, protocol="range", protocol_type="consumer")
    assert isinstance(bench.outcome(call), Synced)


# -- living and leaving --------------------------------------------------------------------------


def test_generation_and_member_are_checked(bench: Bench) -> None:
    (first,) = bench.stable()
    for ask in (bench.heartbeat, bench.sync, bench.commit):
        assert bench.problem(ask(first, 2)) is IllegalGeneration
        assert bench.problem(ask("unknown", 1)) is UnknownMember
        assert bench.problem(ask(first, 1, instance_id="unknown")) is UnknownMember


def test_a_silent_member_is_removed_when_its_session_is_over(bench: Bench) -> None:
    leader, follower = bench.stable(2)
    bench.pass_s(9.0)
    bench.heartbeat(leader, 2)
    bench.pass_s(1.0)
    assert bench.problem(bench.heartbeat(follower, 2)) is UnknownMember
    assert bench.problem(bench.heartbeat(leader, 2)) is RebalanceInProgress
    assert bench.outcome(bench.join(leader)).generation == 3


def test_the_last_one_leaves_an_empty_group_of_the_next_generation(bench: Bench) -> None:
    (first,) = bench.stable()
    assert bench.outcome(bench.leave((first, None))) == Left((None,))
    assert bench.group.state is GroupState.EMPTY
    assert bench.saved[-1].members == ()
    assert bench.saved[-1].generation == 2
    assert bench.outcome(bench.join(protocol_type="connect")).generation == 3


def test_several_leave_at_once_each_with_an_answer(bench: Bench) -> None:
    first, second = bench.stable(2)
    pending = bench.join(needs_id=True)
    left = bench.outcome(
        bench.leave((second, None), ("unknown", None), (f"m{pending}", None), ("", "unknown"))
    )
    assert [type(problem) for problem in left.problems] == [
        type(None),
        UnknownMember,
        type(None),
        UnknownMember,
    ]
    assert bench.outcome(bench.join(first)).members == (Subscriber(first, None, b"sub"),)


def test_who_leaves_while_joining_is_told(bench: Bench) -> None:
    bench.stable()
    waiting = bench.join()
    bench.leave((f"m{waiting}", None))
    assert bench.problem(waiting) is UnknownMember


# -- commits -------------------------------------------------------------------------------------


def test_members_commit_and_others_only_when_there_are_none(bench: Bench) -> None:
    assert bench.outcome(bench.commit("", -1)) == Accepted()
    assert bench.problem(bench.commit("unknown", 1)) is IllegalGeneration
    first = bench.outcome(bench.join()).member_id
    assert bench.problem(bench.commit(first, 1)) is RebalanceInProgress
    bench.sync(first, 1)
    assert bench.outcome(bench.commit(first, 1)) == Accepted()
    assert bench.problem(bench.commit("", -1)) is UnknownMember
    bench.join()  # the others may still commit what they have before they join again
    assert bench.outcome(bench.commit(first, 1)) == Accepted()
    bench.pass_s(100.0)
    assert bench.outcome(bench.commit("", -1)) == Accepted()
    assert bench.problem(bench.commit(first, 1)) is UnknownMember


def test_a_commit_is_a_sign_of_life(bench: Bench) -> None:
    (first,) = bench.stable()
    for _ in range(4):
        bench.pass_s(9.0)
        assert bench.outcome(bench.commit(first, 1)) == Accepted()


# -- static members ------------------------------------------------------------------------------


def test_a_static_follower_comes_back_without_a_rebalance(bench: Bench) -> None:
    leader = f"m{bench.join()}"
    old = f"m{bench.join(instance_id='i')}"
    bench.join(leader)
    bench.sync(leader, 2, assignments={old: b"mine"})
    call = bench.join(instance_id="i", needs_id=True)
    new = bench.outcome(call).member_id
    assert bench.outcome(call) == Joined(new, 2, "consumer", "range", leader)
    assert new != old
    assert bench.group.state is GroupState.STABLE
    assert bench.outcome(bench.sync(new, 2, instance_id="i")).assignment == b"mine"
    assert {row.member_id for row in bench.saved[-1].members} == {leader, new}
    for ask in (bench.heartbeat, bench.sync, bench.commit):
        assert bench.problem(ask(old, 2, instance_id="i")) is FencedInstance
        assert bench.problem(ask(old, 2)) is UnknownMember
    assert bench.problem(bench.join(old, instance_id="i")) is FencedInstance


@pytest.mark.parametrize("can_skip", [True, False])
def test_a_static_leader_that_comes_back_has_nothing_to_assign(
    bench: Bench, can_skip: bool
) -> None:
    old = f"m{bench.join(instance_id='i')}"
    bench.sync(old, 1, assignments={old: b"mine"})
    call = bench.join(instance_id="i", can_skip=can_skip)
    new = bench.outcome(call).member_id
    assert bench.outcome(call).leader == (new if can_skip else old)
    assert bench.outcome(call).skip_assignment is can_skip
    assert len(bench.outcome(call).members) == can_skip
    assert bench.outcome(bench.sync(new, 1, instance_id="i")).assignment == b"mine"


def test_a_static_member_with_other_preferences_causes_a_rebalance(bench: Bench) -> None:
    both = {"a": b"", "b": b""}
    bench.join(instance_id="i", protocols=both)
    bench.sync("m1", 1)
    call = bench.join(instance_id="i", protocols={"b": b"", "a": b""})
    assert bench.outcome(call).generation == 2
    assert bench.outcome(call).protocol == "b"


def test_a_static_member_that_is_away_keeps_its_place_for_a_session(bench: Bench) -> None:
    bench.join(instance_id="i", session_timeout_s=500.0, rebalance_timeout_s=5.0)
    bench.sync("m1", 1)
    waiting = bench.join(rebalance_timeout_s=5.0)
    bench.pass_s(5.0)
    assert [row.member_id for row in bench.outcome(waiting).members] == ["m1", f"m{waiting}"]


def test_a_static_member_taken_over_while_it_waits_is_fenced(bench: Bench) -> None:
    bench.stable()
    waiting = bench.join(instance_id="i")
    bench.join(instance_id="i")
    assert bench.problem(waiting) is FencedInstance
    assert bench.outcome(waiting).member_id == f"m{waiting}"


def test_a_static_member_is_sent_away_by_its_name(bench: Bench) -> None:
    bench.join(instance_id="i")
    assert bench.outcome(bench.leave(("", "i"))) == Left((None,))
    assert bench.group.state is GroupState.EMPTY


# -- restarting and deleting ---------------------------------------------------------------------


def test_what_was_saved_goes_on_in_the_same_generation(bench: Bench) -> None:
    leader, follower = bench.stable(2)
    group = ClassicGroup.restored(RULES, bench.saved[-1], bench.now_s)
    bench.group = group
    assert bench.outcome(bench.heartbeat(leader, 2)) == Accepted()
    assert bench.outcome(bench.commit(follower, 2)) == Accepted()
    assert bench.group.roster.leader == leader
    bench.pass_s(10.0)
    assert bench.group.state is GroupState.EMPTY


def test_only_an_empty_group_can_be_deleted(bench: Bench) -> None:
    (first,) = bench.stable()
    bench.handle(Delete(call=100))
    assert bench.problem(100) is GroupNotEmpty
    bench.leave((first, None))
    bench.handle(Delete(call=101))
    assert bench.outcome(101) == Accepted()
    assert bench.problem(bench.join(protocols=RANGE)) is GroupIsGoing
