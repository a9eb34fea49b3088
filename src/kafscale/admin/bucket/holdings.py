"""Where a topic's partitions lie in the bucket, and what they take there.

Here: places from the topic's descriptor, objects and bytes per partition from its logs. A broker
is not asked: Kafka's protocol has no words for lanes, and every tool that copies settings would
copy an invented setting that names them.
Next door: opening the bucket (bucket.py), the command (cli/brokers/topics.py). Never here: writing.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafscale.admin.bucket import topic_lookup
from kafscale.admin.errors import AdminError
from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.formats import keys, places, segment
from kafscale.log.protocol import commits, survey
from kafscale.model.errors import KafscaleError
from kafscale.model.names import topic_id_from_hex, topic_id_text
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config
from kafscale.settings.loading import load
from kafscale.settings.values import ConfigError
from kafscale.virtual.arithmetic import place_of as place_among

_HOW: Final = "--config with the broker's file says which bucket it uses"
_UNASKED_S: Final = 15.0  # for a bucket that the caller did not name: the broker has answered


class Holding(NamedTuple):
    """One partition in the bucket; None is what is not known."""

    log: int | str | None  # a number, or `@shared/2`
    lane: int | None
    objects: int | None = None  # that hold something of it
    bytes: int | None = None  # of its batches in them


class TopicHoldings(NamedTuple):
    """What a bucket holds of a topic."""

    partitions: dict[int, Holding]
    moving_to: str | None = None  # the layout it is on its way to
    unknown: str = ""  # why there is nothing


def find_holdings(
    file: Path | None, given: Mapping[str, object], name: str, topic_id: str
) -> TopicHoldings:
    """Read what the bucket holds of a topic, if the settings name the broker's bucket.

    Else the answer says why not; where the caller named a bucket, that is raised.
    """
    is_named = file is not None or bool(given)

    async def work() -> TopicHoldings:
        config = load(file, os.environ, given)
        if not is_named and config.store_kind == "files" and not _is_here(config):
            return TopicHoldings({}, None, _HOW)
        async with asyncio.timeout(None if is_named else _UNASKED_S):
            return await read_topic(config, name, topic_id)

    try:
        return asyncio.run(work())
    except TimeoutError:
        reason = f"the bucket did not answer within {_UNASKED_S:.0f} s"
    except (AdminError, ConfigError, KafscaleError) as bad:
        if is_named:
            raise
        reason = " ".join(str(bad).split())
    return TopicHoldings({}, None, f"{reason}; {_HOW}")


def _is_here(config: Config) -> bool:
    """Whether there is a data folder where the broker's would be: it may run elsewhere."""
    return Path(config.broker.data_dir).exists()


def place_by_configs(configs: Mapping[str, str], partition: int, partitions: int) -> Holding:
    """Say where a partition lies by the topic's settings alone."""
    if configs.get("storage.placement") == "shared":
        return Holding(None, None)
    logs = int(configs.get("physical.partitions", -1))
    return Holding(*place_among(partition, logs if logs > 0 else partitions))


async def read_topic(config: Config, name: str, topic_id: str) -> TopicHoldings:
    """Read a topic in the configured bucket; AdminError if it is another cluster's topic."""
    async with topic_lookup.opened(config) as store:
        descriptor = await topic_lookup.find_topic(store, config.storage.namespace, name)
        if topic_id_text(topic_id_from_hex(descriptor.topic_id)) != topic_id:
            raise AdminError(f"{name}: the topic of that name in this bucket is another one")
        move = descriptor.moving
        return TopicHoldings(await list_holdings(store, descriptor), move.layout if move else None)


async def list_holdings(store: ObjectStore, descriptor: TopicDescriptor) -> dict[int, Holding]:
    """List what every partition of a topic takes."""
    folders = places.log_folders(descriptor)
    sizes: dict[tuple[str, int], list[int]] = {}  # of each object, by log and lane
    if descriptor.layout == "ordinary":
        whole = await survey.await_limited(_single_lane(store, folder) for folder in folders)
        sizes = {(folder, 0): bytes_ for folder, bytes_ in zip(folders, whole, strict=True)}
    else:
        for folder in folders:
            await _add_lanes(sizes, store, folder)
    return {
        partition: Holding(
            topic_lookup.log_name(descriptor, folder),
            lane,
            *_summary(sizes.get((folder, lane), ())),
        )
        for partition, (folder, lane) in places.each_place(descriptor)
    }


async def list_shared_bytes(store: ObjectStore, namespace: str) -> dict[str, int]:
    """Count what each topic has in the logs that topics of a namespace share."""
    every = await Descriptors(store, namespace).all()
    topics = [descriptor for descriptor in every if descriptor.layout == "shared"]
    sizes: dict[tuple[str, int], list[int]] = {}
    for folder in sorted({folder for topic in topics for folder in places.log_folders(topic)}):
        await _add_lanes(sizes, store, folder)
    return {
        topic.name: sum(sum(sizes.get(place, ())) for _, place in places.each_place(topic))
        for topic in topics
    }


def _summary(sizes: Iterable[int]) -> tuple[int, int]:
    each = list(sizes)
    return len(each), sum(each)


async def _single_lane(store: ObjectStore, folder: str) -> list[int]:
    """Bytes of each object of a log with one lane: names and sizes say it, nothing is opened."""
    past = await commits.read_newest(store, folder)
    listed = await store.find(
        folder, after=keys.segments_from(folder, past.end), before=keys.segments_before(folder)
    )
    tail = [row for row in listed if keys.is_flush(row.key)]
    return [
        *(span.length for entry in past.segments for span in entry.spans()),
        *(row.size - segment.SMALLEST for row in tail),
    ]


async def _add_lanes(
    sizes: dict[tuple[str, int], list[int]], store: ObjectStore, folder: str
) -> None:
    """Add what every lane of a log has, above its start."""
    seen = await survey.take_snapshot(store, folder)
    starts = {lane: mark.start for lane, mark in seen.manifest.lanes.items()}
    for piece in seen.pieces:
        for span in piece.spans:
            if span.last >= starts.get(span.lane, 0):
                sizes.setdefault((folder, span.lane), []).append(span.length)
