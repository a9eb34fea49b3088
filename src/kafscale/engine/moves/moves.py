"""Moving topics from one layout to another while they are used.

Here: who does what, told by the topic's descriptor and by reports in the metadata store. The owner
of every log that the topic moves into copies its lanes from the bucket. When all have nearly caught
up the owners of the old logs seal their lanes, which is when producers have to wait; the last
records are copied, and the descriptor says the new place. Each step can be done again by whoever
owns a log then: what is in the bucket says how far it is.
Next door: what a broker does for its logs (steps.py), asking for a move (topics/changes.py),
what is left in the old place (upkeep/removals.py).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.moves.reports import MoveReports, Reports
from kafscale.engine.moves.steps import MoveSteps, Task
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.changes import TopicChanges
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.log.formats import places
from kafscale.log.protocol import survey
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError
from kafscale.model.topics import Move, TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.retry import Backoff, RetryPolicy

logger = structlog.get_logger()

PAUSE_S: Final = 0.2
HURRY_S: Final = 0.05  # while producers wait
PHASES: Final = ("copying", "sealing")
SLOW_S: Final = 30.0  # for producers to wait
CLEARED_EVERY_S: Final = 600.0
RETRY: Final = RetryPolicy(first_s=PAUSE_S, longest_s=5.0)


class TopicMove:
    """A topic on its way, as this broker sees it."""

    def __init__(self, topic: Topic, move: Move, now_s: float) -> None:
        """Begin a phase of its move."""
        self.topic = topic
        self.bell = asyncio.Event()
        self.move = move
        self.since_s = now_s
        self.is_slow = False
        self._backoff = Backoff(RETRY)
        self.goes_on()

    def become(self, move: Move, now_s: float) -> None:
        """The topic says otherwise now: where it goes, how far it is, or what comes then."""
        is_new = (move.move_id, move.sealing) != (self.move.move_id, self.move.sealing)
        self.move = move
        if is_new:
            self.since_s = now_s
            self.is_slow = False
            self.goes_on()

    @property
    def phase(self) -> str:
        """What is being done, in one of the words of PHASES."""
        return "sealing" if self.move.sealing else "copying"

    def goes_on(self) -> None:
        """A step has been done."""
        self.failures = 0
        self.reason = ""
        self._backoff.restart()
        self.pause_s = HURRY_S if self.move.sealing and not self.is_slow else PAUSE_S

    def fails(self, reason: str) -> bool:
        """A step could not be done; tells whether that is news. Try less and less often."""
        self.pause_s = self._backoff.next_s()
        self.failures += 1
        is_news = reason != self.reason
        self.reason = reason
        return is_news


class Moves:
    """This broker's part in all moves."""

    def __init__(
        self,
        topics: TopicRegistry,
        changes: TopicChanges,
        logs: OpenLogs,
        fleet: Membership,
        store: ObjectStore,
        metadata: MetadataStore,
        clock: Clock,
        on_failed: Callable[[], None],
    ) -> None:
        """`on_failed` counts steps that failed and are tried again."""
        self._clock = clock
        self._journeys: dict[bytes, TopicMove] = {}  # by topic
        self._turns = asyncio.Semaphore(survey.READS_AT_ONCE)
        self._topics = topics
        self._changes = changes
        self._fleet = fleet
        self._reports = MoveReports(metadata)
        self._work = MoveSteps(logs, fleet, store, self._reports)
        self._bell = asyncio.Event()
        self._clear_at_s = 0.0
        self._untold: set[str] = set()  # whose change the metadata store may not know of yet
        self._on_failed = on_failed

    def wake(self) -> None:
        """A topic has changed: it may be moving."""
        self._bell.set()
        for journey in self._journeys.values():
            journey.bell.set()

    def counts(self) -> Iterator[tuple[Sequence[str], float]]:
        """How many topics are on their way, by phase."""
        for phase in PHASES:
            yield (phase,), sum(one.phase == phase for one in self._journeys.values())

    def ages(self) -> Iterator[tuple[Sequence[str], float]]:
        """By phase, the longest time that a move has been in it, as far as this broker has seen."""
        now_s = self._clock.elapsed_s()
        for phase in PHASES:
            since = [one.since_s for one in self._journeys.values() if one.phase == phase]
            yield (phase,), now_s - min(since, default=now_s)

    async def run(self) -> None:
        """Go along with every topic that moves, as long as it does."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._bell.clear()
                for topic in self._topics.all():
                    move = topic.descriptor.moving
                    if move is not None and topic.topic_id not in self._journeys:
                        journey = TopicMove(topic, move, self._clock.elapsed_s())
                        self._journeys[topic.topic_id] = journey
                        group.create_task(self._go_along(journey), name=f"move of {topic.name}")
                await self._tell()
                await self._clear_away()
                await _rung(self._bell, PAUSE_S if self._untold else CLEARED_EVERY_S)

    async def _tell(self) -> None:
        for name in list(self._untold):
            try:
                await self._changes.finish(name)
                self._untold.discard(name)
            except KafscaleError as problem:
                logger.warning("move_not_told", topic=name, reason=str(problem))

    async def _clear_away(self) -> None:
        """Remove reports of moves that are over; one broker is enough for that."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._clear_at_s or not self._fleet.is_controller:
            return
        self._clear_at_s = now_s + CLEARED_EVERY_S
        try:
            count = await self._reports.remove_old(self._is_on)
        except KafscaleError as problem:
            logger.warning("move_reports_not_cleared", reason=str(problem))
        else:
            if count:
                logger.info("move_reports_cleared", reports=count)

    def _is_on(self, name: str, move_id: str) -> bool:
        topic = self._topics.find(name)
        move = topic.descriptor.moving if topic is not None else None
        return move is not None and move.move_id == move_id

    async def _go_along(self, journey: TopicMove) -> None:
        topic = journey.topic
        try:
            while self._topics.find(topic.name) is topic:
                journey.bell.clear()
                move = topic.descriptor.moving
                if move is None:
                    break
                if move != journey.move:
                    if move.move_id != journey.move.move_id:
                        self._work.forget(journey.move.move_id)
                    journey.become(move, self._clock.elapsed_s())
                await self._carefully(journey)
                self._look_at_the_time(journey)
                await self._rest(journey)
        finally:
            self._work.forget(journey.move.move_id)
            del self._journeys[topic.topic_id]
            self._clear_at_s = 0.0
            self._bell.set()  # it may have set out again

    def _look_at_the_time(self, journey: TopicMove) -> None:
        took_s = self._clock.elapsed_s() - journey.since_s
        if journey.move.sealing and took_s > SLOW_S and not journey.is_slow:
            journey.is_slow = True
            logger.warning("move_is_slow", topic=journey.topic.name, seconds=round(took_s))

    async def _rest(self, journey: TopicMove) -> None:
        """Until the next step is due, or the topic says otherwise; what other topics do is not."""
        until_s = asyncio.get_running_loop().time() + journey.pause_s
        while await _rung(journey.bell, until_s - asyncio.get_running_loop().time()):
            if journey.topic.descriptor.moving != journey.move:
                return
            if self._topics.find(journey.topic.name) is not journey.topic:
                return
            journey.bell.clear()

    async def _carefully(self, journey: TopicMove) -> None:
        try:
            # Where producers wait nobody waits for his turn.
            async with contextlib.nullcontext() if journey.move.sealing else self._turns:
                await self.step(journey.topic)
        except Exception as problem:
            if journey.topic.descriptor.moving != journey.move:
                return  # it has gone on meanwhile
            self._on_failed()
            if journey.fails(f"{type(problem).__name__}: {problem}"):
                # A mistake in one move must not end all others.
                is_known = isinstance(problem, KafscaleError)
                logger.warning(
                    "move_waits",
                    topic=journey.topic.name,
                    reason=journey.reason,
                    exc_info=None if is_known else problem,
                )
        else:
            if journey.reason:
                logger.info("move_goes_on", topic=journey.topic.name, failures=journey.failures)
            journey.goes_on()

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
        further: Move | None = None
        if move.sealing and move.then is not None:
            further = await self._changes.find_place(topic, *move.then)

        def changed(old: TopicDescriptor) -> TopicDescriptor:
            if old.moving != move:
                return old  # another has decided, or it is wanted elsewhere by now: look again
            if move.sealing:
                return msgspec.structs.replace(old.after_move(), moving=further)
            sealing = msgspec.structs.replace(old.moving, sealing=True)
            return msgspec.structs.replace(old, moving=sealing)

        self._untold.add(topic.name)
        try:
            await self._changes.change(topic.name, changed)
            self._untold.discard(topic.name)
        finally:
            self._topics.announce_change(topic)
        now = topic.descriptor.moving
        if now is None or now.move_id != move.move_id:
            logger.info("topic_moved", topic=topic.name, layout=move.layout, folder=move.folder)
            await self._reports.remove(topic, said)


async def _rung(bell: asyncio.Event, within_s: float) -> bool:
    """Wait for a bell; tells whether it was rung in time."""
    try:
        async with asyncio.timeout(within_s):
            return await bell.wait()
    except TimeoutError:
        return False
