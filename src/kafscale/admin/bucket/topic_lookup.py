"""Reading a topic in the bucket without a broker.

Here: opening the configured store and finding a topic and its logs in it.
Next door: what a log consists of (log/protocol/survey.py), checking it (verification.py).
Never here: writing.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kafscale.admin.errors import AdminError
from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.formats import places
from kafscale.log.formats.places import LanePlace
from kafscale.log.protocol import survey
from kafscale.log.protocol.survey import LogSurvey
from kafscale.model.errors import InvalidTopicName
from kafscale.model.names import check_topic_name
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from kafscale.settings.stores import open_store


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[ObjectStore]:
    """Open the configured store for reading, and close it."""
    if config.store_kind == "memory":
        raise AdminError("objects in a broker's memory cannot be seen from outside")
    if config.store_kind == "files" and not Path(config.broker.data_dir).exists():
        raise AdminError(f"{config.broker.data_dir}: no such data folder (broker.dataDir)")
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
        raise AdminError(f"{name}: {bad}") from bad
    _, descriptor = await Descriptors(store, namespace).newest(name)
    if descriptor is None:
        raise AdminError(f"{name}: no such topic in namespace {namespace}")
    if descriptor.deleted:
        raise AdminError(f"{name}: the topic was deleted")
    return descriptor


def place_of(descriptor: TopicDescriptor, partition: int) -> LanePlace:
    """Say in which log and lane a partition lies."""
    try:
        return places.place(descriptor, partition)
    except IndexError as bad:
        raise AdminError(
            f"{descriptor.name}: no partition {partition}, only 0 to {descriptor.partitions - 1}"
        ) from bad


def log_folders(descriptor: TopicDescriptor, partition: int | None) -> list[str]:
    """List the logs that hold a topic, or the one that holds a partition."""
    if partition is None:
        return places.log_folders(descriptor)
    return [place_of(descriptor, partition).folder]


def log_name(descriptor: TopicDescriptor, folder: str) -> int | str:
    """Name a log as people do: its number in its topic, or `@shared/2` if many topics share it."""
    if descriptor.layout != "shared":
        return places.number_of(folder)
    return "/".join(folder.split("/")[-2:])


async def survey_log(store: ObjectStore, folder: str) -> LogSurvey:
    """Read one log's manifest and follow its tail."""
    return await survey.survey_log(store, folder, places.number_of(folder))
