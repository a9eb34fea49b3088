import asyncio

import pytest

from kafscale.engine.partitions.priority_gate import PriorityGate


class Queue:
    """Tasks that want a turn, and the order in which they got it."""

    def __init__(self, places: int = 1) -> None:
        self.gate = PriorityGate(places)
        self.got: list[str] = []
        self.leave = asyncio.Event()

    def come(self, name: str, *, urgent: bool) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._hold(name, urgent))

    async def _hold(self, name: str, urgent: bool) -> None:
        async with self.gate.hold(name, urgent=urgent):
            self.got.append(name)
            await self.leave.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_is_waited_for_comes_before_who_is_not() -> None:
    queue = Queue()
    tasks = [queue.come(name, urgent=name.isupper()) for name in "aBcD"]
    await settle()
    assert queue.got == ["a"]
    queue.leave.set()
    await asyncio.gather(*tasks)
    assert queue.got == ["a", "B", "D", "c"]


async def test_who_is_asked_for_while_waiting_is_moved_ahead() -> None:
    queue = Queue()
    tasks = [queue.come(name, urgent=False) for name in "abc"]
    await settle()
    queue.gate.promote("c")
    queue.gate.promote("a")  # has its turn
    queue.gate.promote("missing")
    queue.leave.set()
    await asyncio.gather(*tasks)
    assert queue.got == ["a", "c", "b"]


async def test_no_more_than_there_are_places() -> None:
    queue = Queue(places=2)
    tasks = [queue.come(name, urgent=False) for name in "abc"]
    await settle()
    assert queue.got == ["a", "b"]
    queue.leave.set()
    await asyncio.gather(*tasks)
    assert queue.got == ["a", "b", "c"]


async def test_who_gives_up_leaves_the_place_to_the_next() -> None:
    queue = Queue()
    first, second, third = (queue.come(name, urgent=False) for name in "abc")
    await settle()
    second.cancel()
    queue.leave.set()
    await asyncio.gather(first, third)
    assert second.cancelled()
    assert queue.got == ["a", "c"]


async def test_who_gives_up_having_been_called_leaves_the_place_to_the_next() -> None:
    queue = Queue()
    async with queue.gate.hold("a", urgent=False):
        second, third = (queue.come(name, urgent=False) for name in "bc")
        await settle()
    second.cancel()  # its turn has come, and it has not noticed yet
    queue.leave.set()
    await third
    assert second.cancelled()
    assert queue.got == ["c"]
    async with queue.gate.hold("d", urgent=False):
        pass


async def test_a_failure_gives_the_place_back() -> None:
    gate = PriorityGate(1)
    with pytest.raises(ZeroDivisionError):
        async with gate.hold("a", urgent=True):
            raise ZeroDivisionError
    async with gate.hold("b", urgent=True):
        pass
