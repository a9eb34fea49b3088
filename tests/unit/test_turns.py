"""Work that takes long is done in pieces; in each turn of the loop one of them gets a piece."""

import asyncio
from collections.abc import Generator

from kafscale.testing.clock import ManualClock
from kafscale.turns import MOST_BEGUN, PIECE_S, Turns, run_through


class Worker:
    """Goes through rows that take half a piece each, and writes down its name for each row."""

    def __init__(self, turns: Turns, clock: ManualClock, done: list[str]) -> None:
        self._turns, self._clock, self._done = turns, clock, done

    async def work(self, name: str, rows: int) -> None:
        async for _ in self._turns.each(range(rows)):
            self._clock.advance_ms(PIECE_S * 500)
            self._done.append(name)


async def test_workers_take_turns_after_each_piece() -> None:
    clock, done = ManualClock(), list[str]()
    worker = Worker(Turns(clock), clock, done)
    await asyncio.gather(worker.work("a", 6), worker.work("b", 4))
    assert "".join(done) == "aabbaabbaa"


async def test_a_turn_of_the_loop_has_one_piece_however_many_wait() -> None:
    clock = ManualClock()
    turns = Turns(clock)
    given: list[int] = []
    for number in range(5):
        turns.soon(lambda number=number: given.append(number))  # type: ignore[misc]
    for count in range(1, 6):
        await asyncio.sleep(0)
        assert given == list(range(count))


async def test_quick_work_does_not_pause() -> None:
    turns = Turns(ManualClock())
    began = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(began.set_result, None)
    assert [row async for row in turns.each(range(1000))] == list(range(1000))
    assert not began.done()


async def test_a_waiter_that_is_cancelled_does_not_hold_up_the_next() -> None:
    turns = Turns(ManualClock())
    first, second = (asyncio.ensure_future(turns.next()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled()


async def test_steps_give_their_result_at_once_and_in_turns() -> None:
    clock = ManualClock()

    def steps() -> Generator[None, None, str]:
        for _ in range(3):
            clock.advance_ms(PIECE_S * 2000)
            yield
        return "done"

    assert run_through(steps()) == "done"
    assert await Turns(clock).finish(steps()) == "done"


async def test_short_tasks_begin_in_their_order_and_so_many_in_a_turn() -> None:
    turns = Turns(ManualClock())
    begun: list[int] = []
    for number in range(3 * MOST_BEGUN):
        turns.begin(lambda number=number: begun.append(number))  # type: ignore[misc]
    for count in (1, 2, 3):
        assert begun == list(range(count * MOST_BEGUN))
        await asyncio.sleep(0)
    turns.begin(lambda: begun.append(-1))
    assert begun[-1] == -1, "a turn in which little has begun lets it begin at once"


async def test_a_task_waits_behind_those_that_wait_already() -> None:
    turns = Turns(ManualClock())
    begun: list[int] = []
    for number in range(2 * MOST_BEGUN + 1):
        turns.begin(lambda number=number: begun.append(number))  # type: ignore[misc]
    await asyncio.sleep(0)
    turns.begin(lambda: begun.append(-1))
    assert begun == list(range(2 * MOST_BEGUN))
    await asyncio.sleep(0)
    assert begun[-2:] == [2 * MOST_BEGUN, -1]
