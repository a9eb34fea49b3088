"""What a bucket says about the metadata that was lost.

Here: reading. Topics from their descriptors, deleted ones from their tombstones, numbers and
bounds from the logs, groups from the newest checkpoint that is whole.
Next door: what is made of it (recovery.py), single logs (log/protocol/survey.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafscale.engine.topics.records import LEFT_ALONE_MS
from kafscale.log.catalog import checkpoints
from kafscale.log.catalog.checkpoints import Checkpoint
from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.formats import keys, places
from kafscale.log.protocol import survey
from kafscale.metadata.keys import Removal
from kafscale.model.clock import Clock
from kafscale.model.errors import CorruptObject
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore

_AT_ONCE: Final = 16
_LATE_MS: Final = 86_400_000  # uploads to a topic deleted longer ago are not to be expected


@dataclass(slots=True)
class Evidence:
    """All that was found."""

    topics: list[tuple[int, TopicDescriptor]] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)  # names whose last topic was deleted
    bounds: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    producer_id: int = -1
    epoch: int = -1
    logs: int = 0
    checkpoint: Checkpoint | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def topic_ids(self) -> dict[str, str]:
        """Of the living."""
        return {descriptor.name: descriptor.topic_id for _, descriptor in self.topics}


Progress = Callable[[int], None]  # logs that have been read


async def gather(
    store: ObjectStore, namespace: str, clock: Clock, progress: Progress = lambda done: None
) -> Evidence:
    """Read the bucket. What cannot be read is among the problems, the rest is still found."""
    found = Evidence()
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> None:
        async with gate:
            await _look_at_topic(store, namespace, name, clock, found)

    await asyncio.gather(*map(one, await Descriptors(store, namespace).names()))
    found.topics.sort(key=lambda row: row[1].name)
    found.removals.sort(key=lambda row: row.folder)
    await _look_at_logs(store, found, progress)
    newest = await checkpoints.newest(store, namespace)
    found.checkpoint = newest.checkpoint
    found.problems += newest.problems
    return found


async def _look_at_topic(
    store: ObjectStore, namespace: str, name: str, clock: Clock, found: Evidence
) -> None:
    try:
        version, newest = await Descriptors(store, namespace).newest(name)
        if newest is None:
            return  # a folder that never had a topic
        if newest.deleted:
            found.ended.add(name)
        else:
            found.topics.append((version, newest))
        if newest.deleted or newest.incarnation > 1 or newest.moves:
            await _look_for_old_places(store, namespace, newest, clock, found)
    except CorruptObject as bad:
        found.problems.append(f"topic {name}: {bad}")


async def _look_for_old_places(
    store: ObjectStore, namespace: str, newest: TopicDescriptor, clock: Clock, found: Evidence
) -> None:
    """Where topics of this name have ended, or moved away, and may have left something behind."""
    folder = keys.descriptor_folder(namespace, newest.name)
    rows = await store.find(
        folder, after=keys.descriptor(folder, 0), before=keys.descriptors_before(folder)
    )
    now_ms = await store.now_ms()
    places_left: dict[str, Removal] = {}
    for row in rows:
        one = TopicDescriptor.decode(await store.read(row.key))
        is_late = now_ms - row.modified_ms < _LATE_MS
        for home in {one.folder: one, one.after_move().folder: one.after_move()}.values():
            is_old = one.deleted or home.folder not in (newest.folder, newest.after_move().folder)
            left = home.shared or any(map(str.isdecimal, await store.folders(home.folder)))
            if is_old and (is_late or left):
                has_ended = one.deleted and home is one
                places_left[home.folder] = Removal(
                    folder=home.folder,
                    logs=home.logs,
                    deleted_ms=clock.now_ms(),
                    name=one.name if has_ended else "",
                    topic_id=one.topic_id if has_ended else "",
                    shared=home.shared,
                    after_ms=0 if one.deleted else clock.now_ms() + LEFT_ALONE_MS,
                )
    found.removals += places_left.values()


async def _look_at_logs(store: ObjectStore, found: Evidence, progress: Progress) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(folder: str, topics: Sequence[TopicDescriptor]) -> None:
        async with gate:
            try:
                seen = await survey.read_highest(store, folder)
            except CorruptObject as bad:
                found.problems.append(f"{folder}: {bad}")
                return
            finally:
                found.logs += 1
                progress(found.logs)
        found.producer_id = max(found.producer_id, seen.producer_id)
        found.epoch = max(found.epoch, seen.epoch)
        found.problems += seen.problems
        for topic in topics:
            for lane, partition in places.lanes_in(topic, folder).items():
                if lane in seen.lanes:
                    found.bounds[topic.name, partition] = seen.lanes[lane]

    logs: dict[str, list[TopicDescriptor]] = {}
    for _, topic in found.topics:
        for folder in places.log_folders(topic):
            logs.setdefault(folder, []).append(topic)
    await asyncio.gather(*(one(*log) for log in logs.items()))
