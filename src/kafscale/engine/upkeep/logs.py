"""Background work on this broker's open logs: roll-up, retention, sweeping.

Here: when. Next door: how (log/upkeep/), removing whole topics (removals.py). A store that does not
answer postpones the work; it ends nothing.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.engine.upkeep.removals import Removals
from kafscale.log.formats import places
from kafscale.log.upkeep import reclaim, retention, rollup, sweep
from kafscale.log.writer.log import Log
from kafscale.metadata.keys import Removal
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError

logger = structlog.get_logger()

_ROLL_UP_EVERY_S: Final = 0.5
RECLAIMED_AT_ONCE: Final = 64 << 20  # bytes of a shared log, in one pass
OVERDUE_MS: Final = 86_400_000  # by then no object may hold records of a deleted topic
_REST_PASSES: Final = 20  # unused logs are visited in one of these: every visit costs requests


@dataclass(slots=True)
class _LogRecord:
    """What is remembered about one log between two passes."""

    visited_s: float = -1e9
    swept_s: float = -1e9
    broken: set[str] = field(default_factory=set)  # objects that cannot be rewritten


@dataclass(slots=True)
class _EndedLanes:
    """Lanes of a shared log whose topics are deleted or have moved away."""

    ended: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)  # not moved away: a seal is never forgotten
    overdue: set[int] = field(default_factory=set)


class LogUpkeep:
    """Two loops: a quick one for roll-up, a slow one for everything that may wait."""

    def __init__(
        self,
        topics: TopicRegistry,
        logs: OpenLogs,
        removals: Removals,
        cluster: Membership,
        clock: Clock,
        *,
        interval_s: float,
        grace_s: float,
    ) -> None:
        self._topics = topics
        self._logs = logs
        self._removals = removals
        self._cluster = cluster
        self._clock = clock
        self._interval_s = interval_s
        self._grace_s = grace_s
        self._records: dict[str, _LogRecord] = {}  # by folder
        self._pending: list[Removal] = []  # clean-up notes, as of the last pass

    async def run_roll_up(self) -> None:
        """Keep every tail short; runs until it is cancelled."""
        while True:
            await asyncio.sleep(_ROLL_UP_EVERY_S)
            for _, log in self._logs.each():
                if rollup.roll_up_is_due(log):
                    await _try(rollup.roll_up(log), log, "roll_up")

    async def run(self) -> None:
        """One slow pass after the other; runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.tidy()

    async def tidy(self) -> None:
        """One slow pass: foreign manifests, retention, sweeping, removals."""
        try:
            self._pending = await self._removals.list_pending()
        except KafscaleError as problem:
            logger.warning("removal_postponed", error=str(problem))
        for topic, log in self._logs.each():
            record = self._records.setdefault(log.folder, _LogRecord())
            now_s = self._clock.elapsed_s()
            rest_s = 0.0 if log.is_used else _REST_PASSES * self._interval_s
            if now_s - record.visited_s >= rest_s:
                record.visited_s = now_s
                await _try(self._tidy_log(topic, log, record), log, "tidy")
        await self._removals.try_to_remove()

    async def _tidy_log(self, topic: Topic | None, log: Log, record: _LogRecord) -> None:
        await log.adopt_foreign()
        now_ms = self._clock.now_ms()
        if topic is None:
            await self._tidy_lanes(log, record, now_ms)
        elif topic.settings.deletes:
            settings = topic.settings
            await retention.retain(log, now_ms, settings.retention_ms, settings.retention_bytes)
        now_s = self._clock.elapsed_s()
        if now_s - record.swept_s >= self._grace_s / 4:
            record.swept_s = now_s
            deleted = await sweep.sweep(log)
            if deleted:
                logger.info("log_swept", folder=log.folder, objects=deleted)

    # -- shared logs -------------------------------------------------------------------------

    async def _tidy_lanes(self, log: Log, record: _LogRecord, now_ms: int) -> None:
        """A log that many topics share: each lane by the settings of its own topic."""
        lanes = self._find_ended_lanes(log.folder, now_ms)
        starts = self._new_starts(log, lanes.ended, now_ms)
        if starts:
            await retention.raise_starts(log, starts)
        await reclaim.reclaim(log, lanes.overdue, RECLAIMED_AT_ONCE, record.broken)
        await reclaim.forget(log, lanes.deleted)

    def _find_ended_lanes(self, folder: str, now_ms: int) -> _EndedLanes:
        ended_lanes = _EndedLanes()
        for removal in self._pending:
            if now_ms < removal.after_ms:
                continue
            lanes = {
                place.lane for place in places.lanes_of(removal.shared) if place.folder == folder
            }
            ended_lanes.ended |= lanes
            is_late = not self._cluster.has_peers or self._removals.is_known_to_all(removal)
            if removal.name and is_late:
                ended_lanes.deleted |= lanes
            if now_ms - removal.deleted_ms >= OVERDUE_MS:
                ended_lanes.overdue |= lanes
        return ended_lanes

    def _new_starts(self, log: Log, ended: set[int], now_ms: int) -> dict[int, int]:
        residents = self._topics.residents(log.folder)
        starts = {}
        for number, lane in log.lanes.items():
            start = lane.high if number in ended else lane.start
            if number in residents and residents[number].topic.settings.deletes:
                settings = residents[number].topic.settings
                start = retention.expired_start(
                    [span for span, _ in lane.spans],
                    lane.start,
                    now_ms,
                    settings.retention_ms,
                    settings.retention_bytes,
                )
            if start > lane.start:
                starts[number] = start
        return starts


async def _try(work: Awaitable[None], log: Log, what: str) -> None:
    """Do some work on one log; a failure is logged and stops no other log's work."""
    try:
        await work
    except KafscaleError as problem:
        logger.warning("housekeeping_postponed", what=what, folder=log.folder, error=str(problem))
    except Exception:
        # A mistake in the upkeep of one log must not end that of all others.
        logger.exception("housekeeping_failed", what=what, folder=log.folder)
