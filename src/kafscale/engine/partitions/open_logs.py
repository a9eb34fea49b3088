"""Open logs: each opened once, when first needed, and kept until it is another broker's.

Here: from (topic, partition) to a log and its lane. Next door: the log itself (log/writer/log.py).
"""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
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


class OpenLogs:
    """The logs this broker writes, by the folders they lie in."""

    def __init__(self, make: Callable[[Topic | None, str], Log], fleet: Membership) -> None:
        """Open logs with `make`, if they are ours.

        It gets the topic and the log's folder; no topic where many share the log.
        """
        self._make = make
        self._fleet = fleet
        self._tasks = Tasks()
        self.handed_over = 0
        self._open: dict[str, Log] = {}
        self._opening: dict[str, asyncio.Task[Log]] = {}
        self._gate = PriorityGate(AT_ONCE)
        self._topic_of: dict[str, Topic] = {}  # of logs that are one topic's own
        self._failed: dict[str, KafscaleError] = {}
        self._looking: set[str] = set()  # folders of logs that are being looked at once more
        # Hears of batches that waited in vain, in a place that takes nothing any more.
        self.on_turned_away: Callable[[str, int, BatchHeader], None] = lambda *_: None
        self._ended: set[bytes] = set()  # ids of deleted topics; ids are never used again
        # Places that `find` has found, by topic, with the descriptor they were found by.
        self._found: dict[bytes, tuple[TopicDescriptor, dict[int, tuple[Log, Lane]]]] = {}

    def find(self, topic: Topic, partition: int) -> tuple[Log, Lane] | None:
        """The partition's place if its log is open; UnknownTopic if there is no such partition."""
        place = self.found(topic).get(partition)
        if place is not None:
            return place
        folder, number = topic.place(partition)
        log = self._open.get(folder)
        if log is None or not self._fleet.holds() or topic.topic_id in self._ended:
            return None
        log.mark_used()
        place = log, _lane(log, number, topic, partition)
        found = self._found.get(topic.topic_id)
        if found is None or found[0] is not topic.descriptor:
            found = self._found[topic.topic_id] = (topic.descriptor, {})
        found[1][partition] = place
        return place

    def found(self, topic: Topic) -> Mapping[int, tuple[Log, Lane]]:
        """What `find` gave for a topic's partitions and would give again; good until an await."""
        found = self._found.get(topic.topic_id)
        if found is None or found[0] is not topic.descriptor or not self._fleet.holds():
            return {}
        return found[1]

    def peek(self, topic: Topic, partition: int) -> tuple[Log, Lane] | None:
        """The same for those who only look at it: that makes no log a used one."""
        folder, number = topic.place(partition)
        log = self._open.get(folder)
        return None if log is None else (log, log.lane(number))

    def is_open(self, folder: str) -> bool:
        """Whether the log that lies there is open."""
        return folder in self._open

    def closed_reason(self, topic: Topic, partition: int) -> KafscaleError:
        """What a writer should be told when `find` gives nothing."""
        if topic.topic_id in self._ended:
            return UnknownTopic(f"topic {topic.name!r} has been deleted")
        failed = self._failed.get(topic.folder(partition))
        if isinstance(failed, StoreError):
            return NotWritten(f"the log cannot be opened now: {failed}")
        return failed or NotTheOwner(f"the log of {topic.name}-{partition} is not open")

    async def open(self, topic: Topic, partition: int) -> tuple[Log, Lane]:
        """The partition's place, opening its log if need be."""
        self._require_alive(topic)
        folder, number = topic.place(partition)
        log = await self.open_log(folder, None if topic.uses_shared_logs else topic)
        log.mark_used()
        return log, _lane(log, number, topic, partition)

    async def open_log(self, folder: str, topic: Topic | None, *, urgent: bool = True) -> Log:
        """The log that lies there, opened if need be. `topic`: whose own it is.

        `urgent`: a client waits for it, and it comes before those that nobody has asked for.
        """
        log = self._open.get(folder)
        if log is None or not self._fleet.holds():
            await self._fleet.require_log(folder)
            log = self._open.get(folder)
        if log is None:
            task = self._opening.get(folder)
            if task is None:
                work = self._do_open(folder, topic, urgent=urgent)
                task = asyncio.get_running_loop().create_task(work)
                # Whoever asked may be gone when it fails; `closed_reason` tells the others.
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
                self._opening[folder] = task
            elif urgent:
                self._gate.promote(folder)
            log = await asyncio.shield(task)
        return log

    async def _do_open(self, folder: str, topic: Topic | None, *, urgent: bool) -> Log:
        log, generation = self._make(topic, folder), self._fleet.generation
        try:
            self._require_alive(topic)
            async with self._gate.hold(folder, urgent=urgent):
                await log.open()
                while generation != self._fleet.generation:
                    # Others may have had it since we looked: what they have shown must not go back.
                    await log.abandon()
                    log, generation = self._make(topic, folder), self._fleet.generation
                    await log.open()
            self._require_alive(topic)  # it may have been deleted meanwhile
            if not self._fleet.may_open(folder):
                raise NotTheOwner("the log has become another broker's")
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
            _adjust(log, topic)  # its settings may have changed meanwhile
        logger.debug(
            "log_opened", folder=folder, end=log.committed.end, tail=len(log.committed.tail)
        )
        return log

    def _turned_away(self, lost: list[PendingBatch]) -> None:
        for row in lost:
            if row.lane.whose is not None:
                self.on_turned_away(*row.lane.whose, row.header)

    def _require_alive(self, topic: Topic | None) -> None:
        """Somebody may still hold on to a topic that is gone: its log must not come back."""
        if topic is not None and topic.topic_id in self._ended:
            raise UnknownTopic(f"topic {topic.name!r} has been deleted")

    def retry_or_reject(self, log: Log, problem: BadSequence) -> KafscaleError:
        """What to tell a producer whose batch does not follow what we know of it.

        Other brokers may have written what we do not know of yet. Told that its sequence is wrong
        a producer begins anew, and what it had in flight would be stored twice; so the bucket is
        looked at first, and the producer asked to come again.
        """
        if not self._fleet.has_peers:
            return problem
        if log.folder not in self._looking:
            if not log.late_writes.is_due():
                return problem
            self._looking.add(log.folder)
            self._tasks.spawn(self._look_again(log), f"second look at {log.folder}")
        return NotTheOwner(f"{problem}; looking whether another broker has written")

    async def _look_again(self, log: Log) -> None:
        try:
            await log.late_writes.catch_up()
        except KafscaleError as reason:
            log.late_writes.forget()  # nothing has been seen
            logger.warning("look_failed", folder=log.folder, error=str(reason))
        finally:
            self._looking.discard(log.folder)

    def each(self) -> Iterator[tuple[Topic | None, Log]]:
        """All open logs with their topics; None for those that many share."""
        for folder, log in list(self._open.items()):
            if log.state is LogState.OPEN:
                yield self._topic_of.get(folder), log

    def adjust(self, topic: Topic) -> None:
        """Let the topic's open logs go by its settings as they are now."""
        for folder in self._own(topic):
            _adjust(self._open[folder], topic)

    def _own(self, topic: Topic) -> list[str]:
        return [folder for folder, one in self._topic_of.items() if one.topic_id == topic.topic_id]

    def count(self) -> int:
        """How many logs are open."""
        return len(self._open)

    def stopped(self) -> int:
        """How many of our logs are of no use, because their objects contradict each other."""
        found = sum(log.state is LogState.STOPPED for log in self._open.values())
        return found + sum(
            isinstance(problem, LogStopped) and self._fleet.may_open(folder)
            for folder, problem in self._failed.items()
        )

    def release(self, deadline_s: float) -> Coroutine[None, None, None]:
        """Stop serving what is no longer ours, now; what is given back commits what waits there."""
        lost = [folder for folder in self._open if not self._fleet.may_open(folder)]
        logs = [self._take_out(folder) for folder in lost]
        for log in logs:
            log.close_to_new()
        self.handed_over += len(logs)
        for log in self._open.values():
            log.note_generation(self._fleet.generation)
        return _close_all(logs, deadline_s)

    def drop(self) -> None:
        """Let go of everything at once: nothing may be promised any more."""
        logs = [self._take_out(folder) for folder in list(self._open)]
        for log in logs:
            log.close_to_new()
            self._tasks.spawn(log.abandon(), f"dropping {log.folder}")

    def _take_out(self, folder: str) -> Log:
        self._found.clear()
        self._topic_of.pop(folder, None)
        return self._open.pop(folder)

    async def close_topic(self, topic: Topic) -> None:
        """Let go of a deleted topic's logs without writing anything more."""
        self._ended.add(topic.topic_id)
        self._found.pop(topic.topic_id, None)
        for folder in places.own_folders(topic.descriptor):
            self._failed.pop(folder, None)
        for folder in self._own(topic):
            await self._take_out(folder).abandon(for_ever=True)
        if topic.uses_shared_logs:
            self._wake(topic)

    def leave(self, topic: Topic) -> None:
        """Let go of logs that a topic has moved away from."""
        homes = {
            *places.own_folders(topic.descriptor),
            *places.own_folders(topic.descriptor.after_move()),
        }
        for folder in self._own(topic):
            if folder not in homes:
                log = self._take_out(folder)
                log.close_to_new()
                self._tasks.spawn(log.abandon(), f"leaving {folder}")

    def seal(self, topic: Topic) -> None:
        """Let nobody write to a deleted topic's lanes of logs that go on, not even who hears late.

        Whoever wants the name waits for these seals, and sets them itself if they do not come.
        """
        gone = topic.descriptor
        moving_to = gone.moving.shared if gone.moving else []
        for folder, number in places.lanes_of([*gone.shared, *moving_to]):
            log = self._open.get(folder)
            if log is not None:
                try:
                    log.seal(number)
                except KafscaleError as reason:
                    logger.info("lane_not_sealed", folder=folder, reason=str(reason))

    def _wake(self, topic: Topic) -> None:
        """Let whoever waits for a topic's records look again."""
        for _, (folder, number) in places.each_place(topic.descriptor):
            log = self._open.get(folder)
            if log is not None and number in log.lanes:
                log.lanes[number].wake()

    async def aclose(self, deadline_s: float) -> None:
        """Commit what waits in every log, then let go; give up after the deadline."""
        for task in list(self._opening.values()):
            task.cancel()
        logs = list(self._open.values())
        self._found.clear()
        self._open.clear()
        self._topic_of.clear()
        await _close_all(logs, deadline_s)
        await self._tasks.aclose()


def _lane(log: Log, number: int, topic: Topic, partition: int) -> Lane:
    lane = log.lane(number)
    # The rules as they are now: settings change while a log is open.
    lane.serve(topic.name, partition, topic.lane_rules)
    return lane


async def _close_all(logs: Sequence[Log], deadline_s: float) -> None:
    closing = [asyncio.ensure_future(log.aclose()) for log in logs]
    if not closing:
        return
    _, late = await asyncio.wait(closing, timeout=deadline_s)
    for one in closing:
        if one in late:
            one.cancel()
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
