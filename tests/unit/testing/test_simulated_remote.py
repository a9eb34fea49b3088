"""Lost answers, late deeds, cut lines: what the simulated stores do on purpose."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kafscale.metadata.store import Put
from kafscale.model.errors import (
    MetadataUnavailable,
    ObjectExists,
    ObjectMissing,
    StoreUnavailable,
)
from kafscale.testing.simulated.clock import SimulatedClock, wall_ms
from kafscale.testing.simulated.isolation import isolated
from kafscale.testing.simulated.loop import SimulatedLoop
from kafscale.testing.simulated.metadata import SimulatedEtcd, SimulatedMetadataStore
from kafscale.testing.simulated.remote import RemoteFaults
from kafscale.testing.simulated.store import SimulatedBucket, SimulatedObjectStore


def play(loop: SimulatedLoop, work: Coroutine[Any, Any, Any]) -> None:
    with isolated():
        try:
            loop.run_until_complete(work)
        finally:
            loop.close()


def bucket_with(loop: SimulatedLoop, **faults: float) -> SimulatedBucket:
    context = loop.world.context()
    return SimulatedBucket(lambda: wall_ms(loop.time()), 1, RemoteFaults(**faults), context)


async def test_a_failure_before_the_deed_leaves_nothing() -> None:
    bucket = SimulatedBucket(lambda: 0, 1, RemoteFaults(fail_chance=1.0))
    store = SimulatedObjectStore(bucket)
    with pytest.raises(StoreUnavailable):
        await store.put_new("a", [b"1"])
    with pytest.raises(ObjectMissing):
        await bucket.objects.read("a")


async def test_a_lost_answer_leaves_the_deed() -> None:
    bucket = SimulatedBucket(lambda: 0, 1, RemoteFaults(lost_answer_chance=1.0))
    store = SimulatedObjectStore(bucket)
    with pytest.raises(StoreUnavailable):
        await store.put_new("a", [b"1"])
    assert bytes(await bucket.objects.read("a")) == b"1"
    bucket.faults = RemoteFaults()
    with pytest.raises(ObjectExists):
        await store.put_new("a", [b"1"])


def test_a_late_deed_is_done_after_its_failure_was_told() -> None:
    loop = SimulatedLoop(1)

    async def world() -> None:
        bucket = bucket_with(loop, late_chance=1.0, latest_s=10.0, give_up_s=1.0)
        store = SimulatedObjectStore(bucket)
        with pytest.raises(StoreUnavailable):
            await store.put_new("a", [b"1"])
        with pytest.raises(ObjectMissing):
            await bucket.objects.read("a")
        await asyncio.sleep(11)
        assert bytes(await bucket.objects.read("a")) == b"1"

    play(loop, world())


def test_what_a_dead_process_has_sent_may_arrive_or_not() -> None:
    arrived = set()
    for seed in range(20):
        loop = SimulatedLoop(seed)

        async def world(loop: SimulatedLoop = loop, seed: int = seed) -> None:
            bucket = SimulatedBucket(
                lambda: 0, seed, RemoteFaults(latency_s=1.0), loop.world.context()
            )
            store = SimulatedObjectStore(bucket)
            process = loop.process("writer")
            process.start(store.put_new("a", [b"1"]))
            await asyncio.sleep(0.5)
            store.is_dead = True
            process.crash()
            await asyncio.sleep(5)
            arrived.add(len(await bucket.objects.find("")))

        play(loop, world())
    assert arrived == {0, 1}


def test_a_cut_line_fails_and_a_healed_one_does_not() -> None:
    loop = SimulatedLoop(1)

    async def world() -> None:
        store = SimulatedObjectStore(bucket_with(loop))
        store.is_cut = True
        with pytest.raises(StoreUnavailable):
            await store.put_new("a", [b"1"])
        store.is_cut = False
        await store.put_new("a", [b"1"])

    play(loop, world())


def test_a_late_commit_never_overtakes_a_later_one_of_the_same_store() -> None:
    for seed in range(10):
        loop = SimulatedLoop(seed)

        async def world(loop: SimulatedLoop = loop, seed: int = seed) -> None:
            faults = RemoteFaults(late_chance=1.0, latest_s=10.0, give_up_s=1.0)
            etcd = SimulatedEtcd(seed, faults, loop.world.context())
            store = SimulatedMetadataStore(etcd, SimulatedClock(loop.world))
            with pytest.raises(MetadataUnavailable):
                await store.commit([Put("/a", b"late")])
            etcd.faults = RemoteFaults()
            await store.commit([Put("/a", b"new")])
            await asyncio.sleep(20)
            entry = etcd.get("/a")
            assert entry is not None
            assert entry.value == b"new"

        play(loop, world())


def test_a_lease_that_is_not_renewed_runs_out_and_takes_its_keys_along() -> None:
    loop = SimulatedLoop(1)

    async def world() -> None:
        etcd = SimulatedEtcd(1, None, loop.world.context())
        process = loop.process("holder")
        store = SimulatedMetadataStore(etcd, SimulatedClock(process))
        lease = await process.start(store.lease(5.0))
        await process.start(store.commit([Put("/a", b"1", lease.id)]))
        await asyncio.sleep(60)
        assert etcd.get("/a") is not None
        process.crash()
        await asyncio.sleep(6)
        assert etcd.get("/a") is None

    play(loop, world())


def test_a_watcher_that_was_cut_off_hears_everything_afterwards() -> None:
    loop = SimulatedLoop(1)
    heard: list[int] = []

    async def world() -> None:
        etcd = SimulatedEtcd(1, None, loop.world.context())
        watching = SimulatedMetadataStore(etcd, SimulatedClock(loop.world))
        writing = SimulatedMetadataStore(etcd, SimulatedClock(loop.world))

        async def follow() -> None:
            async for news in watching.watch("/"):
                heard.append(news.version)  # noqa: PERF401 - it never ends

        task = loop.create_task(follow())
        await asyncio.sleep(1)
        watching.is_cut = True
        for _ in range(3):
            await writing.commit([Put("/a", b"1")])
        await asyncio.sleep(5)
        assert heard == [0]
        watching.is_cut = False
        await asyncio.sleep(5)
        assert heard == [0, 1, 2, 3]
        task.cancel()

    play(loop, world())
