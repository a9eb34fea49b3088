"""Open logs: each opened once, when first needed, and kept until it is another broker's.

Here: from (topic, partition) to a log and its lane. Next door: the log itself (log/log.py).
"""

import asyncio
import dataclasses
import math
from collections.abc import Callable, Coroutine, Iterator, Sequence

import structlog

from kafscale.engine.membership import Membership
from kafscale.engine.topics import Topic
from kafscale.log import catching_up, keys
from kafscale.log.lane import Lane
from kafscale.log.log import Log, State
from kafscale.log.tasks import Tasks
from kafscale.model.errors import (
    BadSequence,
    KafscaleError,
    NotTheOwner,
    NotWritten,
    StoreError,
    UnknownTopic,
)

logger = structlog.get_logger()

Place = tuple[bytes, int]  # topic id, log number


class Logs:
    """The logs this broker writes."""

    def __init__(self, make: Callable[[Topic, str], Log], fleet: Membership) -> None:
        """Open logs with `make`, which gets the topic and the log's folder, if they are ours."""
        self._make = make
        self._fleet = fleet
        self._tasks = Tasks()
        self.handed_over = 0
        self._open: dict[Place, Log] = {}
        self._opening: dict[Place, asyncio.Task[Log]] = {}
        self._topic_of: dict[Place, Topic] = {}
        self._failed: dict[Place, KafscaleError] = {}
        self._looking: set[str] = set()  # folders of logs that are being looked at once more
        self._ended: set[bytes] = set()  # ids of deleted topics; ids are never used again

    def find(self, topic: Topic, partition: int) -> tuple[Log, Lane] | None:
        """The partition's place if its log is open; UnknownTopic if there is no such partition."""
        number, lane = topic.place(partition)
        log = self._open.get((topic.topic_id, number))
        if log is None or not self._fleet.holds():
            return None
        log.is_used = True
        return log, log.lane(lane)

    def peek(self, topic: Topic, partition: int) -> tuple[Log, Lane] | None:
        """The same for those who only look at it: that makes no log a used one."""
        number, lane = topic.place(partition)
        log = self._open.get((topic.topic_id, number))
        return None if log is None else (log, log.lane(lane))

    def why_closed(self, topic: Topic, partition: int) -> KafscaleError:
        """What a writer should be told when `find` gives nothing."""
        failed = self._failed.get((topic.topic_id, topic.place(partition)[0]))
        if isinstance(failed, StoreError):
            return NotWritten(f"the log cannot be opened now: {failed}")
        return failed or NotTheOwner(f"the log of {topic.name}-{partition} is not open")

    async def open(
        self, topic: Topic, partition: int, *, is_wanted: bool = True
    ) -> tuple[Log, Lane]:
        """The partition's place, opening its log if need be."""
        number, lane = topic.place(partition)
        place = (topic.topic_id, number)
        log = self._open.get(place)
        if log is None or not self._fleet.holds():
            await self._fleet.require_log(topic.folder(partition))
            log = self._open.get(place)
        if log is None:
            task = self._opening.get(place)
            if task is None:
                task = asyncio.get_running_loop().create_task(self._do_open(place, topic))
                # Whoever asked may be gone when it fails; `why_closed` tells the others.
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
                self._opening[place] = task
            log = await asyncio.shield(task)
        log.is_used = log.is_used or is_wanted
        return log, log.lane(lane)

    async def _do_open(self, place: Place, topic: Topic) -> Log:
        log = self._make(topic, keys.log_folder(topic.descriptor.folder, place[1]))
        try:
            self._require_alive(topic)
            await log.open()
            self._require_alive(topic)  # it may have been deleted meanwhile
            if not self._fleet.may_open(log.folder):
                raise NotTheOwner("the log has become another broker's")
            log.newest_epoch = self._fleet.generation
        except KafscaleError as problem:
            self._failed[place] = problem
            await log.abandon()
            raise
        finally:
            self._opening.pop(place, None)
        self._failed.pop(place, None)
        self._open[place] = log
        self._topic_of[place] = topic
        _adjust(log, topic)  # its settings may have changed meanwhile
        logger.debug("log_opened", folder=log.folder, end=log.end, tail=len(log.tail))
        return log

    def _require_alive(self, topic: Topic) -> None:
        """Somebody may still hold on to a topic that is gone: its log must not come back."""
        if topic.topic_id in self._ended:
            raise UnknownTopic(f"topic {topic.name!r} has been deleted")

    def second_thoughts(self, log: Log, problem: BadSequence) -> KafscaleError:
        """What to tell a producer whose batch does not follow what we know of it.

        Other brokers may have written what we do not know of yet. Told that its sequence is wrong
        a producer begins anew, and what it had in flight would be stored twice; so the bucket is
        looked at first, and the producer asked to come again.
        """
        if not self._fleet.is_shared:
            return problem
        if log.folder not in self._looking:
            if not catching_up.is_due(log):
                return problem
            self._looking.add(log.folder)
            self._tasks.spawn(self._look_again(log), f"second look at {log.folder}")
        return NotTheOwner(f"{problem}; looking whether another broker has written")

    async def _look_again(self, log: Log) -> None:
        try:
            await catching_up.catch_up(log)
        except KafscaleError as reason:
            log.looked_s = -math.inf  # nothing has been seen
            logger.warning("look_failed", folder=log.folder, error=str(reason))
        finally:
            self._looking.discard(log.folder)

    def each(self) -> Iterator[tuple[Topic, Log]]:
        """All open logs with their topics."""
        for place, log in list(self._open.items()):
            if log.state is State.OPEN:
                yield self._topic_of[place], log

    def adjust(self, topic: Topic) -> None:
        """Let the topic's open logs go by its settings as they are now."""
        for place, log in self._open.items():
            if place[0] == topic.topic_id:
                _adjust(log, topic)

    def count(self) -> int:
        """How many logs are open."""
        return len(self._open)

    def release(self, deadline_s: float) -> Coroutine[None, None, None]:
        """Stop serving what is no longer ours, now; what is given back commits what waits there."""
        lost = [place for place, log in self._open.items() if not self._fleet.may_open(log.folder)]
        logs = [self._take_out(place) for place in lost]
        for log in logs:
            log.close_to_new()
        self.handed_over += len(logs)
        for log in self._open.values():
            log.newest_epoch = self._fleet.generation
        return _close_all(logs, deadline_s)

    def drop(self) -> None:
        """Let go of everything at once: nothing may be promised any more."""
        logs = [self._take_out(place) for place in list(self._open)]
        for log in logs:
            log.close_to_new()
            self._tasks.spawn(log.abandon(), f"dropping {log.folder}")

    def _take_out(self, place: Place) -> Log:
        self._topic_of.pop(place)
        return self._open.pop(place)

    async def close_topic(self, topic: Topic) -> None:
        """Let go of a deleted topic's logs without writing anything more."""
        self._ended.add(topic.topic_id)
        for place in [place for place in self._failed if place[0] == topic.topic_id]:
            del self._failed[place]
        for place in [place for place in self._open if place[0] == topic.topic_id]:
            await self._take_out(place).abandon()

    async def aclose(self, deadline_s: float) -> None:
        """Commit what waits in every log, then let go; give up after the deadline."""
        for task in list(self._opening.values()):
            task.cancel()
        logs = list(self._open.values())
        self._open.clear()
        await _close_all(logs, deadline_s)
        await self._tasks.aclose()


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
    log.settings = dataclasses.replace(
        log.settings,
        segment_bytes=settings.segment_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        wake_on_append=settings.fetch_buffered,
    )
