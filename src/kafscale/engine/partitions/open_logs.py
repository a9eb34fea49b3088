"""Open logs: each opened once, when first needed, and kept until another broker owns it.

Here: from (topic, partition) to a log and its lane. `resolve` is the one look-up; `resolved` gives
its results for a whole topic, and `open` opens the log first if need be.
Next door: the log itself (log/writer/log.py), opening ahead of clients (opener.py).
"""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.partitions.priority_gate import PriorityGate
from kafscale.engine.topics.topic import Topic
from kafscale.log.formats import places
from kafscale.log.writer.flush_queue import PendingBatch
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.model.errors import (
    BadSequence,
    KafscaleError,
    LogStopped,
    NotTheOwner,
    NotWritten,
    StoreError,
    UnknownTopic,
)
from kafscale.model.topics import TopicDescriptor
from kafscale.records.batch import BatchHeader
from kafscale.tasks import Tasks

logger = structlog.get_logger()

AT_ONCE: Final = 64  # logs being opened: a bucket is far away, and each is a few requests in a row


# A partition whose log is open here. Good until an await: then it may have been closed or moved.
# A plain tuple: taking a named one apart costs more, for each of a thousand partitions of a fetch.
OpenPartition = tuple[Log, Lane]


class OpenLogs:
    """The logs this broker writes, by the folders they lie in."""

    def __init__(
        self,
        make: Callable[[Topic | None, str], Log],
        cluster: Membership,
        on_turned_away: Callable[[str, int, BatchHeader], None],
    ) -> None:
        """Open logs with `make`, if they are this broker's.

        `make` gets the topic and the log's folder; None where many topics share the log.
        `on_turned_away` hears topic, partition and header of each batch that was waiting for its
        commit in a place that takes nothing any more.
        """
        self._make = make
        self._cluster = cluster
        self._tasks = Tasks()
        self.handed_over = 0  # logs that have gone to other brokers
        self._open: dict[str, Log] = {}  # this and the following by folder
        self._opening: dict[str, asyncio.Task[Log]] = {}
        self._gate = PriorityGate(AT_ONCE)
        self._topic_of: dict[str, Topic] = {}  # of logs that belong to one topic
        self._failed: dict[str, KafscaleError] = {}
        self._catching_up: set[str] = set()  # folders of logs
        self._on_turned_away = on_turned_away
        self._ended: set[bytes] = set()  # ids of deleted topics; ids are never used again
        # What `resolve` has given, by topic, with the descriptor that it went by.
        self._resolved: dict[bytes, tuple[TopicDescriptor, dict[int, OpenPartition]]] = {}

    def resolve(self, topic: Topic, partition: int) -> OpenPartition | None:
        """The partition if its log is open; UnknownTopic if the topic has no such partition."""
        opened = self.resolved(topic).get(partition)
        if opened is not None:
            return opened
        folder, number = topic.place(partition)
        log = self._open.get(folder)
        if log is None or not self._cluster.holds() or topic.topic_id in self._ended:
            return None
        opened = _use(log, number, topic, partition)
        self._follow(topic)[partition] = opened
        return opened

    def resolved(self, topic: Topic) -> Mapping[int, OpenPartition]:
        """The topic's partitions that `resolve` has given, and would give again now.

        For loops over very many partitions; the others have to be asked for one by one.
        """
        remembered = self._resolved.get(topic.topic_id)
        if remembered is None or remembered[0] is not topic.descriptor or not self._cluster.holds():
            return {}
        return remembered[1]

    async def open(self, topic: Topic, partition: int) -> OpenPartition:
        """Resolve a partition, after opening its log if need be."""
        opened = self.resolve(topic, partition)
        if opened is not None:
            return opened
        self._require_alive(topic)
        folder, number = topic.place(partition)
        log = await self.open_log(folder, None if topic.uses_shared_logs else topic)
        return _use(log, number, topic, partition)

    def list_closed(self, topic: Topic, partitions: Iterable[int]) -> list[int]:
        """Those of the partitions that exist and whose logs are not open."""
        opened = self.resolved(topic)
        return [
            partition
            for partition in partitions
            if partition not in opened
            and 0 <= partition < topic.partitions
            and self.resolve(topic, partition) is None
        ]

    def is_open(self, folder: str) -> bool:
        """Whether the log in this folder is open."""
        return folder in self._open

    def closed_reason(self, topic: Topic, partition: int) -> KafscaleError:
        """What to tell a writer when `resolve` gives None."""
        if topic.topic_id in self._ended:
            return UnknownTopic(f"topic {topic.name!r} has been deleted")
        failed = self._failed.get(topic.folder(partition))
        if isinstance(failed, StoreError):
            return NotWritten(f"the log cannot be opened now: {failed}")
        return failed or NotTheOwner(f"the log of {topic.name}-{partition} is not open")

    async def open_log(self, folder: str, topic: Topic | None, *, urgent: bool = True) -> Log:
        """The log in this folder, opened if need be. `topic`: the one that it belongs to alone.

        `urgent`: a client waits for it, so it comes before logs that no client has asked for.
        """
        log = self._open.get(folder)
        if log is None or not self._cluster.holds():
            await self._cluster.require_log(folder)
            log = self._open.get(folder)
        if log is None:
            task = self._opening.get(folder)
            if task is None:
                work = self._do_open(folder, topic, urgent=urgent)
                task = asyncio.get_running_loop().create_task(work)
                # The caller may be gone when it fails; `closed_reason` tells the next one.
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
                self._opening[folder] = task
            elif urgent:
                self._gate.promote(folder)
            log = await asyncio.shield(task)
        return log

    async def _do_open(self, folder: str, topic: Topic | None, *, urgent: bool) -> Log:
        log, generation = self._make(topic, folder), self._cluster.generation
        try:
            self._require_alive(topic)
            async with self._gate.hold(folder, urgent=urgent):
                await log.open()
                while generation != self._cluster.generation:
                    # Another broker may have owned the log since this one read it. What its
                    # readers have seen must not disappear.
                    await log.abandon()
                    log, generation = self._make(topic, folder), self._cluster.generation
                    await log.open()
            self._require_alive(topic)  # the topic may have been deleted meanwhile
            if not self._cluster.may_open(folder):
                raise NotTheOwner("the log belongs to another broker now")
        except KafscaleError as problem:
            self._failed[folder] = problem
            await log.abandon()
            raise
        finally:
            self._opening.pop(folder, None)
        self._failed.pop(folder, None)
        self._open[folder] = log
        log.report_turned_away(self._turned_away)
        if topic is not None:
            self._topic_of[folder] = topic
            _adjust(log, topic)  # the settings may have changed meanwhile
        logger.debug(
            "log_opened", folder=folder, end=log.committed.end, tail=len(log.committed.tail)
        )
        return log

    def _turned_away(self, lost: list[PendingBatch]) -> None:
        for pending in lost:
            if pending.lane.whose is not None:
                self._on_turned_away(*pending.lane.whose, pending.header)

    def _require_alive(self, topic: Topic | None) -> None:
        """Refuse a deleted topic, which a caller may still hold: its log must not come back."""
        if topic is not None and topic.topic_id in self._ended:
            raise UnknownTopic(f"topic {topic.name!r} has been deleted")

    def retry_or_reject(self, log: Log, problem: BadSequence) -> KafscaleError:
        """What to tell a producer whose batch does not follow the last one that this broker knows.

        Another broker may have written batches that this one has not read yet. A producer that
        hears of a wrong sequence starts again, and what it had in flight would be stored twice.
        So the broker reads the bucket first, and asks the producer to send the batch again.
        """
        if not self._cluster.has_peers:
            return problem
        if log.folder not in self._catching_up:
            if not log.late_writes.is_due():
                return problem
            self._catching_up.add(log.folder)
            self._tasks.spawn(self._catch_up(log), f"catching up {log.folder}")
        return NotTheOwner(f"{problem}; looking whether another broker has written")

    async def _catch_up(self, log: Log) -> None:
        try:
            await log.late_writes.catch_up()
        except KafscaleError as reason:
            log.late_writes.forget()  # the bucket was not read
            logger.warning("look_failed", folder=log.folder, error=str(reason))
        finally:
            self._catching_up.discard(log.folder)

    def each(self) -> Iterator[tuple[Topic | None, Log]]:
        """All open logs with their topics; None for a log that many topics share."""
        for folder, log in list(self._open.items()):
            if log.state is LogState.OPEN:
                yield self._topic_of.get(folder), log

    def adjust(self, topic: Topic) -> None:
        """Apply the topic's present settings to its open logs."""
        for folder in self._own(topic):
            _adjust(self._open[folder], topic)

    def _own(self, topic: Topic) -> list[str]:
        return [
            folder for folder, owner in self._topic_of.items() if owner.topic_id == topic.topic_id
        ]

    def count(self) -> int:
        """How many logs are open."""
        return len(self._open)

    def stopped(self) -> int:
        """How many logs of this broker have stopped because their objects contradict each other."""
        while_open = sum(log.state is LogState.STOPPED for log in self._open.values())
        return while_open + sum(
            isinstance(problem, LogStopped) and self._cluster.may_open(folder)
            for folder, problem in self._failed.items()
        )

    def release(self, deadline_s: float) -> Coroutine[None, None, None]:
        """Stop serving the logs that other brokers own. Awaited, commits what waits in them."""
        lost = [folder for folder in self._open if not self._cluster.may_open(folder)]
        logs = self._take_out(lost)
        for log in logs:
            log.close_to_new()
        self.handed_over += len(logs)
        for log in self._open.values():
            log.note_generation(self._cluster.generation)
        return _close_all(logs, deadline_s)

    def drop(self) -> None:
        """Close all logs at once, without a last commit: the lease is lost."""
        logs = self._take_out(list(self._open))
        for log in logs:
            log.close_to_new()
            self._tasks.spawn(log.abandon(), f"dropping {log.folder}")

    def _take_out(self, folders: Sequence[str]) -> list[Log]:
        """Take logs out of service; the caller closes them."""
        if folders:
            for _, partitions in self._resolved.values():
                partitions.clear()  # the descriptor stays, for `_follow`
        for folder in folders:
            self._topic_of.pop(folder, None)
        return [self._open.pop(folder) for folder in folders]

    async def close_topic(self, topic: Topic) -> None:
        """Close a deleted topic's logs without writing anything more."""
        self._ended.add(topic.topic_id)
        self._resolved.pop(topic.topic_id, None)
        for folder in places.own_folders(topic.descriptor):
            self._failed.pop(folder, None)
        for log in self._take_out(self._own(topic)):
            await log.abandon(is_ended=True)
        if topic.uses_shared_logs:
            self._wake(topic.descriptor)

    def leave(self, topic: Topic) -> None:
        """Close the logs that a topic has moved away from, and wake the readers of moved lanes."""
        homes = {
            *places.own_folders(topic.descriptor),
            *places.own_folders(topic.descriptor.after_move()),
        }
        for log in self._take_out([one for one in self._own(topic) if one not in homes]):
            log.close_to_new()
            self._tasks.spawn(log.abandon(), f"leaving {log.folder}")
        if topic.topic_id in self._resolved:
            self._follow(topic)

    def _follow(self, topic: Topic) -> dict[int, OpenPartition]:
        """What was resolved by the present descriptor. If the topic has moved, wake its readers.

        Shared logs stay open when a topic moves away, so no end of a log wakes these readers.
        """
        known = self._resolved.get(topic.topic_id)
        if known is not None and known[0] is topic.descriptor:
            return known[1]
        fresh: dict[int, OpenPartition] = {}
        self._resolved[topic.topic_id] = topic.descriptor, fresh
        if known is not None and known[0].moves != topic.descriptor.moves:
            self._wake(known[0])
        return fresh

    def seal(self, topic: Topic) -> None:
        """Seal a deleted topic's lanes of shared logs, against writers that hear of it late.

        A broker that creates a topic of this name waits for these seals, and sets them itself if
        they do not come.
        """
        deleted = topic.descriptor
        moving_to = deleted.moving.shared if deleted.moving else []
        for folder, number in places.lanes_of([*deleted.shared, *moving_to]):
            log = self._open.get(folder)
            if log is not None:
                try:
                    log.seal(number)
                except KafscaleError as reason:
                    logger.info("lane_not_sealed", folder=folder, reason=str(reason))

    def _wake(self, topic: TopicDescriptor) -> None:
        """Wake the readers that wait for a topic's records."""
        for _, (folder, number) in places.each_place(topic):
            log = self._open.get(folder)
            if log is not None and number in log.lanes:
                log.lanes[number].wake()

    async def aclose(self, deadline_s: float) -> None:
        """Commit what waits in every log and close it; give up after the deadline."""
        for task in list(self._opening.values()):
            task.cancel()
        logs = list(self._open.values())
        self._resolved.clear()
        self._open.clear()
        self._topic_of.clear()
        await _close_all(logs, deadline_s)
        await self._tasks.aclose()


def _use(log: Log, number: int, topic: Topic, partition: int) -> OpenPartition:
    """A lane as its partition's topic wants it now: settings change while a log is open."""
    lane = log.lane(number)
    lane.serve(topic.name, partition, topic.lane_rules)
    return log, lane


async def _close_all(logs: Sequence[Log], deadline_s: float) -> None:
    tasks = Tasks()
    closing = [tasks.spawn(log.aclose(), f"close {log.folder}", awaited=True) for log in logs]
    if not closing:
        return
    _, late = await asyncio.wait(closing, timeout=deadline_s)
    for task in closing:  # in their order: `late` is a set
        if task in late:
            task.cancel()
    results = await asyncio.gather(*closing, return_exceptions=True)
    for log, result in zip(logs, results, strict=True):
        if isinstance(result, BaseException):
            logger.error("log_not_flushed", folder=log.folder, reason=repr(result))


def _adjust(log: Log, topic: Topic) -> None:
    settings = topic.settings
    log.use(
        dataclasses.replace(
            log.settings,
            segment_bytes=settings.segment_bytes,
            index_interval_bytes=settings.index_interval_bytes,
        )
    )
