"""Where a topic's partitions lie in the bucket, and what they take there.

Here: places from the topic's descriptor, objects and bytes per partition from its logs. A broker
is not asked: Kafka's protocol has no words for lanes, and a made-up setting that names them would
be sent back by every tool that copies settings.
Next door: opening the bucket (bucket.py), who prints this (topics.py). Never here: writing.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafscale.cli import bucket
from kafscale.cli.errors import CommandError
from kafscale.log.formats import keys, places, segment
from kafscale.log.protocol import commits, survey
from kafscale.model.errors import KafscaleError
from kafscale.model.names import topic_id_from_hex, topic_id_text
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.settings.config import Config, load
from kafscale.settings.values import ConfigError
from kafscale.virtual.arithmetic import place_of as place_among

_UNASKED_S: Final = 15.0  # nobody named the bucket: it must not hold up what the broker has said


class Holding(NamedTuple):
    """One partition in the bucket; None is what is not known."""

    log: int | str | None  # a number, or `@shared/2`
    lane: int | None
    objects: int | None = None  # that hold something of it
    bytes: int | None = None  # of its batches in them


class Found(NamedTuple):
    """What a bucket says of a topic."""

    partitions: dict[int, Holding]
    moving_to: str | None = None  # the layout it is on its way to
    unknown: str = ""  # why there is nothing


def look(file: Path | None, given: Mapping[str, object], name: str, topic_id: str) -> Found:
    """What the bucket has of a topic, if our settings name the broker's bucket; else why not.

    Where the caller named a bucket, what goes wrong is raised: it is what they asked for.
    """
    is_named = file is not None or bool(given)

    async def work() -> Found:
        config = load(file, os.environ, given)
        async with asyncio.timeout(None if is_named else _UNASKED_S):
            return await of_topic(config, name, topic_id)

    try:
        return asyncio.run(work())
    except TimeoutError:
        reason = f"the bucket did not answer within {_UNASKED_S:.0f} s"
    except (CommandError, ConfigError, KafscaleError) as bad:
        if is_named:
            raise
        reason = " ".join(str(bad).split())
    return Found({}, None, f"{reason}; --config with the broker's file says which bucket it uses")


def told_by(configs: Mapping[str, str], partition: int, partitions: int) -> Holding:
    """What a topic's settings alone say of a partition's place."""
    if configs.get("storage.placement") == "shared":
        return Holding(None, None)
    logs = int(configs.get("physical.partitions", -1))
    return Holding(*place_among(partition, logs if logs > 0 else partitions))


async def of_topic(config: Config, name: str, topic_id: str) -> Found:
    """What the configured bucket says of a topic; CommandError if it is another cluster's."""
    async with bucket.opened(config) as store:
        descriptor = await bucket.find_topic(store, config.storage.namespace, name)
        if topic_id_text(topic_id_from_hex(descriptor.topic_id)) != topic_id:
            raise CommandError(f"{name}: the topic of that name in this bucket is another one")
        move = descriptor.moving
        return Found(await holdings(store, descriptor), move.layout if move else None)


async def holdings(store: ObjectStore, descriptor: TopicDescriptor) -> dict[int, Holding]:
    """All partitions of a topic."""
    folders = places.log_folders(descriptor)
    found: dict[tuple[str, int], list[int]] = {}  # objects and bytes by place
    if descriptor.layout == "ordinary":
        whole = await survey.gathered(_single_lane(store, folder) for folder in folders)
        found = {(folder, 0): sizes for folder, sizes in zip(folders, whole, strict=True)}
    else:
        for folder in folders:
            await _add_lanes(found, store, folder)
    return {
        partition: Holding(
            bucket.log_name(descriptor, folder), lane, *_summary(found.get((folder, lane), ()))
        )
        for partition, (folder, lane) in places.each_place(descriptor)
    }


def _summary(sizes: Iterable[int]) -> tuple[int, int]:
    rows = list(sizes)
    return len(rows), sum(rows)


async def _single_lane(store: ObjectStore, folder: str) -> list[int]:
    """Bytes of each object of a log with one lane: names and sizes say it, nothing is opened."""
    past = await commits.read_newest(store, folder)
    listed = await store.find(
        folder, after=keys.segments_from(folder, past.end), before=keys.segments_before(folder)
    )
    tail = [row for row in listed if _is_flush(row.key)]
    return [
        *(span.length for entry in past.segments for span in entry.spans()),
        *(row.size - segment.SMALLEST for row in tail),
    ]


def _is_flush(key: str) -> bool:
    name = keys.parse_segment(key)
    return name is not None and name.generation is None and not name.is_index


async def _add_lanes(
    found: dict[tuple[str, int], list[int]], store: ObjectStore, folder: str
) -> None:
    """Add what every lane of a log has, above its start."""
    seen = await survey.snapshot(store, folder)
    starts = {lane: mark.start for lane, mark in seen.manifest.lanes.items()}
    for piece in seen.pieces:
        for span in piece.spans:
            if span.last >= starts.get(span.lane, 0):
                found.setdefault((folder, span.lane), []).append(span.length)
