"""Moving topics from one layout to another while they are used.

Here: who does what, told by the topic's descriptor and by reports in the metadata store. The owner
of every log that the topic moves into copies its lanes from the bucket. When all have nearly caught
up the owners of the old logs seal their lanes, which is when producers have to wait; the last
records are copied, and the descriptor says the new place. Each step can be done again by whoever
owns a log then: what is in the bucket says how far it is.
Next door: seals and copies (log/moving.py), asking for a move (administration.py), what is left in
the old place (removals.py).
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog

from kafscale.engine.logs import Logs
from kafscale.engine.membership import Membership
from kafscale.engine.topic import Topic
from kafscale.engine.topics import Topics
from kafscale.log import history, moving, places, survey
from kafscale.log.log import Log
from kafscale.metadata import keys
from kafscale.metadata.keys import MoveReport
from kafscale.metadata.store import MetadataStore, Put, Remove
from kafscale.model.errors import KafscaleError
from kafscale.model.topics import Move, TopicDescriptor
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()

PAUSE_S: Final = 0.2
NEAR_BYTES: Final = 4 << 20  # less than this to copy in one pass: the rest is soon done
_PASS_BYTES: Final = 64 << 20  # then others have their turn
_REMOVED_AT_ONCE: Final = 100
_NEVER: Final = 1 << 62

Reports = Mapping[str, MoveReport]  # by folder


class Moves:
    """This broker's part in all moves."""

    def __init__(
        self,
        topics: Topics,
        logs: Logs,
        fleet: Membership,
        store: ObjectStore,
        metadata: MetadataStore,
    ) -> None:
        """Move nothing yet."""
        self._topics = topics
        self._logs = logs
        self._fleet = fleet
        self._store = store
        self._metadata = metadata
        self._bell = asyncio.Event()
        self.on_moved: Callable[[Topic], None] = lambda topic: None

    def look(self) -> None:
        """A topic has changed: it may be moving."""
        self._bell.set()

    async def move_for_ever(self) -> None:
        """One step of every move that there is, again and again."""
        while True:
            self._bell.clear()
            on_the_way = [one for one in self._topics.all() if one.descriptor.moving]
            for topic in on_the_way:
                await self._carefully(topic)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S if on_the_way else None):
                    await self._bell.wait()

    async def _carefully(self, topic: Topic) -> None:
        try:
            await self.step(topic)
        except KafscaleError as problem:
            logger.info("move_waits", topic=topic.name, reason=str(problem))
        except Exception:
            # A mistake in one move must not end all others.
            logger.exception("move_failed", topic=topic.name)

    async def step(self, topic: Topic) -> None:
        """Do what there is to do for one topic, as far as it is ours."""
        move = topic.descriptor.moving
        if move is None:
            return
        said = await self._reports(topic, move)
        if topic.descriptor.moving != move:
            return  # it has arrived while we asked: where it lies now must not be sealed
        if move.sealing:
            await self._seal_ours(topic, move, said)
            said = await self._reports(topic, move)
        for folder in places.log_folders(topic.descriptor.after_move()):
            if self._fleet.may_open(folder) and self._is_due(topic, move, folder, said):
                await self._bring(topic, move, folder, said)
        if self._fleet.is_controller:
            await self._decide(topic, move, await self._reports(topic, move))

    # -- reports -----------------------------------------------------------------------------

    async def _reports(self, topic: Topic, move: Move) -> dict[str, MoveReport]:
        prefix = keys.moves(topic.name)
        found = {}
        for entry in await self._metadata.find(prefix):
            report = keys.decode(MoveReport, entry.value)
            if report.move_id == move.move_id:
                found[keys.text_of(entry.key.removeprefix(prefix))] = report
        return found

    async def _report(self, topic: Topic, folder: str, report: MoveReport) -> None:
        key = keys.move_report(topic.name, folder)
        await self._metadata.commit([Put(key, keys.encode(report))])

    # -- the old place -------------------------------------------------------------------------

    async def _seal_ours(self, topic: Topic, move: Move, said: Reports) -> None:
        for folder in places.log_folders(topic.descriptor):
            if folder in said or not self._fleet.may_open(folder):
                continue
            log = await self._logs.open_log(folder, None if topic.is_shared else topic)
            lanes = list(places.lanes_in(topic.descriptor, folder))
            for sealed in [moving.seal(log, lane) for lane in lanes]:
                if sealed.committed is not None:
                    await moving.committed(sealed.committed)
            ends = {lane: log.lane(lane).high for lane in lanes}
            report = MoveReport(move_id=move.move_id, state="sealed", ends=ends)
            await self._report(topic, folder, report)

    # -- the new place -------------------------------------------------------------------------

    def _is_due(self, topic: Topic, move: Move, folder: str, said: Reports) -> bool:
        """Whether there is anything to copy into a log now."""
        state = said[folder].state if folder in said else ""
        if state == "done":
            return False
        return not state or (move.sealing and self._old_logs(topic, folder) <= said.keys())

    def _old_logs(self, topic: Topic, folder: str) -> set[str]:
        lanes = places.lanes_in(topic.descriptor.after_move(), folder)
        return {topic.place(partition).folder for partition in lanes.values()}

    async def _bring(self, topic: Topic, move: Move, folder: str, said: Reports) -> None:
        """Copy what is missing in one log, and say how far it is."""
        log = await self._logs.open_log(folder, None if move.layout == "shared" else topic)
        # The ends of what is sealed were read before what is there is looked at: so all of it is.
        sources = await self._sources(topic, folder)
        room = _PASS_BYTES
        is_whole = True
        for lane, partition in places.lanes_in(topic.descriptor.after_move(), folder).items():
            old = topic.place(partition)
            source = sources[old.folder].get(old.lane)
            if source is not None and room > 0:
                room -= await moving.copy(self._store, source, log, lane, room)
            end = said[old.folder].ends.get(old.lane, _NEVER) if old.folder in said else _NEVER
            is_here = log.lane(lane).high >= end
            is_whole = is_whole and is_here
            if is_here and source is not None:
                await _begin_alike(log, lane, source.start, end)
        if is_whole:
            await self._report(topic, folder, MoveReport(move_id=move.move_id, state="done"))
        elif folder not in said and _PASS_BYTES - room < NEAR_BYTES:
            await self._report(topic, folder, MoveReport(move_id=move.move_id, state="near"))

    async def _sources(self, topic: Topic, folder: str) -> dict[str, dict[int, moving.Source]]:
        old = sorted(self._old_logs(topic, folder))
        seen = await survey.gathered(survey.snapshot(self._store, one) for one in old)
        return {one: moving.sources(found) for one, found in zip(old, seen, strict=True)}

    # -- the controller ------------------------------------------------------------------------

    async def _decide(self, topic: Topic, move: Move, said: Reports) -> None:
        """Go on to the next phase when every log is ready for it."""
        folders = places.log_folders(topic.descriptor.after_move())
        ready = {"done"} if move.sealing else {"near", "done"}
        if not all(folder in said and said[folder].state in ready for folder in folders):
            return

        def changed(old: TopicDescriptor) -> TopicDescriptor:
            if old.moving is None or old.moving.move_id != move.move_id:
                return old
            if move.sealing:
                return old.after_move()
            sealing = msgspec.structs.replace(old.moving, sealing=True)
            return msgspec.structs.replace(old, moving=sealing)

        await self._topics.change(topic.name, changed)
        self.on_moved(topic)
        if move.sealing:
            logger.info("topic_moved", topic=topic.name, layout=move.layout, folder=move.folder)
            doomed = [Remove(keys.move_report(topic.name, folder)) for folder in said]
            for at in range(0, len(doomed), _REMOVED_AT_ONCE):
                await self._metadata.commit(doomed[at : at + _REMOVED_AT_ONCE])


async def _begin_alike(log: Log, lane: int, start: int, end: int) -> None:
    """Let a lane begin where its source does; after the seal if there is nothing before it."""
    wanted = start if start < end - 1 else end
    if log.lane(lane).start < wanted:
        await history.raise_starts(log, {lane: wanted})
