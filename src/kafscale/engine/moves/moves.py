"""Moving topics from one layout to another while they are used.

Here: which broker does what. The topic's descriptor and reports in the metadata store tell it. The
owner of every log that the topic moves into copies its lanes from the bucket. When all these logs
have nearly caught up, the owners of the old logs seal the old lanes: from then on producers wait.
The new owners copy the last records, and the controller writes the new place into the descriptor.
Each step can be done again, also by a broker that has become the owner of a log meanwhile: the
bucket shows how far the step has come.
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
from kafscale.engine.moves.steps import MoveStep, MoveSteps
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
URGENT_PAUSE_S: Final = 0.05  # while producers wait
PHASES: Final = ("copying", "sealing")
SLOW_S: Final = 30.0  # producers have waited too long
CLEARED_EVERY_S: Final = 600.0
RETRY: Final = RetryPolicy(first_s=PAUSE_S, longest_s=5.0)


class TopicMove:
    """One topic that moves, as this broker sees it."""

    def __init__(self, topic: Topic, move: Move, now_s: float) -> None:
        self.topic = topic
        self.bell = asyncio.Event()
        self.move = move
        self.since_s = now_s
        self.is_slow = False
        self._backoff = Backoff(RETRY)
        self.step_succeeded()

    def follow(self, move: Move, now_s: float) -> None:
        """Follow a change of the move: another target, the next phase, or another move after it."""
        is_new = (move.move_id, move.sealing) != (self.move.move_id, self.move.sealing)
        self.move = move
        if is_new:
            self.since_s = now_s
            self.is_slow = False
            self.step_succeeded()

    @property
    def phase(self) -> str:
        """The present phase, one of PHASES."""
        return "sealing" if self.move.sealing else "copying"

    def step_succeeded(self) -> None:
        """A step has succeeded."""
        self.failures = 0
        self.reason = ""
        self._backoff.restart()
        self.pause_s = URGENT_PAUSE_S if self.move.sealing and not self.is_slow else PAUSE_S

    def step_failed(self, reason: str) -> bool:
        """A step has failed: wait longer each time. Tells whether the reason is a new one."""
        self.pause_s = self._backoff.next_s()
        self.failures += 1
        is_new_reason = reason != self.reason
        self.reason = reason
        return is_new_reason


class Moves:
    """This broker's part in all moves."""

    def __init__(
        self,
        topics: TopicRegistry,
        changes: TopicChanges,
        logs: OpenLogs,
        cluster: Membership,
        store: ObjectStore,
        metadata: MetadataStore,
        clock: Clock,
        on_failed: Callable[[], None],
    ) -> None:
        """`on_failed` counts steps that failed and are tried again."""
        self._clock = clock
        self._topic_moves: dict[bytes, TopicMove] = {}  # by topic
        self._copying = asyncio.Semaphore(survey.READS_AT_ONCE)
        self._topics = topics
        self._changes = changes
        self._cluster = cluster
        self._reports = MoveReports(metadata)
        self._steps = MoveSteps(logs, cluster, store, self._reports)
        self._bell = asyncio.Event()
        self._clear_at_s = 0.0
        self._unwritten: set[str] = set()  # topics whose last change the metadata store may lack
        self._on_failed = on_failed

    def wake(self) -> None:
        """A topic has changed: it may be moving."""
        self._bell.set()
        for topic_move in self._topic_moves.values():
            topic_move.bell.set()

    def counts(self) -> Iterator[tuple[Sequence[str], float]]:
        """How many topics move, by phase."""
        for phase in PHASES:
            yield (phase,), sum(move.phase == phase for move in self._topic_moves.values())

    def ages(self) -> Iterator[tuple[Sequence[str], float]]:
        """By phase, the longest time that this broker has seen a move in it."""
        now_s = self._clock.elapsed_s()
        for phase in PHASES:
            since = [move.since_s for move in self._topic_moves.values() if move.phase == phase]
            yield (phase,), now_s - min(since, default=now_s)

    async def run(self) -> None:
        """Do this broker's steps of every move; runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._bell.clear()
                for topic in self._topics.all():
                    move = topic.descriptor.moving
                    if move is not None and topic.topic_id not in self._topic_moves:
                        topic_move = TopicMove(topic, move, self._clock.elapsed_s())
                        self._topic_moves[topic.topic_id] = topic_move
                        group.create_task(self._follow(topic_move), name=f"move of {topic.name}")
                await self._finish_changes()
                await self._remove_old_reports()
                await _is_set_within(self._bell, PAUSE_S if self._unwritten else CLEARED_EVERY_S)

    async def _finish_changes(self) -> None:
        for name in sorted(self._unwritten):
            try:
                await self._changes.finish(name)
                self._unwritten.discard(name)
            except KafscaleError as problem:
                logger.warning("move_not_told", topic=name, reason=str(problem))

    async def _remove_old_reports(self) -> None:
        """Remove reports of moves that are over. The controller does it for all brokers."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._clear_at_s or not self._cluster.is_controller:
            return
        self._clear_at_s = now_s + CLEARED_EVERY_S
        try:
            count = await self._reports.remove_old(self._is_moving)
        except KafscaleError as problem:
            logger.warning("move_reports_not_cleared", reason=str(problem))
        else:
            if count:
                logger.info("move_reports_cleared", reports=count)

    def _is_moving(self, name: str, move_id: str) -> bool:
        topic = self._topics.find(name)
        move = topic.descriptor.moving if topic is not None else None
        return move is not None and move.move_id == move_id

    async def _follow(self, topic_move: TopicMove) -> None:
        topic = topic_move.topic
        try:
            while self._topics.find(topic.name) is topic:
                topic_move.bell.clear()
                move = topic.descriptor.moving
                if move is None:
                    break
                if move != topic_move.move:
                    if move.move_id != topic_move.move.move_id:
                        self._steps.end(topic_move.move.move_id)
                    topic_move.follow(move, self._clock.elapsed_s())
                await self._try_step(topic_move)
                self._warn_if_slow(topic_move)
                await self._wait(topic_move)
        finally:
            self._steps.end(topic_move.move.move_id)
            del self._topic_moves[topic.topic_id]
            self._clear_at_s = 0.0
            self._bell.set()  # the topic may have begun another move

    def _warn_if_slow(self, topic_move: TopicMove) -> None:
        took_s = self._clock.elapsed_s() - topic_move.since_s
        if topic_move.move.sealing and took_s > SLOW_S and not topic_move.is_slow:
            topic_move.is_slow = True
            logger.warning("move_is_slow", topic=topic_move.topic.name, seconds=round(took_s))

    async def _wait(self, topic_move: TopicMove) -> None:
        """Wait until the next step is due, or until this move has changed or ended."""
        until_s = asyncio.get_running_loop().time() + topic_move.pause_s
        while await _is_set_within(topic_move.bell, until_s - asyncio.get_running_loop().time()):
            if topic_move.topic.descriptor.moving != topic_move.move:
                return
            if self._topics.find(topic_move.topic.name) is not topic_move.topic:
                return
            topic_move.bell.clear()

    async def _try_step(self, topic_move: TopicMove) -> None:
        try:
            # Steps that producers wait for do not wait for their turn.
            async with contextlib.nullcontext() if topic_move.move.sealing else self._copying:
                await self.step(topic_move.topic)
        except Exception as problem:
            if topic_move.topic.descriptor.moving != topic_move.move:
                return  # the move is in another phase by now
            self._on_failed()
            if topic_move.step_failed(f"{type(problem).__name__}: {problem}"):
                # A mistake in one move must not end all others.
                is_known = isinstance(problem, KafscaleError)
                logger.warning(
                    "move_waits",
                    topic=topic_move.topic.name,
                    reason=topic_move.reason,
                    exc_info=None if is_known else problem,
                )
        else:
            if topic_move.reason:
                logger.info(
                    "move_goes_on", topic=topic_move.topic.name, failures=topic_move.failures
                )
            topic_move.step_succeeded()

    async def step(self, topic: Topic) -> None:
        """Do this broker's part of the next step of one topic's move."""
        if topic.is_being_sealed:
            # The watch may tell late that the topic has arrived, and its readers wait.
            await self._topics.refresh(topic.name)
        # Read once: the move may end while this step waits, and the new lanes must not be sealed.
        home = topic.descriptor
        move = home.moving
        if move is None:
            return
        step = MoveStep(topic, home, move)
        reports = await self._reports.find(topic, move)
        if not step.is_valid():
            return  # the move has ended meanwhile: the topic's present lanes must not be sealed
        if move.sealing:
            await self._steps.seal_old_lanes(step, reports)
            reports = await self._reports.find(topic, move)
        await self._steps.fill_new_logs(step, reports)
        if self._cluster.is_controller:
            await self._decide(topic, home, move, await self._reports.find(topic, move))

    # -- the controller ------------------------------------------------------------------------

    async def _decide(
        self, topic: Topic, home: TopicDescriptor, move: Move, reports: Reports
    ) -> None:
        """Begin the next phase when every log is ready for it."""
        folders = places.log_folders(home.after_move())
        ready = {"done"} if move.sealing else {"near", "done"}
        if not all(folder in reports and reports[folder].state in ready for folder in folders):
            return
        next_move: Move | None = None
        if move.sealing and move.then is not None:
            next_move = await self._changes.find_place(topic, *move.then)

        def changed(old: TopicDescriptor) -> TopicDescriptor:
            if old.moving != move:
                return old  # another broker has decided, or a client has asked for another place
            if move.sealing:
                return msgspec.structs.replace(old.after_move(), moving=next_move)
            sealing = msgspec.structs.replace(old.moving, sealing=True)
            return msgspec.structs.replace(old, moving=sealing)

        self._unwritten.add(topic.name)
        try:
            await self._changes.change(topic.name, changed)
            self._unwritten.discard(topic.name)
        finally:
            self._topics.announce_change(topic)
        now = topic.descriptor.moving
        if now is None or now.move_id != move.move_id:
            logger.info("topic_moved", topic=topic.name, layout=move.layout, folder=move.folder)
            await self._reports.remove(topic, reports)


async def _is_set_within(event: asyncio.Event, within_s: float) -> bool:
    """Wait for an event; tells whether it was set in time."""
    try:
        async with asyncio.timeout(within_s):
            return await event.wait()
    except TimeoutError:
        return False
