"""Reading from a bucket what a lost metadata store said.

Here: topics come from their descriptors, deleted topics from their tombstones, ids and bounds from
the logs, groups from the newest checkpoint that is complete.
Next door: rebuilding the store from it (admin/bucket/recovery.py), single logs
(log/protocol/survey.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafscale.log.catalog import checkpoints
from kafscale.log.catalog.checkpoints import Checkpoint
from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.formats import keys, places
from kafscale.log.protocol import survey
from kafscale.metadata.keys import Removal
from kafscale.metadata.topic_rows import LEFT_ALONE_MS
from kafscale.model.clock import Clock
from kafscale.model.errors import CorruptObject
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore

# Brokers gave out ids after the last checkpoint that nothing in the bucket shows.
SPARE_PRODUCER_IDS: Final = 10_000_000
SPARE_EPOCHS: Final = 1000
SPARE_BROKER_IDS: Final = 100

_AT_ONCE: Final = 16
_LATE_MS: Final = 86_400_000  # no upload to a topic comes later than this after its deletion


@dataclass(slots=True)
class Evidence:
    """All that the bucket says."""

    topics: list[tuple[int, TopicDescriptor]] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)  # names whose last topic was deleted
    bounds: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    open: set[tuple[int, int]] = field(default_factory=set)  # transactions: producer, epoch
    commits: dict[tuple[int, int], int] = field(default_factory=dict)  # turns, by marker's epoch
    producer_id: int = -1
    epoch: int = -1
    logs: int = 0
    checkpoint: Checkpoint | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that are not deleted, by name."""
        return {descriptor.name: descriptor.topic_id for _, descriptor in self.topics}

    def half_committed(self) -> dict[int, list[tuple[int, int]]]:
        """Transactions that are open somewhere and committed elsewhere: epochs and turns.

        The marker of a commit has the epoch above that of the records if the client has an epoch
        for each transaction. Without, nothing tells the transaction from the producer's next one.
        """
        found: dict[int, list[tuple[int, int]]] = {}
        for producer_id, epoch in sorted(self.open):
            turn = self.commits.get((producer_id, epoch + 1))
            if turn is not None:
                found.setdefault(producer_id, []).append((epoch, turn))
        return found


Progress = Callable[[int], None]  # logs that have been read


async def gather(
    store: ObjectStore, namespace: str, clock: Clock, progress: Progress = lambda done: None
) -> Evidence:
    """Read the bucket. What cannot be read is listed in `problems`; the rest is still read."""
    evidence = Evidence()
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read(name: str) -> None:
        async with gate:
            await _read_topic(store, namespace, name, clock, evidence)

    await asyncio.gather(*map(read, await Descriptors(store, namespace).names()))
    evidence.topics.sort(key=lambda topic: topic[1].name)
    evidence.removals.sort(key=lambda removal: removal.folder)
    await _read_logs(store, evidence, progress)
    newest = await checkpoints.newest(store, namespace)
    evidence.checkpoint = newest.checkpoint
    evidence.problems += newest.problems
    return evidence


async def _read_topic(
    store: ObjectStore, namespace: str, name: str, clock: Clock, evidence: Evidence
) -> None:
    try:
        version, newest = await Descriptors(store, namespace).newest(name)
        if newest is None:
            return  # the folder never had a topic
        if newest.deleted:
            evidence.ended.add(name)
        else:
            evidence.topics.append((version, newest))
        if newest.deleted or newest.incarnation > 1 or newest.moves:
            await _find_old_places(store, namespace, newest, clock, evidence)
    except CorruptObject as bad:
        evidence.problems.append(f"topic {name}: {bad}")


async def _find_old_places(
    store: ObjectStore, namespace: str, newest: TopicDescriptor, clock: Clock, evidence: Evidence
) -> None:
    """Find places that topics of this name have left, deleted or moved, and that may have data."""
    folder = keys.descriptor_folder(namespace, newest.name)
    objects = await store.find(
        folder, after=keys.descriptor(folder, 0), before=keys.descriptors_before(folder)
    )
    now_ms = await store.now_ms()
    places_left: dict[str, Removal] = {}
    for item in objects:
        version = TopicDescriptor.decode(await store.read(item.key))
        moved = version.after_move()
        is_recent = now_ms - item.modified_ms < _LATE_MS
        for home in {version.folder: version, moved.folder: moved}.values():
            is_old = version.deleted or home.folder not in (
                newest.folder,
                newest.after_move().folder,
            )
            has_logs = home.shared or any(map(str.isdecimal, await store.folders(home.folder)))
            if is_old and (is_recent or has_logs):
                has_ended = version.deleted and home is version
                places_left[home.folder] = Removal(
                    folder=home.folder,
                    logs=home.logs,
                    deleted_ms=clock.now_ms(),
                    name=version.name if has_ended else "",
                    topic_id=version.topic_id if has_ended else "",
                    shared=home.shared,
                    after_ms=0 if version.deleted else clock.now_ms() + LEFT_ALONE_MS,
                )
    evidence.removals += places_left.values()


async def _read_logs(store: ObjectStore, evidence: Evidence, progress: Progress) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read(folder: str, topics: Sequence[TopicDescriptor]) -> None:
        async with gate:
            try:
                highest = await survey.read_highest(store, folder)
            except CorruptObject as bad:
                evidence.problems.append(f"{folder}: {bad}")
                return
            finally:
                evidence.logs += 1
                progress(evidence.logs)
        evidence.producer_id = max(evidence.producer_id, highest.producer_id)
        evidence.epoch = max(evidence.epoch, highest.epoch)
        evidence.problems += highest.problems
        for lane_transactions in highest.transactions:
            evidence.open |= {row[:2] for row in lane_transactions.open.values()}
            for marker in lane_transactions.markers.values():
                if marker.committed:
                    evidence.commits[marker.producer_id, marker.epoch] = marker.turn
        for topic in topics:
            for lane, partition in places.lanes_in(topic, folder).items():
                if lane in highest.lanes:
                    evidence.bounds[topic.name, partition] = highest.lanes[lane]

    logs: dict[str, list[TopicDescriptor]] = {}
    for _, topic in evidence.topics:
        for folder in places.log_folders(topic):
            logs.setdefault(folder, []).append(topic)
    await asyncio.gather(*(read(folder, topics) for folder, topics in logs.items()))
