"""Telling brokers what a job has changed.

Here: when a notice is written: at once, then at most one a second, and when the job ends. A job
that cannot write one goes on: a notice is a hint.
Next door: the notices (log/catalog/notices.py), the store that records changes (bucket.py).
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from kafscale.log.catalog import notices
from kafscale.log.catalog.notices import ChangeRecorder
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError
from kafscale.settings.locations import Location
from kafscale.tasks import Tasks

logger = structlog.get_logger()

EVERY_S: Final = 1.0


class Teller:
    """Writes notices of what was changed in the stores of this process."""

    def __init__(self, stores: Mapping[Location, ChangeRecorder], clock: Clock) -> None:
        """Tell of what these stores have recorded."""
        self._stores = stores
        self._clock = clock
        self._tasks = Tasks()
        self._told_s: dict[Location, float] = {}
        self._waiting: set[Location] = set()

    async def tell_soon(self, where: Location) -> None:
        """Write a notice of what was changed there, now or with what is changed next."""
        store = self._stores.get(where)
        if store is None or not store.has_changes or where in self._waiting:
            return
        pause_s = self._told_s.get(where, -EVERY_S) + EVERY_S - self._clock.elapsed_s()
        if pause_s <= 0:
            await self._tell(where, store)
        else:
            self._waiting.add(where)
            self._tasks.spawn(self._tell_later(where, store, pause_s), "notice")

    async def tell(self, where: Location) -> None:
        """Write what has not been told yet: the job ends."""
        store = self._stores.get(where)
        if store is not None:
            await self._tell(where, store)

    async def _tell_later(self, where: Location, store: ChangeRecorder, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        self._waiting.discard(where)
        await self._tell(where, store)

    async def _tell(self, where: Location, store: ChangeRecorder) -> None:
        notice = store.take()
        if notice is None:
            return
        self._told_s[where] = self._clock.elapsed_s()
        try:
            await notices.write(store, where.namespace, notice)
        except KafscaleError as problem:
            logger.warning("notice_not_written", error=str(problem))
