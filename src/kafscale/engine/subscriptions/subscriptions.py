"""The facade of this sub-room: what a door may do with subscriptions.

Here: finding, loading and creating subscriptions, and what concerns one as a whole. A subscription
without consumers is not in memory: the store has all of it.
Next door: a consumer's verbs (attached.py), what doors implement (ports.py), one that is served
(serving.py), where they are kept (cursors.py).
"""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import Final

import structlog

from kafscale.engine.cluster.membership import Membership
from kafscale.engine.coordinator.offsets import check_group_id
from kafscale.engine.partitions.visibility import READ_COMMITTED
from kafscale.engine.subscriptions.attached import Attached, ServingChanges
from kafscale.engine.subscriptions.cursors import Cursor
from kafscale.engine.subscriptions.ports import (
    EARLIEST,
    LATEST,
    Description,
    Framing,
    Receiver,
    SubscriptionName,
    Wish,
)
from kafscale.engine.subscriptions.serving import Serving, Surroundings
from kafscale.engine.topics.topic import Topic
from kafscale.model.errors import (
    ConsumerBusy,
    InvalidRequest,
    KafscaleError,
    NotTheOwner,
    SubscriptionExists,
    SubscriptionNotFound,
    UnknownTopic,
)
from kafscale.records.batch import BatchHeader
from kafscale.subscriptions.events import (
    DEFAULT_RULES,
    AcknowledgeSpans,
    Attach,
    MessageRun,
    Seek,
    SubscriptionRules,
)
from kafscale.subscriptions.machine import SubscriptionMachine
from kafscale.subscriptions.snapshot import CursorSnapshot

logger = structlog.get_logger()

MOST_PROPERTY_BYTES: Final = 16 << 10

_Key = tuple[str, bytes, int]  # group, topic id, partition


class WholeBatches(Framing):
    """Each batch is one entry: for questions that no door asks."""

    def frame(
        self, batch: memoryview, header: BatchHeader, *, by_key: bool
    ) -> Sequence[MessageRun]:
        """One run."""
        return (MessageRun(header.base_offset, header.next_offset),)


class Subscriptions(ServingChanges):
    """The subscriptions of the partitions that this broker owns."""

    def __init__(
        self,
        around: Surroundings,
        cluster: Membership,
        rules: SubscriptionRules = DEFAULT_RULES,
    ) -> None:
        self._around = around
        self._cluster = cluster
        self._rules = rules
        self._serving: dict[_Key, Serving] = {}
        self._locks: dict[_Key, asyncio.Lock] = {}
        self._ids = count(1)

    def __len__(self) -> int:
        """Count the subscriptions in memory."""
        return len(self._serving)

    # -- consumers ---------------------------------------------------------------------------

    async def attach(
        self, name: SubscriptionName, wish: Wish, framing: Framing, receiver: Receiver
    ) -> Attached:
        """Attach a consumer, after creating the subscription if it is new.

        It gets nothing before its first `permit`. Raises NotTheOwner, ConsumerBusy, KeyRangeTaken,
        SubscriptionNotFound (if it may not be created), UnknownTopic.
        """
        check_group_id(name.group_id)
        async with self._lock(name):
            serving = self._serving.get(_key(name))
            if serving is None:
                serving = await self._load_or_create(name, wish, framing)
            elif (serving.cursor is not None) != wish.is_durable:
                raise ConsumerBusy("the subscription is durable or not, and has consumers")
            elif bool(serving.machine.rules.lock_ms) != bool(wish.rules and wish.rules.lock_ms):
                raise ConsumerBusy("the subscription has consumers with another kind of locks")
            self._require_owner(name)
            consumer = next(self._ids)
            self._serving[_key(name)] = serving
            serving.add_receiver(consumer, receiver, framing)
            try:
                serving.handle(
                    Attach(
                        consumer=consumer,
                        name=wish.name,
                        mode=wish.mode,
                        priority=wish.priority,
                        key_ranges=wish.key_ranges,
                        epoch=wish.epoch,
                    )
                )
            except KafscaleError:
                serving.drop_receiver(consumer)
                raise
            return Attached(serving, consumer, self)

    async def _load_or_create(
        self, name: SubscriptionName, wish: Wish, framing: Framing
    ) -> Serving:
        if not wish.is_durable:
            start = await self._start(name, wish.start, wish.start_ms)
            return self._make(name, None, CursorSnapshot(start), framing, wish)
        loaded = await self._load(name)
        if loaded is None:
            if not wish.may_create:
                raise SubscriptionNotFound(f"there is no subscription {name.group_id!r}")
            start = await self._start(name, wish.start, wish.start_ms)
            cursor = await self._create(name, start, wish.properties)
            loaded = cursor, CursorSnapshot(start)
        return self._make(name, *loaded, framing, wish)

    async def _load(self, name: SubscriptionName) -> tuple[Cursor, CursorSnapshot] | None:
        """Read a subscription, once the partition is open here."""
        bounds = await self._around.partitions.bounds(name.topic, name.partition, -1)
        loaded = await self._around.cursors.load(name)
        if loaded is None:
            return None
        cursor, saved = loaded
        if saved.acknowledged_to < bounds.start:
            spans = [span for span in saved.spans if span[1] > bounds.start]
            saved = CursorSnapshot(bounds.start, spans, saved.returned)
        return cursor, saved

    async def _create(
        self, name: SubscriptionName, start: int, properties: dict[str, str]
    ) -> Cursor:
        if sum(len(key) + len(value) for key, value in properties.items()) > MOST_PROPERTY_BYTES:
            raise InvalidRequest(f"properties take more than {MOST_PROPERTY_BYTES} characters")
        cursor = await self._around.cursors.create(name, start, properties)
        logger.info("subscription_created", group=name.group_id, topic=name.topic.name)
        return cursor

    def _make(
        self,
        name: SubscriptionName,
        cursor: Cursor | None,
        saved: CursorSnapshot,
        framing: Framing,
        wish: Wish | None = None,
    ) -> Serving:
        rules, isolation = self._rules, READ_COMMITTED
        if wish is not None:
            rules, isolation = wish.rules or rules, wish.isolation
        machine = SubscriptionMachine(saved, seat=name.partition, rules=rules)
        return Serving(name, self._around, machine, cursor, framing, self._became_idle, isolation)

    async def _start(self, name: SubscriptionName, offset: int, at_ms: int = -1) -> int:
        """The offset that a start means now."""
        partitions = self._around.partitions
        bounds = await partitions.bounds(name.topic, name.partition, -1)
        if at_ms >= 0:
            found = await partitions.offset_at(name.topic, name.partition, at_ms)
            return bounds.end if found is None else found[0]
        if offset == EARLIEST:
            return bounds.start
        if offset == LATEST:
            return bounds.end
        return min(max(offset, bounds.start), bounds.end)

    def _require_owner(self, name: SubscriptionName) -> None:
        """After a wait: the partition may have become another broker's."""
        if not self._cluster.may_open(name.topic.folder(name.partition)):
            raise NotTheOwner(f"{name.topic.name}-{name.partition} is another broker's")

    def _lock(self, name: SubscriptionName) -> asyncio.Lock:
        """One change of a subscription at a time."""
        locks, key = self._locks, _key(name)
        if len(locks) > 2 * len(self._serving) + 100:
            self._locks = locks = {one: lock for one, lock in locks.items() if lock.locked()}
        return locks.setdefault(key, asyncio.Lock())

    def _became_idle(self, serving: Serving) -> None:
        """The last consumer has gone: save, then forget."""
        if serving.is_over or serving.cursor is None:
            self._forget(serving)
        else:
            self._around.tasks.spawn(
                self._save_and_forget(serving), "subscription without consumer"
            )

    async def _save_and_forget(self, serving: Serving) -> None:
        try:
            await self.settle(serving)
        except KafscaleError as problem:
            logger.warning(
                "subscription_not_saved", group=serving.name.group_id, error=str(problem)
            )
            return  # it stays in memory, and is saved later
        if not serving.machine.consumer_count:
            self._forget(serving)

    def _forget(self, serving: Serving) -> None:
        if self._serving.get(_key(serving.name)) is serving:
            del self._serving[_key(serving.name)]

    # -- a subscription as a whole -----------------------------------------------------------

    async def settle(self, serving: Serving) -> None:
        """Save what has changed."""
        if serving.cursor is not None and not serving.is_over:
            # A client that goes meanwhile must not cut off a write that others wait for, too.
            saving = self._around.cursors.save(serving.cursor)
            task = self._around.tasks.spawn(saving, "saving a subscription", awaited=True)
            await asyncio.shield(task)

    async def seek(self, serving: Serving, offset: int) -> None:
        """Go on from an offset, EARLIEST or LATEST; all consumers are disconnected."""
        await self._seek(serving, await self._start(serving.name, offset))

    async def seek_time(self, serving: Serving, at_ms: int) -> None:
        """Go on from the first message of this time or later."""
        await self._seek(serving, await self._start(serving.name, LATEST, max(0, at_ms)))

    async def _seek(self, serving: Serving, start: int) -> None:
        if serving.is_over:
            raise NotTheOwner("the subscription has gone")
        serving.handle(Seek(start))
        await self.settle(serving)

    async def remove(self, serving: Serving) -> None:
        """Delete a subscription; its consumers are told."""
        cursor = serving.cursor
        if cursor is not None:
            await self._around.cursors.remove(cursor)
        serving.end(SubscriptionNotFound("the subscription was deleted"))

    # -- administration ----------------------------------------------------------------------

    async def create(self, name: SubscriptionName, start: int, properties: dict[str, str]) -> None:
        """Create a durable subscription without a consumer. Raises SubscriptionExists."""
        check_group_id(name.group_id)
        async with self._lock(name):
            if _key(name) in self._serving:
                raise SubscriptionExists(f"there is a subscription {name.group_id!r}")
            await self._create(name, await self._start(name, start), properties)

    async def delete(self, name: SubscriptionName, *, force: bool = False) -> None:
        """Delete a subscription. Raises ConsumerBusy if it has consumers and not `force`."""
        async with self._lock(name):
            serving = await self._get(name)
            if serving.machine.consumer_count and not force:
                raise ConsumerBusy("the subscription has consumers")
            await self.remove(serving)

    async def reset(self, name: SubscriptionName, offset: int, at_ms: int = -1) -> None:
        """Have it go on from an offset, EARLIEST or LATEST, or from a time.

        Its consumers are disconnected and attach again.
        """
        async with self._lock(name):
            serving = await self._get(name)
            await self._seek(serving, await self._start(name, offset, at_ms))

    async def skip(self, name: SubscriptionName, messages: int) -> None:
        """Acknowledge the next messages of the backlog."""
        async with self._lock(name):
            serving = await self._get(name)
            bounds = await self._around.partitions.bounds(name.topic, name.partition, -1)
            machine = serving.machine
            end = machine.acknowledged_to
            for first, after in machine.unacknowledged(machine.acknowledged_to, bounds.end):
                end = min(after, first + messages)
                messages -= end - first
                if not messages:
                    break
            serving.handle(AcknowledgeSpans([(machine.acknowledged_to, end)]))
            await self.settle(serving)

    async def unload(self, topic: Topic, partition: int) -> None:
        """Have the consumers of a partition look it up again; what they acknowledged is saved."""
        here = [
            serving
            for serving in self._serving.values()
            if serving.name.topic.topic_id == topic.topic_id and serving.name.partition == partition
        ]
        cursors = [
            serving.cursor for serving in here if serving.cursor is not None and not serving.is_over
        ]
        for serving in here:
            serving.end(NotTheOwner("the partition was unloaded"))
        await self._around.cursors.save_all(cursors)

    async def _get(self, name: SubscriptionName) -> Serving:
        """A subscription, in memory or not. Raises SubscriptionNotFound."""
        serving = self._serving.get(_key(name))
        if serving is None:
            loaded = await self._load(name)
            if loaded is None:
                raise SubscriptionNotFound(f"there is no subscription {name.group_id!r}")
            serving = self._make(name, *loaded, WholeBatches())
        return serving

    async def list(self, topic: Topic) -> list[tuple[str, int]]:
        """Group ids and partitions of all durable subscriptions of a topic, on any broker."""
        return await self._around.cursors.list(topic.name, topic.descriptor.topic_id)

    async def describe(self, name: SubscriptionName) -> Description:
        """A subscription as it is now. Raises SubscriptionNotFound."""
        serving = await self._get(name)
        bounds = await self._around.partitions.bounds(name.topic, name.partition, -1)
        machine, cursor = serving.machine, serving.cursor
        left = bounds.end - max(machine.acknowledged_to, bounds.start)
        return Description(
            group_id=name.group_id,
            is_durable=cursor is not None,
            created_at="" if cursor is None else cursor.created_at,
            properties={} if cursor is None else cursor.properties,
            acknowledged_to=machine.acknowledged_to,
            backlog=max(0, left - machine.acknowledged_beyond),
            census=machine.census() if machine.consumer_count else None,
        )

    # -- for the engine ----------------------------------------------------------------------

    def release(self) -> Coroutine[None, None, None]:
        """Stop serving, now, what other brokers own; the coroutine saves it."""
        lost = [
            serving
            for serving in self._serving.values()
            if not self._cluster.may_open(serving.name.topic.folder(serving.name.partition))
        ]
        cursors = [
            serving.cursor for serving in lost if serving.cursor is not None and not serving.is_over
        ]
        for serving in lost:
            serving.end(NotTheOwner("the partition is another broker's"))
        return self._around.cursors.save_all(cursors)

    def drop(self) -> None:
        """Stop serving everything: the lease is lost."""
        for serving in list(self._serving.values()):
            serving.end(NotTheOwner("the broker has lost its lease"))

    def topic_gone(self, topic: Topic) -> None:
        """A topic has been deleted."""
        for serving in list(self._serving.values()):
            if serving.name.topic.topic_id == topic.topic_id:
                serving.end(UnknownTopic(f"topic {topic.name!r} has been deleted"))

    async def aclose(self) -> None:
        """Save what is not saved yet, and tell the consumers that the broker stops."""
        cursors = [
            serving.cursor for serving in self._serving.values() if serving.cursor is not None
        ]
        for serving in list(self._serving.values()):
            serving.end(NotTheOwner("the broker stops"))
        await self._around.cursors.save_all(cursors)


def _key(name: SubscriptionName) -> _Key:
    return name.group_id, name.topic.topic_id, name.partition
