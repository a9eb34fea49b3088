"""Background work that leaves the processor to the clients' requests.

Here: slices of a few milliseconds with pauses between them, and what is worth a thread.
Next door: the work (compaction.py).
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from kafscale.model.clock import Clock

T = TypeVar("T")

SLICE_S: Final = 0.002  # the event loop is held up for about this long
_PIECES: Final = 64  # at most in one slice, whatever the clock says


class BackgroundWork:
    """Lets work use a share of one processor core."""

    def __init__(self, clock: Clock, share: float) -> None:
        """`share`: of the time, from more than 0 to 1."""
        self._clock = clock
        self._rest_factor = 1 / share - 1
        self._worked_s = 0.0
        self._pieces = 0

    async def do(self, work: Callable[[], T], *, is_long: bool) -> T:
        """Do a piece of work, on a thread if it `is_long`; rest when a slice is used up."""
        began_s = self._clock.elapsed_s()
        result = await asyncio.to_thread(work) if is_long else work()
        self._worked_s += self._clock.elapsed_s() - began_s
        self._pieces += 1
        if self._worked_s >= SLICE_S or self._pieces >= _PIECES:
            rest_s, self._worked_s, self._pieces = self._worked_s * self._rest_factor, 0.0, 0
            await asyncio.sleep(rest_s)
        return result
