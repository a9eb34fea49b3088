"""A limit on work done at once; urgent work overtakes work that no client waits for.

Here: two queues, and the way from the patient one into the urgent one. Work that enters first
finishes first: a hundred logs that are begun together would all be ready only at the end.
Next door: the work that passes the gate (open_logs.py).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PriorityGate:
    """Lets a number of holders in at once. Each holder has a name of its own."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._urgent: dict[str, asyncio.Future[None]] = {}  # by name, in the order they came
        self._patient: dict[str, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def hold(self, name: str, *, urgent: bool) -> AsyncIterator[None]:
        """Hold a place, after waiting for it if all are held."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(name, self._urgent if urgent else self._patient)
        try:
            yield
        finally:
            self._pass_on()

    def promote(self, name: str) -> None:
        """Make a waiting holder urgent: a client has asked for it. Otherwise do nothing."""
        admission = self._patient.pop(name, None)
        if admission is not None:
            self._urgent[name] = admission

    async def _wait(self, name: str, queue: dict[str, asyncio.Future[None]]) -> None:
        admission = queue[name] = asyncio.get_running_loop().create_future()
        try:
            await admission
        except asyncio.CancelledError:
            for either in (self._urgent, self._patient):
                either.pop(name, None)
            if admission.done() and not admission.cancelled():
                self._pass_on()  # the place was ours already
            raise

    def _pass_on(self) -> None:
        """Give this holder's place to the first urgent holder, then to the first patient one."""
        for queue in (self._urgent, self._patient):
            while queue:
                admission = queue.pop(next(iter(queue)))
                if not admission.done():
                    admission.set_result(None)
                    return
        self._free += 1
