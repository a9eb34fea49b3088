"""Quotas of a cluster: stored once, known to every broker, measured by each."""

import asyncio
from pathlib import Path

import pytest

from kafscale.access.quotas import EntityFilter, QuotaKey, entity_of
from kafscale.engine.access.quotas import Quotas
from kafscale.metadata import keys
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import Put
from kafscale.model.errors import InvalidRequest
from kafscale.testing.clock import ManualClock

ALICE = entity_of([("user", "al/ice=&"), ("client-id", None)])
BYTES = {QuotaKey.PRODUCED_BYTES: 1000.0}


def open_store(tmp_path: Path) -> EmbeddedMetadataStore:
    return EmbeddedMetadataStore(tmp_path / "metadata.db", "OFF", ManualClock())


async def test_quotas_survive_and_other_brokers_learn_of_them(tmp_path: Path) -> None:
    store, clock = open_store(tmp_path), ManualClock()
    first, second = Quotas(store, clock), Quotas(store, clock)
    await second.load()
    following = asyncio.get_running_loop().create_task(second.run())
    assert not second.limits_clients
    await first.alter(ALICE, BYTES)
    assert first.limits_clients, "the broker that wrote it knows at once"
    async with asyncio.timeout(10):
        while not second.limits_clients:
            await asyncio.sleep(0.01)
    meter = second.limits_of("al/ice=&", "any", 0.0).produced_bytes
    assert meter is not None
    assert meter.charge(11_000, 0.0) == pytest.approx(1.0)
    await first.alter(ALICE, {QuotaKey.PRODUCED_BYTES: None, QuotaKey.REQUEST_TIME: 50.0})
    async with asyncio.timeout(10):
        while not second.times_requests:
            await asyncio.sleep(0.01)
    assert second.limits_of("al/ice=&", "any", 0.0).produced_bytes is None
    following.cancel()
    third = Quotas(store, clock)
    await third.load()
    assert list(third.find([EntityFilter("user", is_any=True)], is_strict=False)) == [
        (ALICE, {QuotaKey.REQUEST_TIME: 50.0})
    ]
    await first.alter(ALICE, {QuotaKey.REQUEST_TIME: None})
    assert not first.limits_clients
    assert await store.find(keys.QUOTAS) == []
    await store.aclose()


async def test_a_wrong_quota_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    quotas = Quotas(store, ManualClock())
    with pytest.raises(InvalidRequest):
        await quotas.alter(ALICE, {**BYTES, QuotaKey.REQUEST_TIME: -1.0})
    await quotas.alter(ALICE, BYTES, only_check=True)
    assert await store.find(keys.QUOTAS) == []
    await store.aclose()


async def test_the_number_of_entities_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafscale.engine.access.quotas.MOST_ENTITIES", 2)
    store = open_store(tmp_path)
    quotas = Quotas(store, ManualClock())
    for name in ("a", "b"):
        await quotas.alter(entity_of([("user", name)]), BYTES)
    with pytest.raises(InvalidRequest):
        await quotas.alter(entity_of([("user", "c")]), BYTES)
    await quotas.alter(entity_of([("user", "a")]), {QuotaKey.REQUEST_TIME: 1.0})
    await quotas.alter(
        entity_of([("user", "a")]), {QuotaKey.REQUEST_TIME: None, QuotaKey.PRODUCED_BYTES: None}
    )
    await quotas.alter(entity_of([("user", "c")]), BYTES)
    await store.aclose()


async def test_a_damaged_row_is_no_quota_and_no_crash(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.commit([Put(f"{keys.QUOTAS}user=a", b'{"producer_byte_rate": "much"}')])
    quotas = Quotas(store, ManualClock())
    await quotas.load()
    assert not quotas.limits_clients
    await store.aclose()


async def test_an_address_that_connects_too_often_is_refused_until_time_passes(
    tmp_path: Path,
) -> None:
    store, clock = open_store(tmp_path), ManualClock()
    quotas = Quotas(store, clock)
    await quotas.alter(entity_of([("ip", None)]), {QuotaKey.CONNECTIONS: 2.0})
    assert quotas.limits_connections
    assert not quotas.limits_clients, "requests are not looked at for it"
    penalties = [quotas.charge_connection("10.0.0.1") for _ in range(25)]
    assert penalties.count(0.0) == 20
    assert 0 < penalties[-1] <= 1.0
    assert quotas.charge_connection("10.0.0.2") == 0
    clock.advance_ms(11_000)
    assert quotas.charge_connection("10.0.0.1") == 0
    await store.aclose()
