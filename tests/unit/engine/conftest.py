"""An engine to try things on."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.engine.shop import Shop


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with Shop() as opened:
        yield opened
