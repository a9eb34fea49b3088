"""Fixtures for the log room."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kafscale.log.protocol import commits
from kafscale.objects.files import FileObjectStore
from kafscale.objects.memory import MemoryObjectStore
from kafscale.retry import RetryPolicy
from tests.unit.log.log_harness import LogHarness


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails is asked again at once."""
    monkeypatch.setattr(commits, "RETRY", RetryPolicy(0.0, 0.0))


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
