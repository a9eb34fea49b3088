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
        self._untold: set[str] = set()  # whose change the metadata store may not know of yet
        self.on_moved: Callable[[Topic], None] = lambda topic: None

    def look(self) -> None:
        """A topic has changed: it may be moving."""
        self._bell.set()

    async def move_for_ever(self) -> None:
        """One step of every move that there is, again and again."""
        while True:
            self._bell.clear()
            on_the_way = [one for one in self._topics.all() if one.descriptor.moving]
            await self._tell()
            await survey.gathered(self._carefully(topic) for topic in on_the_way)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S if on_the_way or self._untold else None):
                    await self._bell.wait()

    async def _tell(self) -> None:
        for name in list(self._untold):
            try:
                await self._topics.finish_change(name)
                self._untold.discard(name)
            except KafscaleError as problem:
                logger.warning("move_not_told", topic=name, reason=str(problem))

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
        # As it is now: while we wait the topic may arrive, and its new home must not be sealed.
        home = topic.descriptor
        move = home.moving
        if move is None:
            return
        said = await self._reports(topic, move)
        if topic.descriptor.moving != move:
            return  # it has arrived while we asked: where it lies now must not be sealed
        if move.sealing:
            await self._seal_ours(topic, home, move, said)
            said = await self._reports(topic, move)
        for folder in places.log_folders(home.after_move()):
            if self._fleet.may_open(folder) and self._is_due(home, move, folder, said):
                await self._bring(topic, home, move, folder, said)
        if self._fleet.is_controller:
            await self._decide(topic, home, move, await self._reports(topic, move))

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

    async def _seal_ours(
        self, topic: Topic, home: TopicDescriptor, move: Move, said: Reports
    ) -> None:
        async def one(folder: str) -> None:
            log = await self._logs.open_log(folder, None if home.layout == "shared" else topic)
            lanes = list(places.lanes_in(home, folder))
            for sealed in [moving.seal(log, lane) for lane in lanes]:
                if sealed.committed is not None:
                    await moving.committed(sealed.committed)
            ends = {lane: log.lane(lane).high for lane in lanes}
            report = MoveReport(move_id=move.move_id, state="sealed", ends=ends)
            await self._report(topic, folder, report)

        folders = places.log_folders(home)
        await survey.gathered(
            one(folder) for folder in folders if folder not in said and self._fleet.may_open(folder)
        )

    # -- the new place -------------------------------------------------------------------------

    def _is_due(self, home: TopicDescriptor, move: Move, folder: str, said: Reports) -> bool:
        """Whether there is anything to copy into a log now."""
        state = said[folder].state if folder in said else ""
        if state == "done":
            return False
        return not state or (move.sealing and self._old_logs(home, folder) <= said.keys())

    def _old_logs(self, home: TopicDescriptor, folder: str) -> set[str]:
        lanes = places.lanes_in(home.after_move(), folder)
        return {places.place(home, partition).folder for partition in lanes.values()}

    async def _bring(
        self, topic: Topic, home: TopicDescriptor, move: Move, folder: str, said: Reports
    ) -> None:
        """Copy what is missing in one log, and say how far it is."""
        log = await self._logs.open_log(folder, None if move.layout == "shared" else topic)
        # The ends of what is sealed were read before what is there is looked at: so all of it is.
        sources = await self._sources(home, folder)
        rows = places.lanes_in(home.after_move(), folder)
        room = _PASS_BYTES // max(1, min(len(rows), survey.READS_AT_ONCE))
        starts: dict[int, int] = {}

        async def one(lane: int, partition: int) -> tuple[int, bool]:
            old = places.place(home, partition)
            source = sources[old.folder].get(old.lane)
            copied = 0
            if source is not None:
                copied = await moving.copy(self._store, source, log, lane, room)
                starts[lane] = source.start
            end = said[old.folder].ends.get(old.lane, _NEVER) if old.folder in said else _NEVER
            return copied, log.lane(lane).high >= end

        found = await survey.gathered(one(*row) for row in rows.items())
        copied = sum(size for size, _ in found)
        if all(is_here for _, is_here in found):
            low = {lane: at for lane, at in starts.items() if log.lane(lane).start < at}
            if low:
                await history.raise_starts(log, low)
            # What producers are known by may be in no batch any more: it must be in a manifest.
            await history.roll_up(log)
            marks = log.manifest.lanes
            if any(log.lane(lane).start < at for lane, at in low.items()) or any(
                log.lane(lane).high and lane not in marks for lane in rows
            ):
                return  # somebody came between: the next pass looks again
            await self._report(topic, folder, MoveReport(move_id=move.move_id, state="done"))
        elif folder not in said and copied < NEAR_BYTES:
            await self._report(topic, folder, MoveReport(move_id=move.move_id, state="near"))

    async def _sources(
        self, home: TopicDescriptor, folder: str
    ) -> dict[str, dict[int, moving.Source]]:
        old = sorted(self._old_logs(home, folder))
        seen = await survey.gathered(survey.snapshot(self._store, one) for one in old)
        return {one: moving.sources(found) for one, found in zip(old, seen, strict=True)}

    # -- the controller ------------------------------------------------------------------------

    async def _decide(self, topic: Topic, home: TopicDescriptor, move: Move, said: Reports) -> None:
        """Go on to the next phase when every log is ready for it."""
        folders = places.log_folders(home.after_move())
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

        self._untold.add(topic.name)
        try:
            await self._topics.change(topic.name, changed)
            self._untold.discard(topic.name)
        finally:
            self.on_moved(topic)
        if move.sealing:
            logger.info("topic_moved", topic=topic.name, layout=move.layout, folder=move.folder)
            doomed = [Remove(keys.move_report(topic.name, folder)) for folder in said]
            for at in range(0, len(doomed), _REMOVED_AT_ONCE):
                await self._metadata.commit(doomed[at : at + _REMOVED_AT_ONCE])
