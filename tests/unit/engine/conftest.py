"""An engine to try things on."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.engine.fleet_harness import FleetHarness


@pytest.fixture
async def harness() -> AsyncIterator[EngineHarness]:
    async with EngineHarness() as opened:
        yield opened


@pytest.fixture
async def fleet() -> AsyncIterator[FleetHarness]:
    async with FleetHarness() as opened:
        yield opened
