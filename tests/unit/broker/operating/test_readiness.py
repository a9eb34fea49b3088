"""When a broker is not ready for clients."""

import asyncio
from pathlib import Path

import pytest

from kafscale.broker.operating.readiness import (
    FRESH_S,
    UNREACHABLE_S,
    Readiness,
    metadata_check,
    store_check,
)
from kafscale.engine.partitions.store_gate import StoreGate
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.instrumented import InstrumentedMetadata
from kafscale.metadata.store import Entry
from kafscale.model.errors import MetadataUnavailable
from kafscale.objects.health import HealthWindow
from kafscale.testing.clock import ManualClock


class Moody(EmbeddedMetadataStore):
    """Answers, fails or hangs, as told."""

    mood = "fine"
    asked = 0

    async def get(self, key: str) -> Entry | None:
        self.asked += 1
        if self.mood == "away":
            raise MetadataUnavailable("no answer")
        if self.mood == "hung":
            await asyncio.Event().wait()
        return await super().get(key)


async def test_checks_are_asked_by_name_in_order() -> None:
    async def well() -> str | None:
        return None

    async def sick() -> str | None:
        return "has a cold"

    readiness = Readiness()
    readiness.add("a", well)
    readiness.add("b", sick)
    assert list((await readiness.ask()).items()) == [("a", None), ("b", "has a cold")]
    with pytest.raises(ValueError, match="already"):
        readiness.add("a", well)


async def test_an_unavailable_store_is_a_reason_until_it_recovers() -> None:
    clock, window = ManualClock(), HealthWindow()
    check = store_check(StoreGate(window, clock))
    assert await check() is None
    for _ in range(10):
        window.report(clock.elapsed_s(), 0.1, ok=False)
    assert await check() == "the object store is unavailable"
    clock.advance_ms(60_000)
    assert await check() is None


async def test_a_store_that_cannot_be_written_is_a_reason_with_its_cause() -> None:
    clock, window = ManualClock(), HealthWindow()
    check = store_check(StoreGate(window, clock))
    for _ in range(2):
        window.report_write(clock.elapsed_s(), "No space left on device")
        clock.advance_ms(2000)
    assert await check() == "the object store cannot be written: No space left on device"
    window.report_write(clock.elapsed_s(), "")
    assert await check() is None


@pytest.mark.parametrize("mood", ["away", "hung"])
async def test_metadata_that_has_been_silent_for_long_is_a_reason(
    mood: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafscale.broker.operating.readiness.PATIENCE_S", 0.05)
    clock = ManualClock()
    inner = Moody(tmp_path / "m.db", "OFF", clock)
    store = InstrumentedMetadata(inner, lambda *_report: None, clock)
    check = metadata_check(store)
    clock.advance_ms(int(UNREACHABLE_S * 1000))
    assert await check() is None
    assert inner.asked == 1  # the store had been silent because the broker had not asked
    clock.advance_ms(int(FRESH_S * 1000) - 1)
    assert await check() is None
    assert inner.asked == 1  # its last answer was fresh enough
    inner.mood = mood
    clock.advance_ms(1)
    assert await check() is None  # a short silence does not count
    clock.advance_ms(int((UNREACHABLE_S - FRESH_S) * 1000))
    assert await check() == "the metadata store has not answered for 10 s"
    inner.mood = "fine"
    assert await check() is None
    await store.aclose()
