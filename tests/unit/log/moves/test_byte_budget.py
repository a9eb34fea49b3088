"""A budget of bytes that many tasks share."""

import asyncio

import pytest

from kafscale.log.moves.byte_budget import ByteBudget


async def waiting(budget: ByteBudget, size: int) -> asyncio.Task[int]:
    task = asyncio.get_running_loop().create_task(budget.take(size))
    await asyncio.sleep(0)
    return task


async def test_what_is_there_is_given_at_once() -> None:
    budget = ByteBudget(10)
    assert [await budget.take(4), await budget.take(6)] == [4, 6]
    assert budget.taken_bytes == 10


async def test_no_task_gets_more_than_there_is_and_each_gets_its_turn() -> None:
    budget = ByteBudget(10)
    await budget.take(8)
    large, small = await waiting(budget, 5), await waiting(budget, 1)
    assert not large.done()
    assert not small.done(), "the small request came later: it waits, though there is room for it"
    budget.give_back(8)
    assert [await large, await small] == [5, 1]
    assert budget.taken_bytes == 6


async def test_who_wants_more_than_all_gets_all() -> None:
    budget = ByteBudget(10)
    held = await budget.take(1)
    whale = await waiting(budget, 1000)
    budget.give_back(held)
    assert await whale == 10
    budget.give_back(10)
    assert budget.taken_bytes == 0


@pytest.mark.parametrize("is_granted", [False, True], ids=["in the queue", "just as it is granted"])
async def test_who_gives_up_leaves_nothing_taken(is_granted: bool) -> None:
    budget = ByteBudget(10)
    await budget.take(8)
    quitter, other = await waiting(budget, 5), await waiting(budget, 2)
    if is_granted:
        budget.give_back(8)
    quitter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await quitter
    assert await other == 2
    assert budget.taken_bytes == (2 if is_granted else 10)
