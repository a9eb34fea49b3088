"""When a lease is surely ours, and when it is lost, by clocks the test holds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kafscale.metadata.lease import Lease, LeaseId
from kafscale.model.clock import moment
from kafscale.model.errors import MetadataUnavailable
from kafscale.testing.clock import ManualClock

TTL_S = 0.06  # real time passes between two renewals: a third of this


class Lender:
    """Renews as told, and counts."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lease = Lease(LeaseId(7), TTL_S, self.clock, moment(self.clock))
        self.renewals = 0
        self.revoked = 0
        self.answer: Callable[[], Awaitable[bool]] = self.yes

    async def yes(self) -> bool:
        return True

    async def no(self) -> bool:
        return False

    async def silence(self) -> bool:
        raise MetadataUnavailable("planned")

    async def renew(self) -> bool:
        self.renewals += 1
        return await self.answer()

    async def revoke(self) -> None:
        self.revoked += 1

    async def next_renewals(self, count: int) -> None:
        wanted = self.renewals + count
        while self.renewals < wanted:
            await asyncio.sleep(0.001)


@pytest.fixture
async def lender() -> AsyncIterator[Lender]:
    lender = Lender()
    lender.lease.keep(lender.renew, lender.revoke)
    yield lender
    await lender.lease.revoke()


async def test_time_is_counted_from_before_the_renewal_was_asked_for(lender: Lender) -> None:
    async def slow() -> bool:
        lender.clock.advance_ms(20)
        return True

    lender.answer = slow
    await lender.next_renewals(2)
    assert lender.lease.remaining_s() <= TTL_S - 0.02
    assert lender.lease.remaining_s() > 0


async def test_it_is_lost_when_the_store_says_so(lender: Lender) -> None:
    lender.answer = lender.no
    await lender.lease.lost()
    assert lender.lease.remaining_s() == 0


async def test_a_lease_is_over_by_the_clock_before_the_store_says_so(lender: Lender) -> None:
    lender.clock.advance_ms(TTL_S * 1000)
    assert lender.lease.remaining_s() == 0
    await lender.lease.lost()


async def test_a_wall_clock_that_jumped_shows_that_the_machine_stood_still(lender: Lender) -> None:
    lender.clock.set_wall_ms(lender.clock.now_ms() + 1000)
    assert lender.lease.remaining_s() == 0


async def test_silence_is_borne_until_the_deadline(lender: Lender) -> None:
    lender.answer = lender.silence
    await lender.next_renewals(3)
    assert lender.lease.remaining_s() > 0
    lender.answer = lender.yes
    await lender.next_renewals(2)
    lender.clock.advance_ms(TTL_S * 1000 / 2)
    assert lender.lease.remaining_s() > 0


async def test_an_answer_that_comes_too_late_brings_nothing_back(lender: Lender) -> None:
    async def late() -> bool:
        lender.clock.advance_ms(TTL_S * 1000)
        return True

    lender.answer = late
    await lender.lease.lost()
    assert lender.lease.remaining_s() == 0


async def test_a_lost_lease_is_given_back_once(lender: Lender) -> None:
    lender.answer = lender.no
    await lender.lease.lost()
    await lender.lease.revoke()
    await lender.lease.revoke()
    assert lender.revoked == 1


async def test_giving_up_does_not_wait_for_a_store_that_is_away() -> None:
    lender = Lender()

    async def fail() -> None:
        raise MetadataUnavailable("planned")

    lender.lease.keep(lender.renew, fail)
    await lender.lease.revoke()
    assert lender.lease.remaining_s() == 0
