"""A broker in memory and a connection to it."""

from collections.abc import AsyncIterator

import pytest

from kafscale.testing.clock import ManualClock
from kafscale.testing.in_process import InProcessBroker
from tests.unit.gateways.kafka.caller import NOW_MS, Caller


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
async def broker(clock: ManualClock) -> AsyncIterator[InProcessBroker]:
    async with InProcessBroker(clock=clock) as started:
        yield started


@pytest.fixture
async def caller(broker: InProcessBroker) -> AsyncIterator[Caller]:
    async with Caller(broker.port) as connected:
        yield connected
