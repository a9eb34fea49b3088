"""Removing what deleted topics, and topics that moved, leave behind.

Here: one worker per clean-up note in the metadata store. The controller removes own logs and
committed offsets; lanes of shared logs are left to the owners of these logs (logs.py).
Next door: who writes the notes (topics/records.py), what may be deleted of a log
(log/protocol/end_of_log.py).
"""

from dataclasses import dataclass
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.offsets import Offsets
from kafscale.engine.subscriptions.cursors import Cursors
from kafscale.log.formats import keys, places
from kafscale.log.protocol import end_of_log, survey
from kafscale.log.upkeep import sweep
from kafscale.metadata import keys as metadata_keys
from kafscale.metadata.keys import Removal
from kafscale.metadata.store import MetadataStore, Remove
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()

_DELETE_AT_ONCE: Final = 1000
SEARCH_EVERY_S: Final = 600.0  # for the lanes of one deleted topic
_HELD_MS: Final = 600_000  # until a removal that a snapshot holds back is tried again


@dataclass(slots=True)
class _Progress:
    """How far one removal is."""

    due_s: float = 0.0  # when it is tried next
    held_until_ms: int = 0  # a snapshot holds it back
    searched_s: float = -1e9  # when shared logs were last searched for its lanes
    has_removed_offsets: bool = False


class Removals:
    """Carries out the clean-up notes of the metadata store."""

    def __init__(
        self,
        offsets: Offsets,
        cursors: Cursors,
        store: ObjectStore,
        metadata: MetadataStore,
        cluster: Membership,
        clock: Clock,
        *,
        grace_s: float,
    ) -> None:
        self._offsets = offsets
        self._cursors = cursors
        self._store = store
        self._metadata = metadata
        self._cluster = cluster
        self._clock = clock
        self._grace_s = grace_s
        self._progress: dict[str, _Progress] = {}  # by the note's key

    async def list_pending(self) -> list[Removal]:
        """All clean-up notes."""
        entries = await self._metadata.find(metadata_keys.REMOVALS)
        return [metadata_keys.decode(Removal, entry.value) for entry in entries]

    async def try_to_remove(self) -> None:
        """Remove what can be removed now; a failure is logged."""
        try:
            await self.remove_deleted_topics()
        except KafscaleError as problem:
            logger.warning("removal_postponed", error=str(problem))

    async def remove_deleted_topics(self) -> None:
        """Delete what deleted topics leave behind, again and again until nothing late appears.

        Only the controller does it. Logs shared with other topics are left to their owners.
        """
        if not self._cluster.is_controller:
            return
        seen: dict[
            str, survey.LogSnapshot
        ] = {}  # one survey of each shared log serves all removals
        for entry in await self._metadata.find(metadata_keys.REMOVALS):
            removal = metadata_keys.decode(Removal, entry.value)
            progress = self._progress.setdefault(entry.key, _Progress())
            now_s, now_ms = self._clock.elapsed_s(), self._clock.now_ms()
            if now_s < progress.due_s or now_ms < max(removal.after_ms, progress.held_until_ms):
                continue
            if await self._remove(removal, progress, seen):
                await self._metadata.commit([Remove(entry.key)])
                self._progress.pop(entry.key, None)

    async def _remove(
        self, removal: Removal, progress: _Progress, seen: dict[str, survey.LogSnapshot]
    ) -> bool:
        """One attempt at one removal; tells whether it is complete."""
        if not progress.has_removed_offsets:
            await self._remove_offsets(removal)
            progress.has_removed_offsets = True
        deleted, is_held = await self._delete_logs(removal)
        if self._cluster.has_peers and removal.logs:  # every attempt is a request to be paid for
            wait_s = max(self._grace_s, self._age_ms(removal) / 1000)
            progress.due_s = self._clock.elapsed_s() + wait_s
        if deleted:
            logger.info("topic_objects_deleted", folder=removal.folder, objects=deleted)
        if is_held:
            progress.held_until_ms = self._clock.now_ms() + _HELD_MS
            return False
        if deleted or not await self._is_over(removal, progress, seen):
            return False
        # A commit that was under way when the topic ended may have come late.
        await self._remove_offsets(removal)
        return True

    async def _delete_logs(self, removal: Removal) -> tuple[int, bool]:
        """Delete the logs of one place; gives how many objects, and whether some are held back."""
        counts = await survey.await_limited(
            self._delete_log(removal, keys.log_folder(removal.folder, number))
            for number in range(removal.logs)
        )
        return sum(count or 0 for count in counts), None in counts

    async def _delete_log(self, removal: Removal, folder: str) -> int | None:
        """Delete what may go of one log; gives how many objects, None if a snapshot holds it.

        Snapshots of a deleted topic end with it; those of a topic that has moved are kept.
        """
        listed = await self._store.find(folder)
        names = [item.key for item in listed]
        if not removal.name and sweep.is_pinned(names, await self._store.now_ms()):
            return None
        if self._cluster.has_peers:  # without peers this broker has closed the log itself
            is_new = not self.is_known_to_all(removal)
            listed = await end_of_log.remains(self._store, folder, self._grace_s, is_new=is_new)
        doomed = [item.key for item in listed]
        for first in range(0, len(doomed), _DELETE_AT_ONCE):
            await self._store.delete(doomed[first : first + _DELETE_AT_ONCE])
        return len(doomed)

    def _age_ms(self, removal: Removal) -> int:
        return self._clock.now_ms() - max(removal.deleted_ms, removal.after_ms)

    def is_known_to_all(self, removal: Removal, more_s: float = 0.0) -> bool:
        """Whether even a broker that has heard nothing for very long must know by now."""
        enough_s = max(end_of_log.REMEMBERED_S, self._grace_s * 2) + more_s
        return self._age_ms(removal) >= enough_s * 1000

    async def _remove_offsets(self, removal: Removal) -> None:
        if removal.name:  # else the topic has moved, and its groups with it
            await self._offsets.remove_topic(removal.name, removal.topic_id)
            await self._cursors.remove_topic(removal.name, removal.topic_id)

    async def _is_over(
        self, removal: Removal, progress: _Progress, seen: dict[str, survey.LogSnapshot]
    ) -> bool:
        """Whether nothing of a deleted topic can be left, or come late."""
        if self._age_ms(removal) <= self._grace_s * 1000:
            return False
        if self._cluster.has_peers and not self.is_known_to_all(removal, self._grace_s):
            return False
        lanes: dict[str, set[int]] = {}
        for folder, lane in places.lanes_of(removal.shared):
            lanes.setdefault(folder, set()).add(lane)
        now_s = self._clock.elapsed_s()
        if lanes and now_s - progress.searched_s < SEARCH_EVERY_S:
            return False
        progress.searched_s = now_s
        for folder, ended in lanes.items():
            if folder not in seen:
                seen[folder] = await survey.take_snapshot(self._store, folder)
            if any(span.lane in ended for piece in seen[folder].pieces for span in piece.spans):
                return False
        return True
