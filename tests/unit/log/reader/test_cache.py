import asyncio

import pytest
from structlog.testing import capture_logs

from kafscale.log.reader.cache import BoundedCounters, LoadingCache
from kafscale.model.errors import ObjectMissing
from kafscale.tasks import Tasks


def make(budget: int = 10) -> LoadingCache[bytes]:
    return LoadingCache(budget, len, Tasks())


async def test_a_value_is_loaded_once_however_many_ask() -> None:
    cache = make()
    release = asyncio.Event()
    loads = []

    async def load() -> bytes:
        loads.append(1)
        await release.wait()
        return b"abc"

    waiting = [asyncio.ensure_future(cache.get("k", load)) for _ in range(5)]
    await asyncio.sleep(0)
    assert "k" in cache
    assert cache.peek("k") is None
    release.set()
    assert await asyncio.gather(*waiting) == [b"abc"] * 5
    assert await cache.get("k", load) == b"abc"
    assert (len(loads), cache.misses, cache.hits, cache.used_bytes) == (1, 5, 1, 3)


async def test_the_one_who_asked_first_may_leave_without_failing_the_others() -> None:
    cache = make()
    release = asyncio.Event()

    async def load() -> bytes:
        await release.wait()
        return b"abc"

    first = asyncio.ensure_future(cache.get("k", load))
    second = asyncio.ensure_future(cache.get("k", load))
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    assert await second == b"abc"


async def test_a_failed_load_fails_everyone_is_not_kept_and_not_logged_twice() -> None:
    cache = make()

    async def fail() -> bytes:
        raise ObjectMissing("k")

    async def work() -> bytes:
        return b"abc"

    with capture_logs() as logged:
        for _ in range(2):
            with pytest.raises(ObjectMissing):
                await cache.get("k", fail)
        await asyncio.sleep(0)
    assert logged == []
    assert "k" not in cache
    assert await cache.get("k", work) == b"abc"


async def test_the_least_used_leave_when_room_is_needed() -> None:
    cache = make(10)
    for key in ("a", "b", "c"):
        cache.put(key, b"123")
    assert cache.peek("a") == b"123"
    cache.put("d", b"123")
    assert [key for key in "abcd" if key in cache] == ["a", "c", "d"]
    assert cache.used_bytes == 9


async def test_what_is_larger_than_the_budget_is_not_kept() -> None:
    cache = make(10)
    cache.put("a", b"123")
    cache.put("b", b"x" * 11)
    assert cache.peek("b") is None
    assert cache.peek("a") == b"123"


async def test_a_value_put_again_or_dropped_is_counted_once() -> None:
    cache = make(10)
    cache.put("a", b"123")
    cache.put("a", b"12345")
    assert cache.used_bytes == 5
    cache.drop("a")
    cache.drop("a")
    assert cache.used_bytes == 0


def test_the_last_numbers_are_remembered_and_the_oldest_forgotten() -> None:
    recent: BoundedCounters[str] = BoundedCounters(2)
    recent.put("a", 1)
    recent.put("b", 2)
    recent.put("a", 3)
    recent.put("c", 4)
    assert [recent.get(key) for key in "abc"] == [3, None, 4]
