"""Fixtures for the log room. Its tests run in virtual time; files have the wall clock's time."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kafscale.objects.files import FileObjectStore
from kafscale.objects.memory import MemoryObjectStore
from tests.support.virtual_time import LoopFactories, virtual_unless_marked
from tests.unit.log.log_harness import LogHarness


def pytest_asyncio_loop_factories(item: pytest.Item) -> LoopFactories:
    return virtual_unless_marked(item)


@pytest.fixture
async def harness() -> AsyncIterator[LogHarness]:
    """A memory store that goes by the harness's own clock."""
    made = LogHarness(MemoryObjectStore)
    yield made
    await made.aclose()


@pytest.fixture
async def files_harness(tmp_path: Path) -> AsyncIterator[LogHarness]:
    """A harness on files, which have the wall clock's time."""
    made = LogHarness(lambda _now_ms: FileObjectStore(tmp_path))
    yield made
    await made.aclose()


@pytest.fixture(params=["memory", "files"])
async def any_harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LogHarness]:
    """A harness on either store."""
    on_files = request.param == "files"
    made = LogHarness(
        lambda now_ms: FileObjectStore(tmp_path) if on_files else MemoryObjectStore(now_ms)
    )
    yield made
    await made.aclose()
