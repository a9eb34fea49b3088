"""A key is worked on once at a time, comes again when it changed, and later when it failed."""

import asyncio

from kafscale.operator.kube.work_queue import KeyQueue
from kafscale.testing.clock import SeededDice


def queue() -> KeyQueue[str]:
    return KeyQueue(SeededDice())


async def test_a_key_that_is_added_twice_comes_once() -> None:
    keys = queue()
    keys.add("a")
    keys.add("a")
    assert await keys.take() == "a"
    assert len(keys) == 0


async def test_a_key_that_changes_while_it_is_worked_on_comes_again() -> None:
    keys = queue()
    keys.add("a")
    await keys.take()
    keys.add("a")
    assert len(keys) == 0  # not to a second worker
    keys.done("a")
    assert await keys.take() == "a"


async def test_a_failed_key_waits_longer_each_time_until_it_succeeds() -> None:
    keys = queue()
    pauses = []
    for _ in range(4):
        keys.add("a")
        await keys.take()
        pauses.append(keys.failed("a"))
    assert pauses == sorted(pauses)
    assert pauses[3] > 4 * pauses[0]
    keys.add("a")
    await keys.take()
    keys.done("a")
    keys.add("a")
    await keys.take()
    assert keys.failed("a") < pauses[1]
    keys.close()


async def test_the_earlier_of_two_appointments_counts() -> None:
    keys = queue()
    loop = asyncio.get_running_loop()
    keys.add_later("a", 60)
    keys.add_later("a", 1)
    keys.add_later("a", 30)
    began = loop.time()
    assert await keys.take() == "a"
    assert loop.time() - began < 2
    keys.close()


async def test_a_worker_that_waits_gets_the_next_key() -> None:
    keys = queue()
    async with asyncio.TaskGroup() as tasks:
        taken = tasks.create_task(keys.take())
        await asyncio.sleep(0)
        keys.add("b")
    assert taken.result() == "b"
