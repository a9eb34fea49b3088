"""Topics that came into the bucket without a broker, found when they are wanted.

Here: looking for one name when a client asks for it, and now and then for all of them. What is
asked for costs little: one look per name and second, whoever asks and however often, a few
looks at a time, some dozens a second in all. Who is not looked for is told that there is no
such topic, and asks again.
Next door: taking a topic up (topics.py).
"""

import asyncio
from collections import OrderedDict
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.topics.registry import Topics
from kafscale.engine.topics.topic import Topic
from kafscale.model.clock import Clock
from kafscale.model.errors import InvalidTopicName, KafscaleError
from kafscale.model.names import check_topic_name
from kafscale.tasks import Tasks

logger = structlog.get_logger()

EVERY_S: Final = 1.0  # for one name
SCAN_EVERY_S: Final = 30.0
AT_ONCE: Final = 16
PER_SECOND: Final = 50
_NAMES: Final = 1000  # whose last look is remembered
_KNOWN_EMPTY_PER_SCAN: Final = 100


class Discovery:
    """Looks into the bucket for topics this broker does not know."""

    def __init__(self, topics: Topics, tasks: Tasks, clock: Clock, fleet: Membership) -> None:
        """Take up what is found into `topics`."""
        self._fleet = fleet
        self._topics = topics
        self._tasks = tasks
        self._clock = clock
        self._looking: dict[str, asyncio.Task[Topic | None]] = {}
        self._looked_s: OrderedDict[str, float] = OrderedDict()
        self._second = 0
        self._this_second = 0
        self._empty: list[str] = []  # folders without a living topic, the longest unvisited first

    async def look_for(self, name: str) -> Topic | None:
        """The topic of that name, if there is one, here or in the bucket."""
        topic = self._topics.find(name)
        if topic is not None:
            return topic
        task = self._begin(name)
        return None if task is None else await asyncio.shield(task)

    def notice(self, name: str) -> None:
        """Somebody wanted this topic and was told that it is unknown: look, for the next time."""
        self._begin(name)

    def _begin(self, name: str) -> asyncio.Task[Topic | None] | None:
        """A look that is under way, a new one, or None where that would be too much."""
        task = self._looking.get(name)
        if task is not None or not self._may_look(name):
            return task
        task = self._tasks.spawn(self._look(name), f"looking for {name}", awaited=True)
        self._looking[name] = task
        task.add_done_callback(lambda _: self._looking.pop(name, None))
        return task

    def _may_look(self, name: str) -> bool:
        now_s = self._clock.elapsed_s()
        if now_s - self._looked_s.get(name, -EVERY_S) < EVERY_S or len(self._looking) >= AT_ONCE:
            return False
        try:
            check_topic_name(name)
        except InvalidTopicName:
            return False
        if int(now_s) != self._second:
            self._second, self._this_second = int(now_s), 0
        self._this_second += 1
        if self._this_second > PER_SECOND:
            return False
        self._looked_s[name] = now_s
        self._looked_s.move_to_end(name)
        if len(self._looked_s) > _NAMES:
            self._looked_s.popitem(last=False)
        return True

    async def _look(self, name: str) -> Topic | None:
        try:
            found = await self._topics.adopt(name)
        except KafscaleError as problem:
            logger.warning("look_failed", topic=name, error=str(problem))
            return None
        if found is not None:
            logger.info("topic_found", topic=name, partitions=found.partitions)
        return found

    # -- all of them -------------------------------------------------------------------------

    async def scan_for_ever(self) -> None:
        """Find what nobody has asked for by name."""
        while True:
            if self._fleet.is_controller:  # the others hear of it through the metadata store
                await self.scan()
            await asyncio.sleep(SCAN_EVERY_S)

    async def scan(self) -> None:
        """Visit folders that are new, and some of those where there was no topic before."""
        try:
            names = await self._topics.names_in_bucket()
        except KafscaleError as problem:
            logger.warning("scan_postponed", error=str(problem))
            return
        unknown = [name for name in names if self._topics.find(name) is None]
        still = set(unknown)
        visited = [name for name in self._empty if name in still]
        known_empty = set(visited)
        some = visited[:_KNOWN_EMPTY_PER_SCAN]
        self._empty = visited[_KNOWN_EMPTY_PER_SCAN:]
        for name in [name for name in unknown if name not in known_empty] + some:
            if await self._look(name) is None:
                self._empty.append(name)
