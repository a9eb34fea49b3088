"""So many at a time; what somebody waits for comes before what nobody does.

Here: a queue with two classes, and the way from the one into the other. Who comes first is done
first: a hundred that are begun together are ready together, at the end.
Next door: what is done in turns (logs.py).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Places for some, waiting rooms for all others. Everyone has a name of their own."""

    def __init__(self, places: int) -> None:
        """Have so many places, all of them free."""
        self._free = places
        self._urgent: dict[str, asyncio.Future[None]] = {}  # in the order they came
        self._patient: dict[str, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def taken(self, name: str, *, urgent: bool) -> AsyncIterator[None]:
        """Hold a place, when it is ours to take."""
        if self._free:
            self._free -= 1
        else:
            await self._called(name, self._urgent if urgent else self._patient)
        try:
            yield
        finally:
            self._pass_on()

    def hurry(self, name: str) -> None:
        """Somebody waits for this one by now."""
        waiting = self._patient.pop(name, None)
        if waiting is not None:
            self._urgent[name] = waiting

    async def _called(self, name: str, room: dict[str, asyncio.Future[None]]) -> None:
        turn = room[name] = asyncio.get_running_loop().create_future()
        try:
            await turn
        except asyncio.CancelledError:
            for one in (self._urgent, self._patient):
                one.pop(name, None)
            if turn.done() and not turn.cancelled():
                self._pass_on()  # it was our turn already
            raise

    def _pass_on(self) -> None:
        for room in (self._urgent, self._patient):
            while room:
                turn = room.pop(next(iter(room)))
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1
