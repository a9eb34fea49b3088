"""Opening this broker's logs before a client asks for them.

Here: a background task that opens a limited number of logs at a time, whenever there may be more
of them. First requests are fast after a take-over, and retention reaches logs that no client uses.
A log that a client asks for meanwhile is opened before all of these.
Next door: opening one log (open_logs.py), which logs are this broker's (cluster/membership.py).
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.open_logs import AT_ONCE, OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.model.errors import KafscaleError, NotTheOwner, StoreError, UnknownTopic

logger = structlog.get_logger()

_CALM_S: Final = 10.0  # after the start of a single broker: clients come first
_AGAIN_S: Final = 30.0  # until the next pass, after one in which the store could not be read


class Opener:
    """Opens the logs that should be open and are not."""

    def __init__(self, topics: TopicRegistry, logs: OpenLogs, cluster: Membership) -> None:
        """Open into `logs` what `cluster` says is this broker's."""
        self._topics = topics
        self._logs = logs
        self._cluster = cluster
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """Start a pass: there may be more logs to open."""
        self._wanted.set()

    async def run(self) -> None:
        """One pass at each `wake`, and another after a pass that the store did not answer."""
        is_done = True
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if is_done else _AGAIN_S):
                    await self._wanted.wait()
            if not self._cluster.has_peers:
                await asyncio.sleep(_CALM_S)
            self._wanted.clear()
            is_done = await self.open_all()

    async def open_all(self) -> bool:
        """Open what is not open. False if the store could not be read for some of it."""
        waiting = self._closed()
        workers = AT_ONCE if self._cluster.has_peers else 1
        before = self._logs.count()
        results = await asyncio.gather(*(self._open_some(waiting) for _ in range(workers)))
        if self._logs.count() > before:
            logger.info("logs_opened", count=self._logs.count() - before)
        return all(results)

    def _closed(self) -> Iterator[tuple[str, Topic | None]]:
        for folder, topic in self._topics.log_folders():
            if self._cluster.may_open(folder) and not self._logs.is_open(folder):
                yield folder, topic

    async def _open_some(self, waiting: Iterator[tuple[str, Topic | None]]) -> bool:
        all_read = True
        for folder, topic in waiting:
            try:
                await self._logs.open_log(folder, topic, urgent=False)
            except (NotTheOwner, UnknownTopic):
                pass  # another broker owns it by now, or its topic was deleted
            except KafscaleError as problem:
                all_read = all_read and not isinstance(problem, StoreError)
                logger.warning("log_not_opened", folder=folder, error=str(problem))
            await asyncio.sleep(0)
        return all_read
