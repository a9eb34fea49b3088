"""Work that would hold up the event loop: it is done on a few threads, in turn by connection.

Here: how much is done at once, and whose work comes next. A connection has one piece of work in the
queue at a time, so that no client makes the others wait for more than one piece of its own.
Next door: what is worth a thread (kafka/records/record_sets.py, kafka/records/conversion.py,
fluvio/data/produce.py, fluvio/data/streams.py).
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

# Threads take the interpreter from the event loop in turns: few threads keep its waits short.
_MOST_AT_ONCE: Final = 2


class Workers:
    """The threads of a broker's connections."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)

    def new_queue(self) -> "WorkQueue":
        """The queue of one connection."""
        return WorkQueue(self._slots)


class WorkQueue:
    """One connection's work, done in its order."""

    __slots__ = ("_slots", "_turn")

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._turn: asyncio.Lock | None = None  # few connections ever need one

    async def run(self, work: Callable[[], T]) -> T:
        """Do some work on another thread, when it is this connection's turn and one is free."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn, self._slots:
            return await asyncio.to_thread(work)
