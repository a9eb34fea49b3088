"""Following what other brokers do to topics.

Here: the watch over all topics. Next door: what a broker knows of them (topics.py).
"""

import contextlib

import structlog

from kafscale.engine.topics.registry import Topics
from kafscale.metadata import keys
from kafscale.metadata.store import Entry, Listing
from kafscale.model.errors import KafscaleError

logger = structlog.get_logger()


async def follow_topics(topics: Topics) -> None:
    """Let `topics` hear of everything, for ever."""
    async with contextlib.aclosing(topics.metadata.watch(keys.TOPICS)) as watch:
        async for news in watch:
            if isinstance(news, Listing):
                there = {keys.topic_named_by(entry.key) for entry in news.entries}
                gone = [topic.name for topic in topics.all() if topic.name not in there]
                written = news.entries
            else:
                gone = [name for key in news.removed if (name := keys.topic_named_by(key))]
                written = news.written
            for name in gone:
                topics.hear_of_end(name, news.version)
            for entry in written:
                _tell(topics, entry)


def _tell(topics: Topics, entry: Entry) -> None:
    try:
        topics.hear_of(entry)
    except KafscaleError as problem:
        logger.error("topic_unreadable", key=entry.key, error=str(problem))
