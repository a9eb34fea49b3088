"""Background work on this broker's open logs: roll-up, retention, sweeping.

Here: when. Next door: how (log/upkeep/), removing whole topics (removals.py). A store that does not
answer postpones the work; it ends nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.engine.upkeep.foreign_changes import ForeignChanges
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


@dataclass(slots=True)
class _LogRecord:
    """What is remembered about one log between two passes."""

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
        foreign: ForeignChanges,
        cluster: Membership,
        clock: Clock,
        *,
        interval_s: float,
        grace_s: float,
        search_topic: Callable[[str], None],
    ) -> None:
        """`search_topic` hears the names of topics that other processes have made or changed."""
        self._foreign = foreign
        self._search_topic = search_topic
        self._topics = topics
        self._logs = logs
        self._removals = removals
        self._cluster = cluster
        self._clock = clock
        self._interval_s = interval_s
        self._grace_s = grace_s
        self._records: dict[str, _LogRecord] = {}  # by folder
        self._pending: list[Removal] = []  # clean-up notes, as of the last pass
        self._swept_at_ms: int | None = None  # by the store's clock, in this pass

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
        """One slow pass: foreign manifests, retention, sweeping, removals.

        For a log in which nothing has changed and nothing expires it sends no request.
        """
        try:
            self._pending = await self._removals.list_pending()
        except KafscaleError as problem:
            logger.warning("removal_postponed", error=str(problem))
        try:
            await self._foreign.look()
        except KafscaleError as problem:
            logger.warning("notices_not_read", error=str(problem))
        if self._cluster.is_controller:  # other brokers hear of it through the metadata store
            for name in self._foreign.take_topics():
                self._search_topic(name)
        self._swept_at_ms = None
        for topic, log in self._logs.each():
            record = self._records.setdefault(log.folder, _LogRecord())
            await _try(self._tidy_log(topic, log, record), log, "tidy")
        self._foreign.settle_all()
        await self._removals.try_to_remove()

    async def _tidy_log(self, topic: Topic | None, log: Log, record: _LogRecord) -> None:
        if self._foreign.has_changed(log.folder):
            self._foreign.keep(log.folder)
            await log.adopt_foreign()
            self._foreign.settle(log.folder)
            log.history.ask_for_sweep()
        now_ms = self._clock.now_ms()
        if topic is None:
            await self._tidy_lanes(log, record, now_ms)
        elif topic.settings.deletes:
            limits = now_ms, topic.settings.retention_ms, topic.settings.retention_bytes
            if retention.expired_starts(log, *limits):
                await _require_store(log)
                await retention.retain(log, *limits)
        now_s = self._clock.elapsed_s()
        if log.history.sweep_is_due and now_s - record.swept_s >= self._grace_s / 4:
            record.swept_s = now_s
            deleted = await sweep.sweep(log, await self._ask_time(log))
            if deleted:
                logger.info("log_swept", folder=log.folder, objects=deleted)

    async def _ask_time(self, log: Log) -> int:
        """The store's time, asked once in a pass: if it is older, less is deleted."""
        if self._swept_at_ms is None:
            self._swept_at_ms = await log.store.now_ms()
        return self._swept_at_ms

    # -- shared logs -------------------------------------------------------------------------

    async def _tidy_lanes(self, log: Log, record: _LogRecord, now_ms: int) -> None:
        """A log that many topics share: each lane by the settings of its own topic."""
        lanes = self._find_ended_lanes(log.folder, now_ms)
        starts = self._new_starts(log, lanes.ended, now_ms)
        if starts:
            await _require_store(log)
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


async def _require_store(log: Log) -> None:
    """Fail here if the store is sick: a commit repeats its requests until the store is well."""
    await log.adopt_foreign()


async def _try(work: Awaitable[None], log: Log, what: str) -> None:
    """Do some work on one log; a failure is logged and stops no other log's work."""
    try:
        await work
    except KafscaleError as problem:
        logger.warning("housekeeping_postponed", what=what, folder=log.folder, error=str(problem))
    except Exception:
        # A mistake in the upkeep of one log must not end that of all others.
        logger.exception("housekeeping_failed", what=what, folder=log.folder)
