"""Review: how long producers have to wait."""

import asyncio
import time

import msgspec

from kafscale.log import survey
from kafscale.testing.in_process import FOR_TESTS
from tests.unit.engine.shop import Shop
from tests.unit.engine.test_administration import adding


async def sealed_s(shop: Shop, names: list[str]) -> dict[str, float]:
    """For how long each topic takes no records."""
    since: dict[str, float] = {}
    took: dict[str, float] = {}
    async with asyncio.timeout(120):
        while len(took) < len(names):
            for name in names:
                moving = shop.engine.topics.get(name).descriptor.moving
                if moving is not None and moving.sealing:
                    since.setdefault(name, time.monotonic())
                elif moving is None and name not in took:
                    took[name] = time.monotonic() - since.get(name, time.monotonic())
            await asyncio.sleep(0.01)
    return took


async def test_many_partitions_wait_no_longer_than_one() -> None:
    storage = msgspec.structs.replace(FOR_TESTS.storage, flush_interval_ms=500)
    async with Shop(msgspec.structs.replace(FOR_TESTS, storage=storage)) as shop:
        await shop.engine.create_topic("t", 20, {})
        await asyncio.gather(*(shop.append("t", b"x", partition=n) for n in range(20)))
        await shop.engine.admin.change_configs("t", adding("storage.placement", "shared"))
        took = await sealed_s(shop, ["t"])
        assert took["t"] < 3, took


async def test_many_topics_at_once_wait_no_longer_than_one(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    look = survey.snapshot

    async def far_away(store, folder):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0.2)  # three LISTs and a GET
        return await look(store, folder)

    monkeypatch.setattr(survey, "snapshot", far_away)
    names = [f"t{number}" for number in range(20)]
    async with Shop() as shop:
        for name in names:
            await shop.engine.create_topic(name, 1, {})
            await shop.append(name, b"x")
        for name in names:
            await shop.engine.admin.change_configs(name, adding("storage.placement", "shared"))
        took = await sealed_s(shop, names)
        assert max(took.values()) < 2, took


async def test_a_seal_that_expired_does_not_keep_a_topic_on_its_way(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """retention.ms=1000 to empty a topic, and then a move: housekeeping passes in between."""
    from kafscale.engine.moves import Moves

    seal = Moves._seal_ours

    async def and_expire(self, *args):  # type: ignore[no-untyped-def]
        await seal(self, *args)
        shop.clock.advance_ms(5_000)
        await shop.engine.housekeeping.tidy()

    monkeypatch.setattr(Moves, "_seal_ours", and_expire)
    async with Shop() as shop:
        await shop.engine.create_topic("t", 1, {"retention.ms": "1000"})
        await shop.append("t", b"x")
        await shop.engine.admin.change_configs("t", adding("storage.placement", "shared"))
        async with asyncio.timeout(5):
            while shop.engine.topics.get("t").descriptor.moving is not None:
                await asyncio.sleep(0.01)


async def test_many_partitions_and_a_clock_that_goes() -> None:
    storage = msgspec.structs.replace(FOR_TESTS.storage, flush_interval_ms=500)
    async with Shop(msgspec.structs.replace(FOR_TESTS, storage=storage)) as shop:

        async def tick() -> None:
            last = time.monotonic()
            while True:
                await asyncio.sleep(0.005)
                now = time.monotonic()
                shop.clock.advance_ms(int((now - last) * 1000))
                last += int((now - last) * 1000) / 1000

        ticking = asyncio.create_task(tick())
        await shop.engine.create_topic("t", 20, {})
        await asyncio.gather(*(shop.append("t", b"x", partition=n) for n in range(20)))
        await shop.engine.admin.change_configs("t", adding("storage.placement", "shared"))
        took = await sealed_s(shop, ["t"])
        ticking.cancel()
        assert took["t"] < 3, took
