"""The faulty store does exactly what its plan says."""

import asyncio

import pytest

from kafscale.model.errors import ObjectMissing, StoreRefused, StoreUnavailable
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.clock import SeededDice
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule


def faulty(*rules: Rule, seed: int = 0) -> FaultyObjectStore:
    plan = FaultPlan(SeededDice(seed))
    for rule in rules:
        plan.add(rule)
    return FaultyObjectStore(MemoryObjectStore(), plan)


async def test_a_fault_before_does_nothing() -> None:
    store = faulty(Rule(Fault.FAIL_BEFORE, verb="put_new", times=1))
    with pytest.raises(StoreUnavailable):
        await store.put_new("a/b", [b"x"])
    with pytest.raises(ObjectMissing):
        await store.read("a/b")
    await store.put_new("a/b", [b"x"])


async def test_a_fault_after_has_done_it() -> None:
    store = faulty(Rule(Fault.FAIL_AFTER, verb="put_new", times=1))
    with pytest.raises(StoreUnavailable):
        await store.put_new("a/b", [b"x"])
    assert bytes(await store.read("a/b")) == b"x"


async def test_a_stall_holds_until_released() -> None:
    before, after = Rule(Fault.STALL_BEFORE, keys="*/b"), Rule(Fault.STALL_AFTER, keys="*/c")
    store = faulty(before, after)
    putting = [asyncio.ensure_future(store.put_new(f"a/{name}", [b"x"])) for name in "bc"]
    await before.reached.wait()
    await after.reached.wait()
    assert [row.key for row in await store.inner.find("a")] == ["a/c"]
    assert not any(task.done() for task in putting)
    before.release()
    after.release()
    await asyncio.gather(*putting)
    assert [row.key for row in await store.find("a")] == ["a/b", "a/c"]


async def test_rules_pick_verb_key_and_turn() -> None:
    store = faulty(
        Rule(Fault.FAIL_BEFORE, verb="read", keys="*.index", error=StoreRefused),
        Rule(Fault.FAIL_BEFORE, verb="put_new", skip=1, times=1),
    )
    await store.put_new("a/x.kfs", [b"x"])
    with pytest.raises(StoreUnavailable):
        await store.put_new("a/x.index", [b"x"])
    await store.put_new("a/x.index", [b"x"])
    await store.read("a/x.kfs")
    with pytest.raises(StoreRefused):
        await store.read("a/x.index")
    assert store.calls[-1] == ("read", "a/x.index")


async def test_a_delay_only_delays() -> None:
    store = faulty(Rule(Fault.DELAY, delay_s=0.001))
    await store.put_new("a/b", [b"x"])
    assert bytes(await store.read("a/b")) == b"x"


async def outcomes(seed: int) -> list[bool]:
    store = faulty(Rule(Fault.FAIL_BEFORE, chance=0.5), seed=seed)
    results = []
    for number in range(64):
        try:
            await store.put_new(f"a/{number}", [b"x"])
            results.append(True)
        except StoreUnavailable:
            results.append(False)
    return results


async def test_one_seed_one_story() -> None:
    assert await outcomes(1) == await outcomes(1)
    assert await outcomes(1) != await outcomes(2)
    assert 10 < sum(await outcomes(1)) < 54


async def test_clearing_the_plan_frees_what_stalls() -> None:
    rule = Rule(Fault.STALL_BEFORE)
    store = faulty(rule)
    listing = asyncio.ensure_future(store.find("a"))
    await rule.reached.wait()
    store.plan.clear()
    assert await listing == []
    assert await store.now_ms() > 0


def test_an_unknown_verb_is_a_mistake_in_the_test() -> None:
    with pytest.raises(ValueError, match="put"):
        FaultPlan().add(Rule(Fault.DELAY, verb="put"))
