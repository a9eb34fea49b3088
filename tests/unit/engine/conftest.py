"""An engine to try things on."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.engine.engine_harness import Shop
from tests.unit.engine.fleet_harness import Squad


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with Shop() as opened:
        yield opened


@pytest.fixture
async def squad() -> AsyncIterator[Squad]:
    async with Squad() as opened:
        yield opened
