"""A seed is a run."""

from hypothesis import given
from hypothesis import strategies as st

from tests.faults import schedule
from tests.faults.nemesis import MANNERS
from tests.support.examples import examples


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    names = schedule.possible(3)
    one, again, other = (schedule.plan(seed, 300, names, 3, 3) for seed in (7, 7, 8))
    assert one == again
    assert one != other


@examples(50)
@given(st.integers(), st.floats(10, 400), st.integers(1, 5), st.sampled_from([1, 3]))
def test_a_plan_keeps_its_time_and_aims_at_what_is_there(
    seed: int, seconds: float, brokers: int, members: int
) -> None:
    steps = schedule.plan(seed, seconds, schedule.possible(members), brokers, members)
    first, *later = steps
    assert first.begins_s == schedule.FIRST_S
    for step in later:
        assert step.ends_s <= seconds + 0.01
    for step in steps:
        _, shortest_s, longest_s = schedule.FAULTS[step.name]
        assert shortest_s - 0.01 <= step.lasts_s <= longest_s + 0.01
        assert 0 <= step.target < (members if step.name in schedule.AT_A_MEMBER else brokers)


def test_a_long_plan_leaves_no_fault_out_and_has_some_at_once() -> None:
    steps = schedule.plan(1, 900, list(schedule.FAULTS), 3, 3)
    assert {step.name for step in steps} == set(schedule.FAULTS)
    assert len({step.begins_s for step in steps}) < len(steps)


def test_etcd_suffers_one_fault_at_a_time() -> None:
    for seed in range(20):
        steps = schedule.plan(seed, 600, list(schedule.FAULTS), 3, 3)
        at_etcd = [step.begins_s for step in steps if step.name.startswith("etcd-")]
        assert len(set(at_etcd)) == len(at_etcd)


def test_what_one_member_cannot_suffer_is_left_out() -> None:
    assert set(schedule.FAULTS) - set(schedule.possible(1)) == schedule.AT_A_MEMBER


def test_every_fault_at_the_bucket_has_its_manners() -> None:
    at_the_bucket = {name for name in schedule.FAULTS if name.startswith("s3-")} | {"cut-s3"}
    assert set(MANNERS) == at_the_bucket
