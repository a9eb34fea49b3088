"""What processes that are no brokers have changed, as their notices tell.

Here: one GET per pass for a whole namespace, whatever the number of logs, and a LIST an hour for
notices that were missed.
Next door: the notices (log/catalog/notices.py), what becomes of them (logs.py).
"""

import math
from typing import Final

import structlog

from kafscale.log.catalog import notices
from kafscale.model.clock import Clock
from kafscale.model.errors import CorruptObject
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()

LIST_EVERY_S: Final = 3600.0
PASSES: Final = 2  # a log that was being opened in one of them is open in the next


class ForeignChanges:
    """The logs and topics of one namespace that other processes have changed."""

    def __init__(self, store: ObjectStore, namespace: str, clock: Clock) -> None:
        """Begin with the oldest notice that is kept."""
        self._store = store
        self._namespace = namespace
        self._clock = clock
        self._last = 0  # number of the last notice that was read
        self._listed_s = -math.inf
        self._logs: dict[str, int] = {}  # folders, and for how many passes they are still told
        self._topics: set[str] = set()
        self._all_logs = False  # notices were missed

    async def look(self) -> None:
        """Read the notices that have come since the last call."""
        for folder in [folder for folder, passes in self._logs.items() if passes <= 0]:
            del self._logs[folder]
        self._logs = {folder: passes - 1 for folder, passes in self._logs.items()}
        if self._clock.elapsed_s() - self._listed_s >= LIST_EVERY_S:
            await self._find_missed()
        while True:
            try:
                notice = await notices.read(self._store, self._namespace, self._last + 1)
            except CorruptObject as problem:
                logger.warning("notice_unreadable", error=str(problem))
                notice = notices.Notice()
            if notice is None:
                return
            self._last += 1
            self._logs.update(dict.fromkeys(notice.logs, PASSES - 1))
            self._topics.update(notice.topics)

    async def _find_missed(self) -> None:
        """Notices are deleted some time: one that slept for long goes on with what is kept."""
        numbers = await notices.list_numbers(self._store, self._namespace)
        is_first = self._listed_s == -math.inf
        self._listed_s = self._clock.elapsed_s()
        if numbers and not numbers[0] <= self._last + 1 <= numbers[-1] + 1:
            self._last = numbers[0] - 1
            self._all_logs = self._all_logs or not is_first

    def has_changed(self, folder: str) -> bool:
        """Whether the log in this folder may have a manifest that its owner does not know."""
        return self._all_logs or folder in self._logs

    def keep(self, folder: str) -> None:
        """Tell of this log in the next pass, too, unless it is settled."""
        self._logs[folder] = PASSES - 1

    def settle(self, folder: str) -> None:
        """The owner knows the newest manifest of this log."""
        self._logs.pop(folder, None)

    def settle_all(self) -> None:
        """The owner has asked for every log."""
        self._all_logs = False

    def take_topics(self) -> list[str]:
        """Names of topics that came or changed since the last call."""
        names = sorted(self._topics)
        self._topics.clear()
        return names
