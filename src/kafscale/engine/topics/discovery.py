"""How a broker hears of topics that it did not create itself.

Here: the watch over the topics in the metadata store, and the search in the bucket for topics that
came there without a broker. The bucket is searched for one name when a client asks for it or a job
tells of it, and now and then for all names. That stays cheap whatever clients ask for: one search
per name and second, a few at a time, some dozens a second in all. Where no search is allowed the
client is told that there is no such topic; clients ask again.
Next door: adopting a topic (lifecycle.py), what the watch tells (registry.py).
"""

import asyncio
import contextlib
from collections import OrderedDict
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.topics.lifecycle import TopicLifecycle
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.topic import Topic
from kafscale.metadata import keys
from kafscale.metadata.store import Entry, Listing, MetadataStore
from kafscale.model.clock import Clock
from kafscale.model.errors import InvalidTopicName, KafscaleError
from kafscale.model.names import check_topic_name
from kafscale.objects.store import PAGE
from kafscale.tasks import Tasks

logger = structlog.get_logger()

EVERY_S: Final = 1.0  # for one name
SCAN_EVERY_S: Final = 300.0  # for each page of names: a page is a request
AT_ONCE: Final = 16
PER_SECOND: Final = 50
_NAMES: Final = 1000  # whose last search is remembered
_KNOWN_EMPTY_PER_SCAN: Final = 100


async def watch_topics(registry: TopicRegistry, metadata: MetadataStore) -> None:
    """Tell the registry what other brokers do to topics; runs until it is cancelled."""
    async with contextlib.aclosing(metadata.watch(keys.TOPICS)) as watch:
        async for news in watch:
            if isinstance(news, Listing):
                listed = {keys.topic_named_by(entry.key) for entry in news.entries}
                gone = [name for name in sorted(registry.names()) if name not in listed]
                written = news.entries
            else:
                gone = [name for key in news.removed if (name := keys.topic_named_by(key))]
                written = news.written
            for name in gone:
                registry.apply_removal(name, news.version)
            for entry in written:
                _apply_or_log(registry, entry)


def _apply_or_log(registry: TopicRegistry, entry: Entry) -> None:
    try:
        registry.apply_entry(entry)
    except KafscaleError as problem:
        logger.error("topic_unreadable", key=entry.key, error=str(problem))


class Discovery:
    """Searches the bucket for topics that this broker does not know."""

    def __init__(
        self,
        registry: TopicRegistry,
        lifecycle: TopicLifecycle,
        cluster: Membership,
        tasks: Tasks,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._lifecycle = lifecycle
        self._cluster = cluster
        self._tasks = tasks
        self._clock = clock
        self._searches: dict[str, asyncio.Task[Topic | None]] = {}
        self._searched_s: OrderedDict[str, float] = OrderedDict()
        self._second = 0
        self._this_second = 0
        self._empty: list[str] = []  # folders without a living topic, the longest unvisited first

    async def find(self, name: str) -> Topic | None:
        """The topic of that name, if this broker knows it or the bucket has it."""
        topic = self._registry.find(name)
        if topic is not None:
            return topic
        task = self._begin(name)
        return None if task is None else await asyncio.shield(task)

    def search_soon(self, name: str) -> None:
        """A client was told that this topic is unknown: search, for its next request."""
        self._begin(name)

    def _begin(self, name: str) -> asyncio.Task[Topic | None] | None:
        """The search under way, or a new one; None if the limits allow none."""
        task = self._searches.get(name)
        if task is not None or not self._may_search(name):
            return task
        task = self._tasks.spawn(self._search(name), f"search for {name}", awaited=True)
        self._searches[name] = task
        task.add_done_callback(lambda _: self._searches.pop(name, None))
        return task

    def _may_search(self, name: str) -> bool:
        now_s = self._clock.elapsed_s()
        if now_s - self._searched_s.get(name, -EVERY_S) < EVERY_S:
            return False
        if len(self._searches) >= AT_ONCE:
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
        self._searched_s[name] = now_s
        self._searched_s.move_to_end(name)
        if len(self._searched_s) > _NAMES:
            self._searched_s.popitem(last=False)
        return True

    async def _search(self, name: str) -> Topic | None:
        try:
            topic = await self._lifecycle.adopt(name)
        except KafscaleError as problem:
            logger.warning("look_failed", topic=name, error=str(problem))
            return None
        if topic is not None:
            logger.info("topic_found", topic=name, partitions=topic.partitions)
        return topic

    # -- all of them -------------------------------------------------------------------------

    async def run(self) -> None:
        """Scan the bucket now and then, for topics that no client has asked for by name."""
        while True:
            pages = 1
            if self._cluster.is_controller:  # other brokers hear of it through the metadata store
                pages = await self.scan()
            await asyncio.sleep(SCAN_EVERY_S * pages)

    async def scan(self) -> int:
        """Visit folders that are new, and some of those where there was no topic before.

        Gives how many pages the list of names had.
        """
        try:
            names = await self._lifecycle.list_names_in_bucket()
        except KafscaleError as problem:
            logger.warning("scan_postponed", error=str(problem))
            return 1
        unknown = [name for name in names if self._registry.find(name) is None]
        still_unknown = set(unknown)
        visited = [name for name in self._empty if name in still_unknown]
        known_empty = set(visited)
        due = visited[:_KNOWN_EMPTY_PER_SCAN]
        self._empty = visited[_KNOWN_EMPTY_PER_SCAN:]
        for name in [name for name in unknown if name not in known_empty] + due:
            if await self._search(name) is None:
                self._empty.append(name)
        return -(-max(1, len(names)) // PAGE)
