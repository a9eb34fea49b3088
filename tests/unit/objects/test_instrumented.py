"""What the instrumented store reports."""

import asyncio

import pytest

from kafscale.model.errors import ObjectExists, ObjectMissing, StoreUnavailable
from kafscale.objects.instrumented import InstrumentedStore
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.clock import ManualClock
from kafscale.testing.faulty_store import Fault, FaultyObjectStore, Plan, Rule

Report = tuple[str, float, int, bool]


def instrumented(plan: Plan | None = None) -> tuple[InstrumentedStore, list[Report], ManualClock]:
    reports: list[Report] = []
    clock = ManualClock()
    inner = FaultyObjectStore(MemoryObjectStore(), plan or Plan())
    store = InstrumentedStore(inner, lambda *report: reports.append(report), clock)
    return store, reports, clock


async def test_every_verb_is_reported_with_its_bytes() -> None:
    store, reports, _ = instrumented()
    await store.put_new("a/b", [b"123", b"45"])
    await store.read("a/b", 1, 2)
    await store.find("a")
    await store.delete(["a/b"])
    await store.now_ms()
    assert reports == [
        ("put", 0.0, 5, True),
        ("get", 0.0, 2, True),
        ("list", 0.0, 0, True),
        ("delete", 0.0, 0, True),
        ("time", 0.0, 0, True),
    ]


async def test_taken_and_missing_keys_are_answers_not_failures() -> None:
    store, reports, _ = instrumented()
    await store.put_new("a/b", [b"1"])
    with pytest.raises(ObjectExists):
        await store.put_new("a/b", [b"1"])
    with pytest.raises(ObjectMissing):
        await store.read("a/c")
    assert [ok for *_, ok in reports] == [True, True, True]


async def test_failures_of_every_verb_are_reported() -> None:
    plan = Plan()
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
    assert [(operation, size, ok) for operation, _, size, ok in reports] == [
        (operation, 0, False) for operation in ("put", "get", "list", "delete", "time")
    ]


async def test_the_time_of_an_operation_is_what_the_clock_says() -> None:
    plan = Plan()
    stall = plan.add(Rule(Fault.STALL_BEFORE, verb="put_new"))
    store, reports, clock = instrumented(plan)
    putting = asyncio.ensure_future(store.put_new("a/b", [b"1"]))
    await stall.reached.wait()
    clock.advance_ms(1500)
    stall.release()
    await putting
    assert reports == [("put", 1.5, 1, True)]


async def test_a_cancelled_operation_says_nothing_about_the_store() -> None:
    plan = Plan()
    stall = plan.add(Rule(Fault.STALL_BEFORE))
    store, reports, _ = instrumented(plan)
    reading = asyncio.ensure_future(store.read("a/b"))
    await stall.reached.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert reports == []
