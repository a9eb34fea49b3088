"""One operator leads; another one takes over when it is silent, and only then."""

import pytest

from kafscale.operator.kube.errors import KubeError
from kafscale.operator.kube.lease import DURATION_S, Election, LeaseLost
from kafscale.testing.clock import ManualClock
from tests.unit.operator.fake_kube import FakeKube


class Candidates:
    """Two candidates on one server, and the clock of both."""

    def __init__(self) -> None:
        self.kube, self.clock = FakeKube(), ManualClock()
        self.first = Election(self.kube, self.clock, "system", "first")
        self.second = Election(self.kube, self.clock, "system", "second")

    def holder(self) -> str:
        (record,) = self.kube.objects.values()
        name: str = record["spec"]["holderIdentity"]
        return name


async def test_the_first_candidate_leads_and_the_second_waits() -> None:
    both = Candidates()
    assert await both.first._try()
    assert not await both.second._try()
    assert both.holder() == "first"


async def test_a_silent_leader_is_replaced_after_its_time_and_not_before() -> None:
    both = Candidates()
    await both.first._try()
    assert not await both.second._try()
    both.clock.advance_ms((DURATION_S - 1) * 1000)
    assert not await both.second._try()
    both.clock.advance_ms(1000)
    assert await both.second._try()
    assert both.holder() == "second"
    assert not await both.first._try()


async def test_a_leader_that_renews_is_not_replaced() -> None:
    both = Candidates()
    await both.first._try()
    for _ in range(10):
        both.clock.advance_ms(5000)
        assert await both.first._try()
        assert not await both.second._try()


async def test_a_leader_that_goes_leaves_its_place_at_once() -> None:
    both = Candidates()
    await both.first.win()
    await both.first.release()
    assert await both.second._try()


async def test_a_leader_without_the_server_gives_up_before_another_may_begin() -> None:
    both = Candidates()
    await both.first.win()
    both.kube.fail = KubeError("away")
    began = both.clock.elapsed_s()
    real_try = both.first._try

    async def slow_try() -> bool:
        both.clock.advance_ms(5000)
        return await real_try()

    both.first._try = slow_try  # type: ignore[method-assign]
    with pytest.raises(LeaseLost):
        await both.first.hold()
    assert both.clock.elapsed_s() - began < DURATION_S
    assert not both.first.is_leader


async def test_a_leader_whose_work_is_stuck_leads_no_longer() -> None:
    kube, clock = FakeKube(), ManualClock()
    election = Election(kube, clock, "system", "first", is_alive=lambda: False)
    await election.win()
    with pytest.raises(LeaseLost, match="work has stopped"):
        await election.hold()
    assert not election.is_leader
