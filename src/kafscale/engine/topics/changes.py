"""Changing topics that exist: settings, more partitions, another place.

Here: which descriptor a change makes, and the order in which it is written: to the bucket, to this
broker's registry, to the metadata store.
Next door: creating and deleting (lifecycle.py), what a topic does that has to move (moves/).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.topics.records import TopicRecords
from kafscale.engine.topics.registry import TopicRegistry
from kafscale.engine.topics.rules import place_of_topic
from kafscale.engine.topics.topic import Topic
from kafscale.log.catalog.descriptors import Descriptors
from kafscale.log.catalog.lane_allotment import SharedLogs
from kafscale.log.formats import keys
from kafscale.model.clock import Dice
from kafscale.model.configs.topic_configs import FIXED_AT_CREATION, TOPIC_CONFIGS, WHERE_IT_LIES
from kafscale.model.errors import (
    InvalidPartitionCount,
    InvalidTopicConfig,
    TopicMoving,
    UnknownTopic,
)
from kafscale.model.topics import LaneRange, Layout, Move, TopicDescriptor, validate_configs
from kafscale.tasks import Tasks

_ATTEMPTS: Final = 8
_HEARD_WITHIN_S: Final = 0.8
_MOVING: Final = "{} is moving to another place; try again later"

ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str | None]]
DescriptorChange = Callable[[TopicDescriptor], TopicDescriptor]


class TopicChanges:
    """Changes topics."""

    def __init__(
        self,
        registry: TopicRegistry,
        records: TopicRecords,
        descriptors: Descriptors,
        shared_logs: SharedLogs,
        cluster: Membership,
        dice: Dice,
        tasks: Tasks,
    ) -> None:
        self._registry = registry
        self._records = records
        self._descriptors = descriptors
        self._shared_logs = shared_logs
        self._cluster = cluster
        self._dice = dice
        self._tasks = tasks
        self._changing = asyncio.Lock()

    # -- settings and partitions -------------------------------------------------------------

    async def change_configs(
        self, name: str, change: ConfigChange, *, only_check: bool = False
    ) -> None:
        """Give a topic the settings that `change` makes of its own present ones."""

        for attempt in range(_ATTEMPTS):
            try:
                await self._try_configs(name, change, only_check)
                return
            except TopicMoving:
                # The topic has begun or ended a move since this broker read it, or this broker
                # has not heard of the move yet, which takes a moment.
                if attempt == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_HEARD_WITHIN_S / _ATTEMPTS)

    async def _try_configs(self, name: str, change: ConfigChange, only_check: bool) -> None:
        topic = self._registry.get(name)
        place: Move | None = None

        def read_wish(old: TopicDescriptor) -> tuple[dict[str, str], tuple[Layout, int]]:
            wanted = change(old.configs)
            validate_configs(wanted)
            given = {key: value for key, value in wanted.items() if value is not None}
            # Settings that are removed are as the broker's configuration says, the place too.
            as_new = any(key in old.configs and key not in given for key in WHERE_IT_LIES)
            configs = _still_made_of(old, given)
            return configs, self._registry.rules.laid_out(old, configs, as_new=as_new)

        def changed(old: TopicDescriptor) -> TopicDescriptor:
            configs, asked = read_wish(old)
            return _sent_to(msgspec.structs.replace(old, configs=configs), asked, place)

        _, asked = read_wish(topic.descriptor)
        if only_check:
            return
        if _needs_a_place(topic.descriptor, asked):
            place = await self.find_place(topic, *asked)
        await self._apply(name, changed)

    async def create_partitions(self, name: str, count: int, *, only_check: bool = False) -> None:
        """Give a topic more partitions."""
        topic = self._registry.get(name)
        self.check_partitions(topic, count)
        if topic.descriptor.moving is not None:
            raise TopicMoving(_MOVING.format(name))
        if only_check:
            return
        fresh = await self.allot(count - topic.partitions) if topic.uses_shared_logs else None

        def changed(old: TopicDescriptor) -> TopicDescriptor:
            if old.moving is not None:
                raise TopicMoving(_MOVING.format(name))
            if (old.layout == "shared") != (fresh is not None):
                raise TopicMoving(f"{name} has moved meanwhile; try again")
            grown = max(count, old.partitions)  # more: an earlier request that was cut short
            logs = grown if old.layout == "ordinary" else old.logs
            shared = old.shared
            if fresh is not None and grown > old.partitions:
                more = min(fresh.count, grown - old.partitions)
                grown = old.partitions + more
                shared = [*shared, msgspec.structs.replace(fresh, count=more)]
            return msgspec.structs.replace(old, partitions=grown, logs=logs, shared=shared)

        await self._apply(name, changed)

    def check_partitions(self, topic: Topic, count: int) -> None:
        """Raise what is wrong with a request for more partitions."""
        if count <= topic.partitions:
            there = f"{topic.name} has {topic.partitions} partitions already"
            raise InvalidPartitionCount(f"{there}, and they never get fewer")
        is_virtual = topic.descriptor.layout != "ordinary"
        self._registry.rules.check_count(count, is_virtual=is_virtual)

    async def _apply(self, name: str, changed: DescriptorChange) -> None:
        """Change a topic and announce it; continues when the caller is cancelled."""

        async def work() -> None:
            topic = self._registry.get(name)
            try:
                await self.change(name, changed)
            finally:
                self._registry.announce_change(topic)

        await asyncio.shield(self._tasks.spawn(work(), f"change of {name}", awaited=True))

    # -- descriptors -------------------------------------------------------------------------

    async def change(self, name: str, change: DescriptorChange) -> Topic:
        """Give a topic another descriptor: in the bucket, here, then in the metadata store.

        `change` makes the new descriptor of the newest one there is, or raises.
        """
        async with self._changing:
            topic = self._registry.get(name)
            change(topic.descriptor)  # a refused change is refused before anything is written
            await self._records.note_change(name)
            while True:
                version, newest = await self._descriptors.newest(name)
                if newest is None or not is_alive(newest, topic.descriptor.topic_id):
                    raise UnknownTopic(f"topic {name!r} has been deleted")
                wanted = change(newest)
                if wanted == newest:
                    break
                version += 1
                if await self._descriptors.put(wanted, version):
                    break
            self._registry.replace(topic, wanted, version)
            self._registry.note_version(name, await self._write_record(wanted, version))
            return topic

    async def finish(self, name: str) -> None:
        """Bring the metadata store up to what the bucket says, if a change was cut short."""
        version, newest = await self._descriptors.newest(name)
        if newest is not None and not newest.deleted:
            await self._write_record(newest, version)
            return
        stored = await self._records.read(name)
        stored_id = stored.descriptor.topic_id if stored is not None else ""
        if newest is not None and stored_id == newest.topic_id:
            await self._records.remove(newest)  # a deletion that did not reach the store
        await self._records.clear_note(name)

    async def _write_record(self, descriptor: TopicDescriptor, version: int) -> int:
        """Bring the metadata store up to date; gives its entry's version, 0 if it has another."""
        stored = await self._records.update(descriptor, version, self._registry.rules.defaults)
        if stored is None:
            return 0
        if stored.descriptor is descriptor:
            return stored.entry_version
        if self._registry.find(descriptor.name) is not None:
            # Another broker has changed the topic once more.
            self._registry.apply(*stored)
        return 0

    # -- places ------------------------------------------------------------------------------

    async def allot(self, count: int) -> LaneRange:
        """Lanes of shared logs that no topic has ever had."""
        logs = self._registry.rules.shared_logs or max(1, len(self._cluster.nodes()))
        return await self._shared_logs.allot(count, logs)

    async def find_place(self, topic: Topic, layout: Layout, logs: int) -> Move:
        """A place for a topic to move to, where no broker has ever written (rule 22)."""
        move_id = self._dice.token(8).hex()
        shared = [await self.allot(topic.partitions)] if layout == "shared" else []
        folder = keys.topic_folder(self._registry.rules.namespace, topic.name, move_id)
        return Move(move_id=move_id, layout=layout, folder=folder, logs=logs, shared=shared)


def is_alive(descriptor: TopicDescriptor, topic_id: str) -> bool:
    """Whether a descriptor is of this very topic, and the topic is not deleted."""
    return not descriptor.deleted and descriptor.topic_id == topic_id


def _needs_a_place(topic: TopicDescriptor, asked: tuple[Layout, int]) -> bool:
    """Whether the topic needs a place other than the one it has and the one it moves to."""
    if topic.moving is None:
        return asked != (topic.layout, topic.logs)
    there = (topic.moving.layout, topic.moving.logs)
    return not topic.moving.sealing and asked not in ((topic.layout, topic.logs), there)


def _sent_to(
    topic: TopicDescriptor, asked: tuple[Layout, int], place: Move | None
) -> TopicDescriptor:
    """The topic's descriptor with the move that brings it to the layout asked for.

    Once lanes are being sealed the move cannot be called off; going back is a move of its own
    (rule 24).
    """
    there = topic.after_move()
    if asked == (there.layout, there.logs):
        moving = topic.moving and msgspec.structs.replace(topic.moving, then=None)
    elif topic.moving is not None and topic.moving.sealing:
        moving = msgspec.structs.replace(topic.moving, then=asked)
    elif asked == (topic.layout, topic.logs):
        moving = None  # called off
    else:
        moving = _fits(place, topic, asked)
    return msgspec.structs.replace(topic, moving=moving)


def _fits(place: Move | None, old: TopicDescriptor, asked: tuple[Layout, int]) -> Move:
    """The place that was made for a topic, if it still fits what is asked for."""
    rooms = sum(held.count for held in place.shared) if place else 0
    if (
        place is None  # no place was needed when this change began
        or asked != (place.layout, place.logs)
        or (place.shared and rooms != old.partitions)
    ):
        raise TopicMoving(f"{old.name} has been changed meanwhile; try again")
    return place


def _still_made_of(old: TopicDescriptor, wanted: dict[str, str]) -> dict[str, str]:
    """The wanted settings, completed by those that are fixed at creation.

    Tools send back all settings that they were shown, so naming one with its present value is
    allowed.
    """
    had = old.configs
    for name, value in place_of_topic(old).items():
        if name not in had and wanted.get(name) == value:
            del wanted[name]
    own_logs = wanted.get("physical.partitions")
    if wanted.get("storage.placement") == "shared" and own_logs == had.get("physical.partitions"):
        wanted.pop(
            "physical.partitions", None
        )  # the client did not set it: it belongs to the old place
    for name in FIXED_AT_CREATION:
        is_now = had.get(name, TOPIC_CONFIGS[name].default)
        if wanted.get(name, is_now) != is_now:
            raise InvalidTopicConfig(f"{name}: can be set when the topic is created only")
    kept = {name: value for name, value in wanted.items() if name not in FIXED_AT_CREATION}
    return kept | {name: had[name] for name in FIXED_AT_CREATION if name in had}
