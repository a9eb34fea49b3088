"""Key compaction of this broker's open logs, one log at a time.

Here: which log is next, when a tail becomes part of the past so that it can be compacted, and what
is left to the pipeline because it is large. All of this is decided from memory: a log in which
nothing is due costs no request.
Next door: the work (log/upkeep/compaction.py), the rules (log/upkeep/cleanable.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.log.formats import places
from kafscale.log.formats.manifest import Manifest
from kafscale.log.upkeep import cleanable, rollup
from kafscale.log.upkeep.background_work import BackgroundWork
from kafscale.log.upkeep.cleanable import (
    Cleanable,
    CompactedLanes,
    CompactionLimits,
    is_too_large,
)
from kafscale.log.upkeep.compaction import (
    Compacted,
    compact,
    covers,
)
from kafscale.log.writer.log import Log
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError
from kafscale.model.metrics.metric_names import SHARED

logger = structlog.get_logger()

CountCompaction = Callable[[str, int, int], None]

_ROUNDS: Final = 100  # of a log with more keys than fit into memory


class _Due(NamedTuple):
    """A log with something to compact."""

    topic: Topic | None
    log: Log
    topics: Sequence[CompactedLanes]
    part: Cleanable

    @property
    def urgency(self) -> tuple[bool, float]:
        """What is overdue comes first, then what is dirtiest."""
        size = sum(entry.size for entry in self.part.scope)
        return self.part.is_overdue, self.part.dirty_bytes / max(1, size)


@dataclass(slots=True)
class _LogState:
    """What is remembered of one log between two passes."""

    stuck_at: Manifest | None = None  # a compaction of this past came to nothing
    broken: set[str] = field(default_factory=set)  # objects that cannot be read
    left_bytes: int = 0  # due, and too large for a broker


class Compactions:
    """A loop that compacts what is due."""

    def __init__(
        self,
        topics: TopicRegistry,
        logs: OpenLogs,
        clock: Clock,
        limits: CompactionLimits,
        count: CountCompaction,
        *,
        interval_s: float,
    ) -> None:
        """`count` is told of every compaction: its topic, records and bytes removed."""
        self._topics = topics
        self._logs = logs
        self._clock = clock
        self._limits = limits
        self._count = count
        self._interval_s = interval_s
        self._background = BackgroundWork(clock, limits.cpu_share)
        self._states: dict[str, _LogState] = {}  # by folder

    def left_to_pipeline(self) -> Iterator[tuple[Sequence[str], float]]:
        """Topic and log, with the bytes that are due and too many for a broker."""
        for topic, log in self._logs.each():
            state = self._states.get(log.folder)
            if state is not None and state.left_bytes:
                labels = (_name(topic), str(places.number_of(log.folder)))
                yield labels, float(state.left_bytes)

    async def run(self) -> None:
        """One pass after the other; runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.compact_due()

    async def compact_due(self) -> None:
        """One pass: compact all logs in which enough is new, the dirtiest first."""
        due: list[_Due] = []
        compacted_folders: set[str] = set()
        for topic, log in self._logs.each():
            topics = self._compacted_lanes(topic, log)
            if topics:
                compacted_folders.add(log.folder)
                await self._try(self._roll_up_old_tail(log, topics), log)
                due += self._find_due(topic, log, topics)
                await asyncio.sleep(0)  # there may be thousands
        self._states = {
            folder: state for folder, state in self._states.items() if folder in compacted_folders
        }
        for row in sorted(due, key=lambda row: row.urgency, reverse=True):
            await self._try(self._compact(row), row.log)

    def _compacted_lanes(self, topic: Topic | None, log: Log) -> list[CompactedLanes]:
        """The topics in a log that are compacted, with their lanes; those that move must wait."""
        lanes: dict[str, tuple[Topic, list[int]]] = {}
        if topic is not None:
            lanes[topic.name] = topic, list(log.lanes)
        else:
            for number, (resident, _) in self._topics.residents(log.folder).items():
                lanes.setdefault(resident.name, (resident, []))[1].append(number)
        return [
            CompactedLanes(owner.settings, numbers)
            for owner, numbers in lanes.values()
            if owner.settings.compacted and owner.descriptor.moving is None
        ]

    async def _roll_up_old_tail(self, log: Log, topics: Sequence[CompactedLanes]) -> None:
        """Let a tail become past once a record in it is segment.ms or max.compaction.lag.ms old."""
        now_ms = self._clock.now_ms()
        before_ms = {
            lane: now_ms - min(settings.segment_ms, settings.max_compaction_lag_ms)
            for settings, lanes in topics
            for lane in lanes
        }
        is_old = any(
            span.min_timestamp_ms < before_ms.get(span.lane, -1)
            for flush in log.committed.tail
            for span in flush.entry.spans()
        )
        if is_old:
            await rollup.roll_up(log)

    def _find_due(
        self, topic: Topic | None, log: Log, topics: Sequence[CompactedLanes]
    ) -> list[_Due]:
        """What this broker can compact of a log; notes what is too large for it.

        A shared log that is too large as a whole is looked at topic by topic.
        """
        state = self._states.setdefault(log.folder, _LogState())
        past = log.committed.manifest
        if past is state.stuck_at:
            return []
        state.left_bytes = 0
        now_ms = self._clock.now_ms()
        found: list[_Due] = []
        waiting = [topics]
        while waiting:
            some = waiting.pop()
            part = cleanable.find_cleanable(past, some, now_ms, only_new=True)
            if part is None or state.broken & {entry.name for entry in part.scope}:
                continue
            if not is_too_large(part, self._limits):
                found.append(_Due(topic, log, some, part))
            elif len(some) > 1:
                waiting += [[one] for one in some]
            else:
                state.left_bytes += part.dirty_bytes
        return found

    async def _compact(self, due: _Due) -> None:
        """Compact a log; again for keys that did not fit into memory."""
        log, state = due.log, self._states[due.log.folder]
        ratio: float | None = None
        for _ in range(_ROUNDS):
            past = log.committed.manifest
            now_ms = self._clock.now_ms()
            part = cleanable.find_cleanable(past, due.topics, now_ms, ratio, only_new=True)
            if part is None or is_too_large(part, self._limits):
                return
            done = await compact(
                log, part, self._limits, self._background, merge=due.topic is not None
            )
            self._report(due, done)
            if not done.is_committed or not _has_moved(past, done):
                state.stuck_at = past
                if done.broken:
                    state.broken.add(done.broken)
                return
            if covers(part, done.reached):
                return
            ratio = 0.0  # go on with what did not fit, however little it is

    def _report(self, due: _Due, done: Compacted) -> None:
        name = _name(due.topic)
        self._count(name, done.removed_records, done.removed_bytes)
        logger.info(
            "log_compacted",
            folder=due.log.folder,
            removed_records=done.removed_records,
            removed_bytes=done.removed_bytes,
            is_complete=done.is_committed,
        )

    async def _try(self, work: Awaitable[None], log: Log) -> None:
        """Do some work on one log; a failure is logged and stops no other log's work."""
        try:
            await work
        except KafscaleError as problem:
            logger.warning(
                "housekeeping_postponed", what="compaction", folder=log.folder, error=str(problem)
            )
        except Exception:
            # A mistake in the compaction of one log must not end that of all others.
            logger.exception("housekeeping_failed", what="compaction", folder=log.folder)


def _name(topic: Topic | None) -> str:
    return SHARED if topic is None else topic.name


def _has_moved(past: Manifest, done: Compacted) -> bool:
    """Whether a compaction reached further than the one before."""
    return any(
        lane not in past.lanes or to > cleanable.clean_to(past.lanes[lane])
        for lane, to in done.reached.items()
    )
