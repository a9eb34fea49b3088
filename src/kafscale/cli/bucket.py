"""Looking at a topic in the bucket without a broker.

Here: opening the configured store and finding a topic in it, with words for what is missing.
Next door: what a log consists of (log/survey.py), printing it (segments.py), checking it
(verify.py). Never here: writing.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kafscale.broker.config import Config
from kafscale.cli.errors import CommandError
from kafscale.log import keys, survey
from kafscale.log.descriptors import Descriptors
from kafscale.log.survey import LogView
from kafscale.model.errors import InvalidTopicName
from kafscale.model.names import check_topic_name
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[ObjectStore]:
    """Open the configured store for looking, and close it."""
    if config.store_kind == "memory":
        raise CommandError("objects in a broker's memory cannot be seen from outside")
    if config.store_kind == "files" and not Path(config.broker.data_dir).exists():
        raise CommandError(f"{config.broker.data_dir}: no such data folder (see --data-dir)")
    from kafscale.broker.wiring import open_store

    store = open_store(config)
    try:
        yield store
    finally:
        await store.aclose()


async def find_topic(store: ObjectStore, namespace: str, name: str) -> TopicDescriptor:
    """Read the newest descriptor of a topic."""
    try:
        check_topic_name(name)
    except InvalidTopicName as bad:
        raise CommandError(f"{name}: {bad}") from bad
    _, descriptor = await Descriptors(store, namespace).newest(name)
    if descriptor is None:
        raise CommandError(f"{name}: no such topic in namespace {namespace}")
    if descriptor.deleted:
        raise CommandError(f"{name}: the topic was deleted")
    return descriptor


def log_numbers(descriptor: TopicDescriptor, partition: int | None) -> list[int]:
    """The logs to look at: all, or the one that holds a partition."""
    if partition is None:
        return list(range(descriptor.logs))
    if not 0 <= partition < descriptor.partitions:
        raise CommandError(
            f"{descriptor.name}: no partition {partition}, only 0 to {descriptor.partitions - 1}"
        )
    return [partition % descriptor.logs]


async def look_at(store: ObjectStore, descriptor: TopicDescriptor, number: int) -> LogView:
    """Read one log's manifest and follow its tail."""
    return await survey.look_at(store, keys.log_folder(descriptor.folder, number), number)
