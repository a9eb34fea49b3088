"""What a broker does in the background: roll-up, retention, sweeping, removing deleted topics.

Here: when. Next door: how (log/upkeep/). Every pass survives a store that is sick.
"""

import asyncio
from collections.abc import Awaitable

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.offsets import Offsets
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.log.formats import keys, places
from kafscale.log.protocol import end_of_log, survey
from kafscale.log.upkeep import reclaim, retention, rollup, sweep
from kafscale.log.writer.log import Log
from kafscale.metadata import keys as metadata_keys
from kafscale.metadata.store import MetadataStore, Remove
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()

_DELETE_AT_ONCE = 1000
_ROLL_UP_LOOK_S = 0.5
_LOOK_EVERY_S = 600.0
_HELD_LOOK_MS = 600_000
RECLAIMED_AT_ONCE = 64 << 20  # bytes of a shared log, in one pass
OVERDUE_MS = 86_400_000  # by then no object has anything left of a deleted topic, whoever runs jobs
_REST_PASSES = 20  # of which logs nobody uses need one: every look is a request to be paid for


class Housekeeping:
    """Two loops: a quick one for roll-up, a slow one for everything that may wait."""

    def __init__(
        self,
        topics: TopicRegistry,
        logs: OpenLogs,
        offsets: Offsets,
        store: ObjectStore,
        metadata: MetadataStore,
        clock: Clock,
        fleet: Membership,
        *,
        interval_s: float,
        grace_s: float,
    ) -> None:
        """Look after `logs` every `interval_s`."""
        self._topics = topics
        self._logs = logs
        self._offsets = offsets
        self._store = store
        self._metadata = metadata
        self._clock = clock
        self._fleet = fleet
        self._interval_s = interval_s
        self._grace_s = grace_s
        self._swept_s: dict[str, float] = {}
        self._tidied_s: dict[str, float] = {}
        self._removals: list[metadata_keys.Removal] = []  # as of the last pass
        self._looked_s: dict[str, float] = {}  # when shared logs were last searched for the dead
        self._due_s: dict[str, float] = {}  # when a removal is next looked at
        self._broken: dict[str, set[str]] = {}  # objects of shared logs that cannot be rewritten
        self._held_ms: dict[str, int] = {}  # removals that a snapshot holds back: look again then
        self._forgotten: set[str] = set()  # removals whose committed offsets have been removed

    async def roll_up_for_ever(self) -> None:
        """Keep every tail short."""
        while True:
            await asyncio.sleep(_ROLL_UP_LOOK_S)
            for _, log in self._logs.each():
                if rollup.roll_up_is_due(log):
                    await self._carefully(rollup.roll_up(log), log, "roll_up")

    async def tidy_for_ever(self) -> None:
        """Expire, sweep, remove, look for foreign manifests."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.tidy()

    async def tidy(self) -> None:
        """One slow pass."""
        try:
            await self._look_for_removals()
        except KafscaleError as problem:
            logger.warning("removal_postponed", error=str(problem))
        for topic, log in self._logs.each():
            now_s = self._clock.elapsed_s()
            rest_s = 0.0 if log.is_used else _REST_PASSES * self._interval_s
            if now_s - self._tidied_s.get(log.folder, -1e9) >= rest_s:
                self._tidied_s[log.folder] = now_s
                await self._carefully(self._tidy_log(topic, log), log, "tidy")
        await self.try_to_remove()

    async def _tidy_log(self, topic: Topic | None, log: Log) -> None:
        await log.adopt_foreign()
        now_ms = self._clock.now_ms()
        if topic is None:
            await self._tidy_lanes(log, now_ms)
        elif topic.settings.deletes:
            settings = topic.settings
            await retention.retain(log, now_ms, settings.retention_ms, settings.retention_bytes)
        now_s = self._clock.elapsed_s()
        if now_s - self._swept_s.get(log.folder, -1e9) >= self._grace_s / 4:
            self._swept_s[log.folder] = now_s
            deleted = await sweep.sweep(log)
            if deleted:
                logger.info("log_swept", folder=log.folder, objects=deleted)

    async def _carefully(self, work: Awaitable[None], log: Log, what: str) -> None:
        try:
            await work
        except KafscaleError as problem:
            logger.warning(
                "housekeeping_postponed", what=what, folder=log.folder, error=str(problem)
            )
        except Exception:
            # A mistake in one log's housekeeping must not end that of all others.
            logger.exception("housekeeping_failed", what=what, folder=log.folder)

    async def _tidy_lanes(self, log: Log, now_ms: int) -> None:
        """A log that many topics share: each lane by the settings of its own topic."""
        residents = self._topics.residents(log.folder)
        ended: set[int] = set()
        deleted: set[int] = set()  # not moved away: a seal is never forgotten
        overdue: set[int] = set()
        for removal in self._removals:
            if now_ms < removal.after_ms:
                continue
            lanes = {
                row.lane for row in places.lanes_of(removal.shared) if row.folder == log.folder
            }
            ended |= lanes
            is_late = not self._fleet.has_peers or self._is_remembered_enough(removal)
            deleted |= lanes if removal.name and is_late else set()
            if now_ms - removal.deleted_ms >= OVERDUE_MS:
                overdue |= lanes
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
        if starts:
            await retention.raise_starts(log, starts)
        broken = self._broken.setdefault(log.folder, set())
        await reclaim.reclaim(log, overdue, RECLAIMED_AT_ONCE, broken)
        await reclaim.forget(log, deleted)

    # -- deleted topics ------------------------------------------------------------------------

    async def _look_for_removals(self) -> None:
        rows = await self._metadata.find(metadata_keys.REMOVALS)
        self._removals = [metadata_keys.decode(metadata_keys.Removal, row.value) for row in rows]

    async def try_to_remove(self) -> None:
        """Remove what deleted topics leave behind; a failure is logged."""
        try:
            await self.remove_deleted_topics()
        except KafscaleError as problem:
            logger.warning("removal_postponed", error=str(problem))

    async def remove_deleted_topics(self) -> None:
        """Delete what deleted topics leave behind; look again until nothing late appears.

        One broker is enough for that. Logs shared with other topics are their owners' matter.
        """
        if not self._fleet.is_controller:
            return
        seen: dict[str, survey.LogSnapshot] = {}  # one look at each shared log is enough for all
        for entry in await self._metadata.find(metadata_keys.REMOVALS):
            removal = metadata_keys.decode(metadata_keys.Removal, entry.value)
            now_s, now_ms = self._clock.elapsed_s(), self._clock.now_ms()
            is_due = now_s >= self._due_s.get(entry.key, 0.0)
            if not is_due or now_ms < max(removal.after_ms, self._held_ms.get(entry.key, 0)):
                continue
            if entry.key not in self._forgotten:
                await self._forget_offsets(removal)
                self._forgotten.add(entry.key)
            found, is_held = await self._delete_logs(removal)
            if self._fleet.has_peers and removal.logs:  # every look is a request to be paid for
                self._due_s[entry.key] = now_s + max(self._grace_s, self._age_ms(removal) / 1000)
            if found:
                logger.info("topic_objects_deleted", folder=removal.folder, objects=found)
            if is_held:
                self._held_ms[entry.key] = self._clock.now_ms() + _HELD_LOOK_MS
            elif not found and await self._is_over(removal, seen):
                # A commit that was under way when the topic ended may have come late.
                await self._forget_offsets(removal)
                await self._metadata.commit([Remove(entry.key)])
                self._forgotten.discard(entry.key)
                self._held_ms.pop(entry.key, None)
                self._due_s.pop(entry.key, None)
                self._looked_s.pop(removal.folder, None)

    async def _delete_logs(self, removal: metadata_keys.Removal) -> tuple[int, bool]:
        """Delete the logs of one place; gives how many objects, and whether some are held back."""
        rows = await survey.await_limited(
            self._delete_log(removal, keys.log_folder(removal.folder, number))
            for number in range(removal.logs)
        )
        return sum(row or 0 for row in rows), None in rows

    async def _delete_log(self, removal: metadata_keys.Removal, folder: str) -> int | None:
        """Delete what may go of one log; gives how many objects there were, None if it is held.

        Snapshots of a topic that was deleted end with it; those of one that has moved are kept.
        """
        listed = await self._store.find(folder)
        names = [row.key for row in listed]
        if not removal.name and sweep.is_pinned(names, await self._store.now_ms()):
            return None
        if self._fleet.has_peers:  # else we have closed it, and nobody else has it
            is_new = not self._is_remembered_enough(removal)
            listed = await end_of_log.remains(self._store, folder, self._grace_s, is_new=is_new)
        doomed = [row.key for row in listed]
        for at in range(0, len(doomed), _DELETE_AT_ONCE):
            await self._store.delete(doomed[at : at + _DELETE_AT_ONCE])
        return len(doomed)

    def _age_ms(self, removal: metadata_keys.Removal) -> int:
        return self._clock.now_ms() - max(removal.deleted_ms, removal.after_ms)

    def _is_remembered_enough(self, removal: metadata_keys.Removal, more_s: float = 0.0) -> bool:
        """Whether even a broker that has heard nothing for very long must know by now."""
        enough_s = max(end_of_log.REMEMBERED_S, self._grace_s * 2) + more_s
        return self._age_ms(removal) >= enough_s * 1000

    async def _forget_offsets(self, removal: metadata_keys.Removal) -> None:
        if removal.name:  # else the topic has moved, and its groups with it
            await self._offsets.forget(removal.name, removal.topic_id)

    async def _is_over(
        self, removal: metadata_keys.Removal, seen: dict[str, survey.LogSnapshot]
    ) -> bool:
        """Whether nothing of a deleted topic can be left, or come late."""
        if self._age_ms(removal) <= self._grace_s * 1000:
            return False
        if self._fleet.has_peers and not self._is_remembered_enough(removal, self._grace_s):
            return False
        lanes: dict[str, set[int]] = {}
        for folder, lane in places.lanes_of(removal.shared):
            lanes.setdefault(folder, set()).add(lane)
        now_s = self._clock.elapsed_s()
        if lanes and now_s - self._looked_s.get(removal.folder, -1e9) < _LOOK_EVERY_S:
            return False
        self._looked_s[removal.folder] = now_s
        for folder, ended in lanes.items():
            found = (
                seen[folder] if folder in seen else await survey.take_snapshot(self._store, folder)
            )
            seen[folder] = found
            if any(span.lane in ended for piece in found.pieces for span in piece.spans):
                return False
        return True
