"""Bytes that may be in memory at once, given out in the order of the requests.

Next door: what takes them (copying.py).
"""

import asyncio
from collections import deque


class ByteBudget:
    """A number of bytes that many tasks share. A task that takes some gives them back."""

    def __init__(self, most_bytes: int) -> None:
        """Give out at most `most_bytes` at a time."""
        self._most_bytes = self._free_bytes = most_bytes
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def taken_bytes(self) -> int:
        """How much is given out."""
        return self._most_bytes - self._free_bytes

    async def take(self, size: int) -> int:
        """Wait for `size` bytes, or for all there can be; gives how many must be given back."""
        size = min(size, self._most_bytes)
        if not self._queue and size <= self._free_bytes:
            self._free_bytes -= size
            return size
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._queue.remove((size, turn))
                self.give_back(0)
            else:
                self.give_back(size)
            raise
        return size

    def give_back(self, size: int) -> None:
        """Return bytes; tasks that wait get them."""
        self._free_bytes += size
        while self._queue and self._queue[0][0] <= self._free_bytes:
            wanted, turn = self._queue[0]
            if turn.cancelled():
                return  # its task is about to leave the queue and to call this again
            self._queue.popleft()
            self._free_bytes -= wanted
            turn.set_result(None)
