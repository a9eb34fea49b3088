"""Administration: changing topics that exist, and questions that only administrators ask.

Here: settings, more partitions, deleting records, where leader epochs end.
Next door: creating and deleting topics (topics.py), moving log starts (log/upkeep/retention.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kafscale.engine.topics.new_places import new_place
from kafscale.engine.topics.registry import Topics
from kafscale.engine.topics.rules import place_of_topic
from kafscale.engine.topics.topic import Topic
from kafscale.model.clock import Dice
from kafscale.model.errors import (
    InvalidTopicConfig,
    TopicMoving,
)
from kafscale.model.topic_configs import FIXED_AT_CREATION, TOPIC_CONFIGS, WHERE_IT_LIES
from kafscale.model.topics import Layout, Move, TopicDescriptor, validate_configs
from kafscale.tasks import Tasks

_ATTEMPTS: Final = 8
_HEARD_WITHIN_S: Final = 0.8
_ON_ITS_WAY: Final = "{} is on its way to another place; try again later"

ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str | None]]


class Administration:
    """What an administrator can do to topics."""

    def __init__(
        self,
        topics: Topics,
        tasks: Tasks,
        dice: Dice,
        on_changed: Callable[[Topic], None],
    ) -> None:
        """Act on these parts; `on_changed` hears of what takes effect."""
        self._topics = topics
        self._tasks = tasks
        self._dice = dice
        self._on_changed = on_changed

    # -- settings and partitions -------------------------------------------------------------

    async def change_configs(
        self, name: str, change: ConfigChange, *, only_check: bool = False
    ) -> None:
        """Give a topic the settings that `change` makes of its own present ones."""

        for turn in range(_ATTEMPTS):
            try:
                await self._try_configs(name, change, only_check)
                return
            except TopicMoving:
                # It has set out, or arrived, between our look and the change; or we have not heard
                # of it yet, which takes a moment.
                if turn == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_HEARD_WITHIN_S / _ATTEMPTS)

    async def _try_configs(self, name: str, change: ConfigChange, only_check: bool) -> None:
        topic = self._topics.get(name)
        place: Move | None = None

        def looked_at(old: TopicDescriptor) -> tuple[dict[str, str], tuple[Layout, int]]:
            wanted = change(old.configs)
            validate_configs(wanted)
            given = {key: value for key, value in wanted.items() if value is not None}
            # What is taken away is as the broker's configuration says, the place included.
            anew = any(one in old.configs and one not in given for one in WHERE_IT_LIES)
            configs = _still_made_of(old, given)
            return configs, self._topics.laid_out(old, configs, anew=anew)

        def changed(old: TopicDescriptor) -> TopicDescriptor:
            configs, asked = looked_at(old)
            return _sent_to(msgspec.structs.replace(old, configs=configs), asked, place)

        _, asked = looked_at(topic.descriptor)
        if only_check:
            return
        if _needs_a_place(topic.descriptor, asked):
            place = await new_place(self._topics, topic, *asked, self._dice)
        await self._change(name, changed)

    async def create_partitions(self, name: str, count: int, *, only_check: bool = False) -> None:
        """Give a topic more partitions."""
        topic = self._topics.get(name)
        self._topics.check_partitions(topic, count)
        if topic.descriptor.moving is not None:
            raise TopicMoving(_ON_ITS_WAY.format(name))
        if only_check:
            return
        fresh = (
            await self._topics.allot(count - topic.partitions) if topic.uses_shared_logs else None
        )

        def changed(old: TopicDescriptor) -> TopicDescriptor:
            if old.moving is not None:
                raise TopicMoving(_ON_ITS_WAY.format(name))
            if (old.layout == "shared") != (fresh is not None):
                raise TopicMoving(f"{name} has moved meanwhile; try again")
            grown = max(count, old.partitions)  # more: an earlier wish that was cut short
            logs = grown if old.layout == "ordinary" else old.logs
            shared = old.shared
            if fresh is not None and grown > old.partitions:
                more = min(fresh.count, grown - old.partitions)
                grown = old.partitions + more
                shared = [*shared, msgspec.structs.replace(fresh, count=more)]
            return msgspec.structs.replace(old, partitions=grown, logs=logs, shared=shared)

        await self._change(name, changed)

    async def _change(
        self, name: str, changed: Callable[[TopicDescriptor], TopicDescriptor]
    ) -> None:
        """Goes on when nobody waits for it any more, and takes effect at once."""

        async def work() -> None:
            topic = self._topics.get(name)
            try:
                await self._topics.change(name, changed)
            finally:
                self._on_changed(topic)

        await asyncio.shield(self._tasks.spawn(work(), f"change of {name}", awaited=True))


def _needs_a_place(topic: TopicDescriptor, asked: tuple[Layout, int]) -> bool:
    """Whether it has to set out for somewhere else than where it is, or goes."""
    if topic.moving is None:
        return asked != (topic.layout, topic.logs)
    there = (topic.moving.layout, topic.moving.logs)
    return not topic.moving.sealing and asked not in ((topic.layout, topic.logs), there)


def _sent_to(
    topic: TopicDescriptor, asked: tuple[Layout, int], place: Move | None
) -> TopicDescriptor:
    """The topic on its way to where it is wanted, whatever way it is on.

    Once it is said that lanes are sealed there is no way back but by a move of its own (rule 24).
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
    """The place that was found for a topic, if it is still what is asked for."""
    rooms = sum(held.count for held in place.shared) if place else 0
    if (
        place is None  # none was needed, when we looked
        or asked != (place.layout, place.logs)
        or (place.shared and rooms != old.partitions)
    ):
        raise TopicMoving(f"{old.name} has been changed meanwhile; try again")
    return place


def _still_made_of(old: TopicDescriptor, wanted: dict[str, str]) -> dict[str, str]:
    """The wanted settings, with those of its making that never change.

    Tools send back all that they were shown: to name one as it is does no harm.
    """
    had = old.configs
    for name, value in place_of_topic(old).items():
        if name not in had and wanted.get(name) == value:
            del wanted[name]
    own_logs = wanted.get("physical.partitions")
    if wanted.get("storage.placement") == "shared" and own_logs == had.get("physical.partitions"):
        wanted.pop("physical.partitions", None)  # nobody asks for it: it goes with the old place
    for name in FIXED_AT_CREATION:
        is_now = had.get(name, TOPIC_CONFIGS[name].default)
        if wanted.get(name, is_now) != is_now:
            raise InvalidTopicConfig(f"{name}: can be set when the topic is created only")
    kept = {name: value for name, value in wanted.items() if name not in FIXED_AT_CREATION}
    return kept | {name: had[name] for name in FIXED_AT_CREATION if name in had}
