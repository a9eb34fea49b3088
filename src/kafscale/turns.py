"""Sharing the event loop: work that takes long is done in pieces, and others run in between.

Here: how long a piece is, and the queue of those who want another one. In each turn of the loop one
of them gets a piece, whatever their number, so that a client with a short request waits for one
piece and not for all.
Next door: work on other threads (gateways/workers.py), tasks (tasks.py).
Never here: what the work is.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import Final, TypeVar

from kafscale.model.clock import Clock

T = TypeVar("T")

PIECE_S: Final = 0.005
MOST_BEGUN: Final = 16  # short tasks in one turn; a flush to files takes 0.2 to 1 ms


def run_through(steps: Generator[None, None, T]) -> T:
    """Take all steps of some work at once: there are few."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class Turns:
    """Gives out pieces of the loop's time, one in each turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._starts: deque[Callable[[], None]] = deque()
        self._begun = 0  # in this turn

    def soon(self, go_on: Callable[[], None]) -> None:
        """Call this in a later turn of the loop, after those who asked before."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._give)
        self._waiting.append(go_on)

    def _give(self) -> None:
        go_on = self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._give)
        go_on()

    def begin(self, start: Callable[[], None]) -> None:
        """Start a task that takes little, now or in a later turn: a turn takes some of them."""
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._begin_more)
        self._begun += 1
        if self._begun <= MOST_BEGUN:
            start()
        else:
            self._starts.append(start)

    def _begin_more(self) -> None:
        self._begun = 0
        while self._starts and self._begun < MOST_BEGUN:
            self.begin(self._starts.popleft())

    async def next(self) -> None:
        """Wait for another piece."""
        given = asyncio.get_running_loop().create_future()
        self.soon(lambda: None if given.done() else given.set_result(None))
        await given

    def piece_end_s(self) -> float:
        """When a piece that begins now is over, by the clock."""
        return self._clock.elapsed_s() + PIECE_S

    def is_over(self, end_s: float) -> bool:
        """Whether a piece is over."""
        return self._clock.elapsed_s() >= end_s

    async def each(self, rows: Iterable[T]) -> AsyncIterator[T]:
        """Give the rows one by one; others run in between if working on them takes long."""
        end_s = self.piece_end_s()
        for row in rows:
            if self.is_over(end_s):
                await self.next()
                end_s = self.piece_end_s()
            yield row

    async def finish(self, steps: Generator[None, None, T]) -> T:
        """Take all steps of some work and give its result; others run in between."""
        end_s = self.piece_end_s()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if self.is_over(end_s):
                await self.next()
                end_s = self.piece_end_s()
