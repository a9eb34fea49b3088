"""What the instrumented store reports."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import pytest

from kafscale.model.buffers import Buffer
from kafscale.model.errors import ObjectExists, ObjectMissing, StoreUnavailable
from kafscale.objects.health import Health, HealthWindow
from kafscale.objects.instrumented import InstrumentedStore
from kafscale.objects.memory import MemoryObjectStore
from kafscale.objects.store import OnRequest
from kafscale.testing.clock import ManualClock
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule

Report = tuple[str, str, float, int, bool]


def instrumented(
    plan: FaultPlan | None = None,
) -> tuple[InstrumentedStore, list[Report], ManualClock]:
    reports: list[Report] = []
    clock = ManualClock()
    inner = FaultyObjectStore(MemoryObjectStore(), plan or FaultPlan())
    store = InstrumentedStore(
        inner, lambda *report: reports.append(report), lambda *_request: None, clock
    )
    return store, reports, clock


async def count(use: Callable[[InstrumentedStore], Awaitable[None]]) -> Counter[tuple[str, str]]:
    """The requests some use of a store in memory would need on a bucket."""
    requests: Counter[tuple[str, str]] = Counter()

    def on_request(request: str, key: str, number: int) -> None:
        requests[request, key] += number

    store = InstrumentedStore(MemoryObjectStore(), lambda *_report: None, on_request, ManualClock())
    await use(store)
    return requests


async def test_every_verb_is_reported_with_its_bytes() -> None:
    store, reports, _ = instrumented()
    await store.put_new("a/b", [b"123", b"45"])
    await store.read("a/b", 1, 2)
    await store.find("a")
    await store.delete(["a/b"])
    await store.now_ms()
    assert reports == [
        ("put", "a/b", 0.0, 5, True),
        ("get", "a/b", 0.0, 2, True),
        ("list", "a", 0.0, 0, True),
        ("delete", "a/b", 0.0, 0, True),
        ("time", "", 0.0, 0, True),
    ]


async def test_requests_are_those_a_bucket_would_need() -> None:
    async def use(store: InstrumentedStore) -> None:
        names = [f"a/{number:04d}" for number in range(2001)]
        for name in names:
            await store.put_new(name, [b"x"])
        await store.read("a/0000")
        with pytest.raises(ObjectMissing):
            await store.read("a/b")
        await store.find("a")
        await store.folders("")
        await store.now_ms()
        await store.delete(names[1:])
        await store.delete([])

    requests = await count(use)
    puts = sum(number for (request, key), number in requests.items() if request == "put" and key)
    assert puts == 2001
    assert {place: n for place, n in requests.items() if place[0] != "put" or not place[1]} == {
        ("get", "a/0000"): 1,
        ("get", "a/b"): 1,
        ("list", "a"): 3,
        ("list", ""): 1,
        ("put", ""): 1,
        ("head", ""): 1,
        ("delete", "a/0001"): 2,
    }


async def test_a_store_that_knows_its_requests_is_believed() -> None:
    class Chatty(MemoryObjectStore):
        on_request: OnRequest = staticmethod(lambda _request, _key, _count: None)

        async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
            self.on_request("put", key, 1)
            self.on_request("put", key, 1)
            await super().put_new(key, body)

    requests: list[tuple[str, str, int]] = []
    store = InstrumentedStore(
        Chatty(),
        lambda *_report: None,
        lambda request, key, number: requests.append((request, key, number)),
        ManualClock(),
    )
    await store.put_new("a/b", [b"1"])
    assert requests == [("put", "a/b", 1)] * 2


async def test_taken_and_missing_keys_are_answers_not_failures() -> None:
    store, reports, _ = instrumented()
    await store.put_new("a/b", [b"1"])
    with pytest.raises(ObjectExists):
        await store.put_new("a/b", [b"1"])
    with pytest.raises(ObjectMissing):
        await store.read("a/c")
    assert [ok for *_, ok in reports] == [True, True, True]


async def test_failures_of_every_verb_are_reported() -> None:
    plan = FaultPlan()
    plan.add(Rule(Fault.FAIL_BEFORE))
    store, reports, _ = instrumented(plan)
    for attempt in (
        store.put_new("a/b", [b"1"]),
        store.read("a/b"),
        store.find("a"),
        store.delete(["a/b"]),
        store.now_ms(),
    ):
        with pytest.raises(StoreUnavailable):
            await attempt
    assert [(operation, size, ok) for operation, _, _, size, ok in reports] == [
        (operation, 0, False) for operation in ("put", "get", "list", "delete", "time")
    ]


async def test_the_time_of_an_operation_is_what_the_clock_says() -> None:
    plan = FaultPlan()
    stall = plan.add(Rule(Fault.STALL_BEFORE, verb="put_new"))
    store, reports, clock = instrumented(plan)
    putting = asyncio.ensure_future(store.put_new("a/b", [b"1"]))
    await stall.reached.wait()
    clock.advance_ms(1500)
    stall.release()
    await putting
    assert reports == [("put", "a/b", 1.5, 1, True)]


async def test_a_cancelled_operation_says_nothing_about_the_store() -> None:
    plan = FaultPlan()
    stall = plan.add(Rule(Fault.STALL_BEFORE))
    store, reports, _ = instrumented(plan)
    reading = asyncio.ensure_future(store.read("a/b"))
    await stall.reached.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert reports == []


async def test_the_window_knows_of_what_hangs_until_it_is_given_up() -> None:
    class Hanging(MemoryObjectStore):
        async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
            await asyncio.Event().wait()

    clock, window = ManualClock(), HealthWindow()
    store = InstrumentedStore(
        Hanging(), lambda *_report: None, lambda *_request: None, clock, window
    )
    uploads = [
        asyncio.create_task(store.put_new("a/b", [b"1"])),
        asyncio.create_task(store.put_new("a/c", [bytes(16 << 20)])),  # may take its time
    ]
    await asyncio.sleep(0)
    clock.advance_ms(11_000)
    assert window.state(clock.elapsed_s()) is Health.UNAVAILABLE
    uploads[0].cancel()
    await asyncio.wait(uploads[:1])
    clock.advance_ms(1_000)
    assert window.state(clock.elapsed_s()) is Health.HEALTHY
    uploads[1].cancel()
    await asyncio.wait(uploads)
