"""What the instrumented metadata store reports."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.instrumented import InstrumentedMetadata
from kafscale.metadata.store import Compare, Entry, Put
from kafscale.model.errors import MetadataConflict, MetadataUnavailable
from kafscale.testing.clock import ManualClock

Reports = list[tuple[str, float, str]]


class Slow(EmbeddedMetadataStore):
    """Takes a quarter of a second by the test's clock, and may fail after it."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        super().__init__(path, "OFF", clock)
        self.clock = clock
        self.fails = False
        self.hangs = False

    async def get(self, key: str) -> Entry | None:
        self.clock.advance_ms(250)
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise MetadataUnavailable("away")
        return await super().get(key)


@pytest.fixture
async def inner(tmp_path: Path) -> AsyncIterator[Slow]:
    store = Slow(tmp_path / "m.db", ManualClock())
    yield store
    await store.aclose()


async def test_every_call_is_reported_with_its_result(inner: Slow) -> None:
    reports: Reports = []
    store = InstrumentedMetadata(inner, lambda *report: reports.append(report), inner.clock)
    await store.commit([Put("a", b"1")])
    with pytest.raises(MetadataConflict):
        await store.commit([Put("a", b"2")], [Compare("a", 0)])
    found = await store.get("a")
    assert found is not None
    assert found.value == b"1"
    assert [entry.key for entry in await store.find("", after="", limit=5)] == ["a"]
    inner.fails = True
    with pytest.raises(MetadataUnavailable):
        await store.get("a")
    await (await store.lease(5)).revoke()
    assert reports == [
        ("commit", 0.0, "success"),
        ("commit", 0.0, "conflict"),
        ("get", 0.25, "success"),
        ("find", 0.0, "success"),
        ("get", 0.25, "error"),
        ("lease", 0.0, "success"),
    ]


async def test_silence_is_counted_from_the_last_answer(inner: Slow) -> None:
    store = InstrumentedMetadata(inner, lambda *_report: None, inner.clock)
    inner.clock.advance_ms(3000)
    assert store.silent_s() == 3.0
    inner.fails = True
    with pytest.raises(MetadataUnavailable):
        await store.get("a")
    assert store.silent_s() == 3.25
    inner.fails = False
    await store.get("a")
    assert store.silent_s() == 0.0


async def test_a_cancelled_call_says_nothing(inner: Slow) -> None:
    reports: Reports = []
    store = InstrumentedMetadata(inner, lambda *report: reports.append(report), inner.clock)
    inner.hangs = True
    asking = asyncio.ensure_future(store.get("a"))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert reports == []


async def test_watching_passes_through(inner: Slow) -> None:
    store = InstrumentedMetadata(inner, lambda *_report: None, inner.clock)
    await store.commit([Put("a", b"1")])
    watch = store.watch("")
    listing = await anext(watch)
    assert [entry.key for entry in getattr(listing, "entries", [])] == ["a"]
    await watch.aclose()
