"""Opening what is ours before anybody asks for it.

Here: so many logs at a time, in the background, whenever there may be more: first requests are
fast after a take-over, and retention reaches logs nobody uses. What a client asks for meanwhile
comes before all of them.
Next door: opening one (logs.py), which ones are ours (membership.py).
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.open_logs import AT_ONCE, Logs
from kafscale.engine.topics.registry import Topics
from kafscale.engine.topics.topic import Topic
from kafscale.model.errors import KafscaleError, NotTheOwner, StoreError, UnknownTopic

logger = structlog.get_logger()

_CALM_S: Final = 10.0  # a start of a lone broker: clients come first
_AGAIN_S: Final = 30.0  # after a store that could not be read


class OwnedLogs:
    """Looks for logs that should be open and are not."""

    def __init__(self, topics: Topics, logs: Logs, fleet: Membership) -> None:
        """Open into `logs` what `fleet` says is ours."""
        self._topics = topics
        self._logs = logs
        self._fleet = fleet
        self._bell = asyncio.Event()

    def look(self) -> None:
        """There may be more of them."""
        self._bell.set()

    async def open_for_ever(self) -> None:
        """One pass whenever somebody says so, and again where the store did not answer."""
        is_done = True
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if is_done else _AGAIN_S):
                    await self._bell.wait()
            if not self._fleet.has_peers:
                await asyncio.sleep(_CALM_S)
            self._bell.clear()
            is_done = await self.open_all()

    async def open_all(self) -> bool:
        """Open what is not open; tells whether all of it could be."""
        waiting = self._closed()
        workers = AT_ONCE if self._fleet.has_peers else 1
        before = self._logs.count()
        results = await asyncio.gather(*(self._open_some(waiting) for _ in range(workers)))
        if self._logs.count() > before:
            logger.info("logs_opened", count=self._logs.count() - before)
        return all(results)

    def _closed(self) -> Iterator[tuple[str, Topic | None]]:
        for folder, topic in self._topics.log_folders():
            if self._fleet.may_open(folder) and not self._logs.is_open(folder):
                yield folder, topic

    async def _open_some(self, waiting: Iterator[tuple[str, Topic | None]]) -> bool:
        well = True
        for folder, topic in waiting:
            try:
                await self._logs.open_log(folder, topic, urgent=False)
            except (NotTheOwner, UnknownTopic):
                pass  # it has gone to somebody else, or for ever
            except KafscaleError as problem:
                well = well and not isinstance(problem, StoreError)
                logger.warning("log_not_opened", folder=folder, error=str(problem))
            await asyncio.sleep(0)
        return well
