"""Moving topics from one layout to another while they are used.

Here: who does what, told by the topic's descriptor and by reports in the metadata store. The owner
of every log that the topic moves into copies its lanes from the bucket. When all have nearly caught
up the owners of the old logs seal their lanes, which is when producers have to wait; the last
records are copied, and the descriptor says the new place. Each step can be done again by whoever
owns a log then: what is in the bucket says how far it is.
Next door: what a broker does for its logs (move_work.py), asking for a move (administration.py),
what is left in the old place (removals.py).
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from kafscale.engine.logs import Logs
from kafscale.engine.membership import Membership
from kafscale.engine.move_reports import MoveReports, Reports
from kafscale.engine.move_work import MoveWork, Task
from kafscale.engine.topic import Topic
from kafscale.engine.topics import Topics
from kafscale.log import places, survey
from kafscale.metadata.store import MetadataStore
from kafscale.model.errors import KafscaleError
from kafscale.model.topics import Move, TopicDescriptor
from kafscale.objects.store import ObjectStore

logger = structlog.get_logger()

PAUSE_S: Final = 0.2


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
        self._fleet = fleet
        self._reports = MoveReports(metadata)
        self._work = MoveWork(logs, fleet, store, self._reports)
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
        task = Task(topic, home, move)
        said = await self._reports.find(topic, move)
        if not task.is_on():
            return  # it has arrived while we asked: where it lies now must not be sealed
        if move.sealing:
            await self._work.seal_ours(task, said)
            said = await self._reports.find(topic, move)
        await self._work.bring_ours(task, said)
        if self._fleet.is_controller:
            await self._decide(topic, home, move, await self._reports.find(topic, move))

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
            await self._reports.remove(topic, said)
