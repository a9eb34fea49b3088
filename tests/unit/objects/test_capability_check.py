"""The start-up probe finds stores that ignore the condition."""

from collections.abc import Sequence

import pytest

from kafscale.model.buffers import Buffer
from kafscale.model.errors import ObjectExists, StoreRefused, StoreUnavailable
from kafscale.objects.capability_check import check_create_if_absent
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule


class Overwriting(MemoryObjectStore):
    """Accepts every put, as some gateways do."""

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        await self.delete([key])
        await super().put_new(key, body)


class BlindInARace(MemoryObjectStore):
    """Honest one by one, but rivals at the same moment all win."""

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        try:
            await super().put_new(key, body)
        except ObjectExists:
            if not key.endswith("at-once"):
                raise


@pytest.mark.parametrize("kind", [Overwriting, BlindInARace])
async def test_a_store_that_ignores_the_condition_is_refused(kind: type[MemoryObjectStore]) -> None:
    store = kind()
    with pytest.raises(StoreRefused, match="create-if-absent"):
        await check_create_if_absent(store, "ns/probe", "t")
    assert await store.find("") == []


async def test_an_answer_lost_on_the_way_is_not_held_against_the_store() -> None:
    plan = FaultPlan()
    lost = plan.add(Rule(Fault.FAIL_AFTER, verb="put_new", times=1))
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    await check_create_if_absent(store, "ns/probe", "t")
    assert lost.happened == 1


class Repeating(MemoryObjectStore):
    """Loses answers and tries again by itself, as the adapter for S3 does: it meets itself."""

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        await super().put_new(key, body)
        await super().put_new(key, body)


async def test_an_attempt_that_meets_its_own_object_is_not_held_against_the_store() -> None:
    await check_create_if_absent(Repeating(), "ns/probe", "t")


async def test_a_store_out_of_reach_is_not_called_bad() -> None:
    plan = FaultPlan()
    plan.add(Rule(Fault.FAIL_BEFORE, verb="*"))
    with pytest.raises(StoreUnavailable):
        await check_create_if_absent(FaultyObjectStore(MemoryObjectStore(), plan), "ns", "t")


async def test_a_store_that_takes_nothing_says_why() -> None:
    plan = FaultPlan()
    plan.add(Rule(Fault.FAIL_BEFORE, verb="put_new"))
    plan.add(Rule(Fault.FAIL_BEFORE, verb="delete"))
    with pytest.raises(StoreUnavailable, match="put_new ns/probe-t-twice"):
        await check_create_if_absent(FaultyObjectStore(MemoryObjectStore(), plan), "ns", "t")
