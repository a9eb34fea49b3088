"""Segments of other writers, beyond the end that this broker knows.

Here: a reader asks for an offset that is not there. A writer that this broker does not know of
may have written it: a broker that has lost the log without noticing, or a job. The bucket is
listed once a second at most, or one client that asks for the impossible could keep it busy.
Next door: how the log loads what is found (log.py).
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final

from kafscale.log.formats import keys
from kafscale.log.writer.committed import CommittedLog
from kafscale.model.clock import Clock
from kafscale.model.errors import NotTheOwner
from kafscale.objects.store import ObjectStore

EVERY_S: Final = 1.0


class LateWrites:
    """Looks for what other writers have added to one log."""

    def __init__(
        self,
        store: ObjectStore,
        folder: str,
        committed: CommittedLog,
        clock: Clock,
        reopen: Callable[[str], Awaitable[None]],
        adopt_foreign: Callable[[], Awaitable[bool]],
    ) -> None:
        """Look beyond the end of `committed`. `reopen`, `adopt_foreign`: of the log that has it."""
        self._store = store
        self._folder = folder
        self._committed = committed
        self._clock = clock
        self._reopen = reopen
        self._adopt_foreign = adopt_foreign
        self._lock = asyncio.Lock()
        self._looked_s = -math.inf

    def is_due(self) -> bool:
        """Whether `catch_up` would list the bucket, or wait for the list under way."""
        return self._clock.elapsed_s() - self._looked_s >= EVERY_S

    def forget(self) -> None:
        """Let the next `catch_up` list the bucket at once: the last one has seen nothing."""
        self._looked_s = -math.inf

    async def catch_up(self) -> None:
        """Load what the bucket has after our tail, if it has anything.

        A caller that comes while another looks waits for that: until the look has come to its
        end no reader may be told that there is nothing. NotTheOwner: there is something, but a
        flush in flight has to meet it first.
        """
        async with self._lock:
            if not self.is_due():
                return
            if not await self._load_found():
                raise NotTheOwner(
                    f"{self._folder}: another writer has written what this broker does not know yet"
                )
            self._looked_s = self._clock.elapsed_s()

    async def _load_found(self) -> bool:
        """False if there is something that could not be loaded now."""
        end, generation = self._committed.end, self._committed.manifest.generation
        listed = await self._store.find(
            self._folder,
            after=keys.segments_from(self._folder, end),
            before=keys.segments_before(self._folder),
        )
        following = keys.segment(self._folder, end)
        if any(row.key == following for row in listed) and self._committed.end == end:
            await self._reopen("the log goes on beyond our tail")
            return self._committed.end != end
        return not await self._adopt_foreign() or self._committed.manifest.generation != generation
