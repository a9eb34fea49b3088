"""Groups change their type while their members run."""

import struct
from typing import Any

import pytest

from kafscale.groups.classic.events import Joined, Subscriber, Synced
from kafscale.groups.classic.machine import ClassicGroup
from kafscale.groups.classic.states import GroupState
from kafscale.groups.consumer.events import Beaten
from kafscale.groups.consumer.machine import ConsumerGroup
from kafscale.groups.events import Accepted, GroupOutcome, Rejected
from kafscale.model.errors import (
    FencedInstance,
    GroupIsRebalancing,
    GroupNotFound,
    IllegalGeneration,
    InconsistentProtocol,
    KafscaleError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
    UnsupportedAssignor,
)
from tests.unit.groups.consumer.bench import places
from tests.unit.groups.mixed_group import TOPIC, MixedBench, codec, numbers_of, subscription


def problem_of(outcome: GroupOutcome | None) -> type[KafscaleError]:
    assert isinstance(outcome, Rejected)
    return type(outcome.problem)


def joined(bench: MixedBench, call: int) -> Joined:
    outcome = bench.outcome(call)
    assert isinstance(outcome, Joined), outcome
    return outcome


def read_by(bench: MixedBench, call: int) -> set[int]:
    outcome = bench.outcome(call)
    assert isinstance(outcome, Synced), outcome
    return numbers_of(outcome.assignment)


def alone(bench: MixedBench, **more: Any) -> str:
    """A classic member that reads all four partitions."""
    member = joined(bench, bench.join(**more))
    assigned = codec.write_assignment([(TOPIC, [0, 1, 2, 3])])
    call = bench.sync(member.member_id, 1, assignments={member.member_id: assigned})
    assert read_by(bench, call) == {0, 1, 2, 3}
    return member.member_id


def test_a_classic_member_keeps_its_partitions_until_it_has_joined_again() -> None:
    bench = MixedBench()
    old = alone(bench)
    assert bench.beat("new") == Beaten("new", 2, 5.0, frozenset())
    assert bench.group_type == "consumer"
    assert bench.commit(old, 1) == Accepted()
    assert problem_of(bench.heartbeat(old, 1)) is RebalanceInProgress
    assert problem_of(bench.outcome(bench.sync(old, 1))) is RebalanceInProgress
    again = joined(bench, bench.join(old))
    assert again == Joined(old, 2, "consumer", "range", leader="")
    kept = read_by(bench, bench.sync(old, 2))
    assert len(kept) == 2
    assert bench.heartbeat(old, 2) == Accepted()
    rest = places(TOPIC, *({0, 1, 2, 3} - kept))
    assert bench.beat("new", 2) == Beaten("new", 2, 5.0, rest)
    assert problem_of(bench.commit(old, 1)) is IllegalGeneration


def test_a_cooperative_member_gives_up_partitions_before_another_gets_them() -> None:
    bench = MixedBench()
    reading = {"cooperative-sticky": subscription(range(4))}
    old = alone(bench, protocols={"cooperative-sticky": subscription()})
    bench.beat("new")
    assert problem_of(bench.heartbeat(old, 1)) is RebalanceInProgress
    assert joined(bench, bench.join(old, protocols=reading)).generation == 1
    kept = read_by(bench, bench.sync(old, 1))
    assert len(kept) == 2
    assert bench.beat("new", 2) == Beaten("new", 2, 5.0, frozenset())
    assert problem_of(bench.heartbeat(old, 1)) is RebalanceInProgress, "it has still to say so"
    given_up = {"cooperative-sticky": subscription(kept)}
    assert joined(bench, bench.join(old, protocols=given_up)).generation == 2
    assert read_by(bench, bench.sync(old, 2)) == kept
    rest = places(TOPIC, *({0, 1, 2, 3} - kept))
    assert bench.beat("new", 2) == Beaten("new", 2, 5.0, rest)


def test_partitions_that_a_member_may_not_have_given_up_yet_are_held_for_it() -> None:
    bench = MixedBench()
    member = joined(bench, bench.join(protocols={"range": subscription(range(4))})).member_id
    part = codec.write_assignment([(TOPIC, [0, 1])])
    bench.sync(member, 1, assignments={member: part})
    assert bench.beat("new") == Beaten("new", 2, 5.0, frozenset())
    assert bench.beat("new", 2) == Beaten("new", 2, 5.0, frozenset()), "it may read 2 and 3"
    bench.join(member, protocols={"range": subscription([0, 1])})
    assert bench.beat("new", 2) == Beaten("new", 2, 5.0, places(TOPIC, 2, 3))


def test_the_group_is_classic_again_when_the_last_newer_member_leaves() -> None:
    bench = MixedBench()
    old = alone(bench)
    bench.beat("new")
    bench.depart("new")
    assert bench.group_type == "classic"
    assert isinstance(bench.machine, ClassicGroup)
    assert bench.machine.state is GroupState.PREPARING
    assert bench.commit(old, 1) == Accepted(), "it may commit until it has joined again"
    assert problem_of(bench.heartbeat(old, 1)) is RebalanceInProgress
    again = joined(bench, bench.join(old))
    assert again.generation > 2
    assert again.leader == old
    assert again.members == (Subscriber(old, None, subscription()),)
    assert problem_of(bench.commit(old, 1)) is IllegalGeneration


def test_the_group_is_classic_again_when_the_session_of_the_last_newer_member_ends() -> None:
    bench = MixedBench()
    old = alone(bench, session_timeout_s=600.0)
    bench.beat("new")
    bench.pass_time(46)
    assert bench.group_type == "classic"
    assert problem_of(bench.heartbeat(old, 1)) is RebalanceInProgress


def test_a_classic_client_joins_a_group_of_newer_members() -> None:
    bench = MixedBench()
    bench.beat("new")
    asked = bench.outcome(bench.join(needs_id=True))
    assert problem_of(asked) is MemberIdRequired
    assert isinstance(asked, Rejected)
    member = joined(bench, bench.join(asked.member_id))
    assert read_by(bench, bench.sync(member.member_id, member.generation)) == set()
    assert bench.heartbeat(member.member_id, member.generation) == Accepted()
    kept = bench.beat("new", 1, places(TOPIC, 0, 1, 2, 3))
    assert isinstance(kept, Beaten)
    assert kept.assigned is not None
    bench.beat("new", 1, kept.assigned)
    outcome = bench.heartbeat(member.member_id, member.generation)
    assert problem_of(outcome) is RebalanceInProgress, "what it waited for is free"
    again = joined(bench, bench.join(member.member_id))
    assert read_by(bench, bench.sync(again.member_id, again.generation)) | {
        number for _, number in kept.assigned
    } == {0, 1, 2, 3}


def test_a_group_whose_members_are_joining_is_left_as_it_is() -> None:
    bench = MixedBench()
    alone(bench)
    bench.join(member="")
    assert problem_of(bench.beat("new")) is GroupIsRebalancing
    assert bench.group_type == "classic"


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": {"range": b"\0"}},
    ],
    ids=["no consumer", "not readable"],
)
def test_members_that_cannot_be_assigned_to_keep_their_group_classic(
    fields: dict[str, object],
) -> None:
    bench = MixedBench()
    alone(bench, **fields)
    assert problem_of(bench.beat("new")) is GroupNotFound
    assert bench.group_type == "classic"


def test_a_leader_that_tells_members_more_than_partitions_keeps_its_group_classic() -> None:
    bench = MixedBench()
    member = joined(bench, bench.join()).member_id
    told = codec.write_assignment([(TOPIC, [0])])[:-4] + struct.pack(">i5s", 5, b"tasks")
    bench.sync(member, 1, assignments={member: told})
    assert problem_of(bench.beat("new")) is GroupNotFound


def test_partitions_that_two_members_read_keep_a_group_classic() -> None:
    bench = MixedBench()
    first = bench.join()
    assert joined(bench, first)
    second = bench.join()
    member = joined(bench, first).member_id
    third = joined(bench, bench.join(member))
    other = joined(bench, second).member_id
    both = codec.write_assignment([(TOPIC, [0])])
    bench.sync(member, third.generation, assignments={member: both, other: both})
    assert problem_of(bench.beat("new")) is GroupNotFound


def test_a_newer_member_that_is_refused_changes_nothing() -> None:
    bench = MixedBench()
    old = alone(bench)
    saved = bench.saved
    assert problem_of(bench.beat("new", assignor="mine")) is UnsupportedAssignor
    assert bench.group_type == "classic"
    assert bench.heartbeat(old, 1) == Accepted()
    assert bench.saved is saved


def test_a_classic_client_of_another_protocol_is_refused() -> None:
    bench = MixedBench()
    bench.beat("new")
    bench.join()
    for fields in ({"protocol_type": "connect"}, {"protocol": "sticky"}):
        outcome = bench.outcome(bench.join(**fields))
        assert problem_of(outcome) is InconsistentProtocol


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions() -> None:
    bench = MixedBench()
    old = alone(bench, instance_id="i")
    back = bench.beat("new", instance_id="i")
    assert back == Beaten("new", 1, 5.0, places(TOPIC, 0, 1, 2, 3))
    assert problem_of(bench.heartbeat(old, 1, instance_id="i")) is FencedInstance


def test_a_classic_member_that_does_not_join_again_is_removed() -> None:
    bench = MixedBench()
    old = alone(bench)
    bench.beat("new")
    for _ in range(14):
        bench.heartbeat(old, 1)
        bench.beat("new", 2)
        bench.pass_time(5)
    assert problem_of(bench.heartbeat(old, 1)) is UnknownMember
    assert isinstance(bench.machine, ConsumerGroup)


def test_another_broker_goes_on_with_both_kinds_of_members() -> None:
    bench = MixedBench()
    old = alone(bench)
    bench.beat("new")
    bench.restart()
    assert isinstance(bench.machine, ConsumerGroup)
    assert problem_of(bench.heartbeat(old, 1)) is RebalanceInProgress
    assert joined(bench, bench.join(old)).generation == 2
    bench.depart("new")
    bench.restart()
    assert bench.group_type == "classic"
    assert problem_of(bench.heartbeat(old, 2)) is RebalanceInProgress


def test_members_of_a_group_that_went_back_find_it_by_joining() -> None:
    bench = MixedBench()
    alone(bench)
    assert problem_of(bench.beat("new", 7)) is UnknownMember
    assert problem_of(bench.depart("new")) is UnknownMember
