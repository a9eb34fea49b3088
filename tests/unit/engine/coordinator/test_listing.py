"""Going through all groups, page by page."""

import asyncio

import pytest

from kafscale.engine.coordinator import listing
from kafscale.metadata import keys
from kafscale.metadata.store import Put
from tests.unit.engine.engine_harness import EngineHarness

STRANGE = [f"{keys.CONSUMERS}%zz{number}/x" for number in range(5)]  # the broker writes no name so


async def test_each_group_comes_once_whatever_lies_between_them(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that none of us wrote do not hold it up."""
    monkeypatch.setattr(listing, "_PAGE", 2)
    names = ["%", "a", "b", "z"]
    ours = [
        key for name in names for key in (keys.group_coordinator(name), keys.group_metadata(name))
    ]
    await harness.metadata.commit([Put(key, b"{}") for key in [*ours, *STRANGE]])
    async with asyncio.timeout(20):
        found = [name async for name in listing.each_group(harness.metadata)]
        stored = await listing.stored_groups(harness.metadata)
    assert [name for name in found if name in names] == names
    assert [name for name in stored if name in names] == names
