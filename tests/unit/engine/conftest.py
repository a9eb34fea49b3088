"""An engine to try things on. It lives in virtual time: leases and pauses end without sleeping."""

from collections.abc import AsyncIterator

import pytest

from tests.support.virtual_time import LoopFactories, virtual_unless_marked
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.engine.fleet_harness import FleetHarness


def pytest_asyncio_loop_factories(item: pytest.Item) -> LoopFactories:
    return virtual_unless_marked(item)


@pytest.fixture
async def harness() -> AsyncIterator[EngineHarness]:
    async with EngineHarness() as opened:
        yield opened


@pytest.fixture
async def fleet() -> AsyncIterator[FleetHarness]:
    async with FleetHarness() as opened:
        yield opened
