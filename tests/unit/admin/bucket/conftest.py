"""An engine that fills a bucket."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.engine.engine_harness import EngineHarness


@pytest.fixture
async def harness() -> AsyncIterator[EngineHarness]:
    async with EngineHarness() as opened:
        yield opened
