"""Where subscriptions are kept: a committed offset, and a row beside it, written together.

Here: reading, creating, saving and removing them. The committed offset is an ordinary one, so that
tools for groups show how far a subscription has come; the row has the rest. Subscriptions that have
changed are saved together, at most a second later.
Next door: committed offsets of consumer groups (coordinator/offsets.py), the machine that changes
(serving.py), the bytes of spans (subscriptions/snapshot.py).

The owner of a partition writes, not the coordinator of the group. Each write compares both rows
with what this broker knows of them. A broker that has lost the partition cannot save any more, and
an offset that a tool has committed meanwhile is found: the subscription goes on from there.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

import structlog

from kafscale.engine.cluster.identity import Identity
from kafscale.engine.coordinator.offsets import OffsetEvents
from kafscale.engine.subscriptions.ports import SubscriptionName
from kafscale.metadata import keys
from kafscale.metadata.keys import CommittedOffset, SubscriptionRow
from kafscale.metadata.store import MAX_OPERATIONS, Compare, Entry, MetadataStore, Put, Remove
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    KafscaleError,
    MetadataConflict,
    MetadataUnavailable,
    NotTheOwner,
    SubscriptionExists,
    SubscriptionNotFound,
)
from kafscale.model.topics import iso_time
from kafscale.subscriptions.snapshot import (
    CursorSnapshot,
    decode_returned,
    decode_spans,
    encode_returned,
    encode_spans,
)
from kafscale.tasks import Tasks

logger = structlog.get_logger()

SAVED_WITHIN_S: Final = 1.0
_AT_ONCE: Final = MAX_OPERATIONS // 2  # two writes and two guards for each
_MOST_SPANS: Final = 30_000  # in one commit: they take up to 27 bytes each
_PAGE: Final = 1000
_ATTEMPTS: Final = 4


class CursorEvents(Protocol):
    """What a cursor asks and tells the subscription that it keeps."""

    def snapshot(self) -> CursorSnapshot:
        """What is to be saved."""

    def moved(self, offset: int) -> None:
        """A tool has committed another offset: go on from there."""

    def lost(self, problem: KafscaleError) -> None:
        """The subscription is another broker's, or was deleted."""


class Cursor:
    """A subscription in the store, as this broker knows it."""

    __slots__ = (
        "_offset_version",
        "_row_version",
        "created_at",
        "events",
        "is_own",
        "is_removed",
        "name",
        "properties",
        "written",
    )

    def __init__(
        self,
        name: SubscriptionName,
        created_at: str,
        properties: dict[str, str],
        versions: tuple[int, int] = (0, 0),
    ) -> None:
        self.name = name
        self.created_at = created_at
        self.properties = properties
        self.events: CursorEvents | None = None
        self.written = b""  # the row that was last tried to write
        self.is_own = True  # this broker wrote it last
        self.is_removed = False
        self._row_version, self._offset_version = versions

    @property
    def row_key(self) -> str:
        """The key of its row."""
        return keys.subscription(self.name.topic.name, self.name.group_id, self.name.partition)

    @property
    def offset_key(self) -> str:
        """The key of its committed offset."""
        return keys.group_offset(self.name.group_id, self.name.topic.name, self.name.partition)

    def guards(self) -> list[Compare]:
        """Both rows are as this broker knows them."""
        return [
            Compare(self.row_key, self._row_version),
            Compare(self.offset_key, self._offset_version),
        ]

    def note(self, row_version: int, offset_version: int) -> None:
        """The store has these versions."""
        self._row_version, self._offset_version = row_version, offset_version

    def has_row(self, entry: Entry | None) -> bool:
        """Whether the row in the store is the one that this broker knows, or has written."""
        if entry is None:
            return not self._row_version
        return entry.version == self._row_version or entry.value == self.written


class Cursors:
    """Keeps the subscriptions of this broker in the metadata store."""

    def __init__(
        self,
        metadata: MetadataStore,
        identity: Identity,
        clock: Clock,
        tasks: Tasks,
        events: OffsetEvents,
    ) -> None:
        self._metadata = metadata
        self._identity = identity
        self._clock = clock
        self._tasks = tasks
        self._events = events
        self._dirty: dict[Cursor, None] = {}
        self._writing = asyncio.Lock()
        self._timer: asyncio.Task[None] | None = None

    # -- reading -----------------------------------------------------------------------------

    async def load(self, name: SubscriptionName) -> tuple[Cursor, CursorSnapshot] | None:
        """Take over a subscription: this broker saves it from now on. None if there is none."""
        loaded = await self.peek(name)
        if loaded is not None and not loaded[0].is_own:
            # From now on the broker that wrote it before cannot save it any more.
            await self._write([loaded])
        return loaded

    async def peek(self, name: SubscriptionName) -> tuple[Cursor, CursorSnapshot] | None:
        """A subscription as the store has it; None if there is none."""
        cursor = Cursor(name, "", {})
        row_entry = await self._metadata.get(cursor.row_key)
        offset_entry = await self._metadata.get(cursor.offset_key)
        if row_entry is None or offset_entry is None:
            return None  # without its committed offset it was deleted by a tool for groups
        row = keys.decode(SubscriptionRow, row_entry.value)
        committed = keys.decode(CommittedOffset, offset_entry.value)
        topic_id = name.topic.descriptor.topic_id
        if row.topic_id != topic_id or committed.topic_id not in ("", topic_id):
            return None  # of a topic of the same name that was deleted
        cursor.created_at, cursor.properties = row.created_at, row.properties
        cursor.note(row_entry.version, offset_entry.version)
        saved = CursorSnapshot(committed.offset)
        if committed.offset == row.acknowledged_to:
            saved = CursorSnapshot(
                committed.offset,
                decode_spans(committed.offset, row.spans),
                decode_returned(committed.offset, row.returned),
            )
        writer = (row.broker_id, row.broker_epoch)
        cursor.is_own = writer == (self._identity.broker_id, self._identity.epoch)
        return cursor, saved

    async def create(
        self, name: SubscriptionName, start: int, properties: dict[str, str]
    ) -> Cursor:
        """Write a new subscription. Raises SubscriptionExists."""
        return await self._begin(name, start, properties, may_exist=False)

    async def overwrite(self, name: SubscriptionName, start: int) -> None:
        """Begin anew at an offset, whatever was there; the owner finds out when it saves."""
        await self._begin(name, start, {}, may_exist=True)

    async def _begin(
        self, name: SubscriptionName, start: int, properties: dict[str, str], *, may_exist: bool
    ) -> Cursor:
        cursor = Cursor(name, iso_time(self._clock.now_ms()), properties)
        for _ in range(_ATTEMPTS):
            if not may_exist and await self.peek(name) is not None:
                raise SubscriptionExists(f"there is a subscription {name.group_id!r}")
            row_entry = await self._metadata.get(cursor.row_key)
            offset_entry = await self._metadata.get(cursor.offset_key)
            cursor.note(_version(row_entry), _version(offset_entry))
            try:
                await self._write([(cursor, CursorSnapshot(start))])
                return cursor
            except MetadataConflict:
                continue
        raise MetadataUnavailable(f"subscription {name.group_id!r} changes all the time")

    async def list(self, topic: str, topic_id: str) -> list[tuple[str, int]]:
        """Groups and partitions of all subscriptions of a topic."""
        listed: list[tuple[str, int]] = []
        after = ""
        prefix = keys.subscriptions(topic)
        while entries := await self._metadata.find(prefix, after=after, limit=_PAGE):
            for entry in entries:
                place = keys.subscription_named_by(entry.key)
                row = keys.decode(SubscriptionRow, entry.value)
                if place is not None and row.topic_id == topic_id:
                    listed.append(place[1:])
            after = entries[-1].key
        return listed

    # -- saving ------------------------------------------------------------------------------

    def save_soon(self, cursor: Cursor) -> None:
        """Save a subscription within a second, with all others that change until then."""
        self._dirty[cursor] = None
        self._begin_timer()

    def _begin_timer(self) -> None:
        if self._timer is None:
            self._timer = self._tasks.spawn(self._save_later(), "saving subscriptions")

    async def _save_later(self) -> None:
        try:
            while self._dirty:
                await asyncio.sleep(SAVED_WITHIN_S)
                try:
                    await self._save_dirty()
                except KafscaleError as problem:
                    logger.warning("subscriptions_not_saved", error=str(problem))
        finally:
            self._timer = None

    async def save(self, cursor: Cursor) -> None:
        """Save a subscription now, and others that have changed."""
        self._dirty[cursor] = None
        async with self._writing:
            while cursor in self._dirty:
                await self._save_next()

    async def save_all(self, cursors: Sequence[Cursor]) -> None:
        """Save these if the store can be reached."""
        self._dirty |= dict.fromkeys(cursors)
        try:
            await self._save_dirty()
        except KafscaleError as problem:
            logger.warning("subscriptions_not_saved", error=str(problem))

    async def _save_dirty(self) -> None:
        async with self._writing:
            while self._dirty:
                await self._save_next()

    async def _save_next(self) -> None:
        """Save the subscriptions that have waited for the longest."""
        page = list(islice(self._dirty, _AT_ONCE))
        for cursor in page:
            del self._dirty[cursor]
        try:
            await self._save_page(page)
        except MetadataUnavailable:
            self._dirty = dict.fromkeys(page) | self._dirty
            self._begin_timer()
            raise

    async def _save_page(self, page: Sequence[Cursor]) -> None:
        live: list[tuple[Cursor, CursorSnapshot]] = []
        spans = 0
        for cursor in page:
            if cursor.events is None or cursor.is_removed:
                continue
            snapshot = cursor.events.snapshot()
            spans += len(snapshot.spans)
            if live and spans > _MOST_SPANS:
                self._dirty[cursor] = None  # the next page has it
            else:
                live.append((cursor, snapshot))
        try:
            if live:
                await self._write(live)
        except MetadataConflict:
            for cursor, _ in live:
                await self._save_alone(cursor)

    async def _save_alone(self, cursor: Cursor) -> None:
        for _ in range(_ATTEMPTS):
            if cursor.events is None or cursor.is_removed:
                return
            try:
                await self._write([(cursor, cursor.events.snapshot())])
                return
            except MetadataConflict:
                await self._look_again(cursor, cursor.events)
        raise MetadataUnavailable(f"subscription {cursor.name.group_id!r} changes all the time")

    async def _look_again(self, cursor: Cursor, events: CursorEvents) -> None:
        """Find out what has changed in the store, and follow it."""
        row_entry = await self._metadata.get(cursor.row_key)
        offset_entry = await self._metadata.get(cursor.offset_key)
        if not cursor.has_row(row_entry):
            cursor.is_removed = True
            if row_entry is None:
                events.lost(SubscriptionNotFound("the subscription was deleted"))
            else:
                events.lost(NotTheOwner("another broker has the subscription"))
        elif row_entry is None or offset_entry is None:
            cursor.is_removed = True
            events.lost(SubscriptionNotFound("the subscription was deleted"))
            if row_entry is not None:
                guard = Compare(row_entry.key, row_entry.version)
                await self._metadata.commit([Remove(row_entry.key)], [guard])
        else:
            is_own = offset_entry.version == row_entry.version  # both were written by one commit
            cursor.note(row_entry.version, offset_entry.version)
            if not is_own:
                events.moved(keys.decode(CommittedOffset, offset_entry.value).offset)

    async def _write(self, saved: Sequence[tuple[Cursor, CursorSnapshot]]) -> None:
        writes: list[Put | Remove] = []
        guards: list[Compare] = []
        now = iso_time(self._clock.now_ms())
        for cursor, snapshot in saved:
            topic = cursor.name.topic
            to = snapshot.acknowledged_to
            row = SubscriptionRow(
                acknowledged_to=to,
                spans=encode_spans(to, snapshot.spans),
                returned=encode_returned(to, snapshot.returned),
                topic_id=topic.descriptor.topic_id,
                created_at=cursor.created_at,
                properties=cursor.properties,
                broker_id=self._identity.broker_id,
                broker_epoch=self._identity.epoch,
            )
            committed = CommittedOffset(
                offset=to, committed_at=now, topic_id=topic.descriptor.topic_id
            )
            cursor.written = keys.encode(row)
            writes.append(Put(cursor.row_key, cursor.written))
            writes.append(Put(cursor.offset_key, keys.encode(committed)))
            guards += cursor.guards()
        version = await self._metadata.commit(writes, guards)
        for cursor, snapshot in saved:
            cursor.note(version, version)
            name = cursor.name
            self._events.offset_committed(
                name.group_id, name.topic.name, name.partition, snapshot.acknowledged_to
            )

    # -- removing ----------------------------------------------------------------------------

    async def remove(self, cursor: Cursor) -> None:
        """Delete a subscription."""
        cursor.is_removed = True
        async with self._writing:
            entries = [
                await self._metadata.get(cursor.row_key),
                await self._metadata.get(cursor.offset_key),
            ]
            there = [entry for entry in entries if entry is not None]
            if there:
                guards = [Compare(entry.key, entry.version) for entry in there]
                await self._metadata.commit([Remove(entry.key) for entry in there], guards)
        name = cursor.name
        self._events.offset_committed(name.group_id, name.topic.name, name.partition, -1)

    async def remove_topic(self, name: str, topic_id: str) -> None:
        """Delete the rows of a deleted topic; its committed offsets are removed elsewhere."""
        after = ""
        while entries := await self._metadata.find(
            keys.subscriptions(name), after=after, limit=MAX_OPERATIONS
        ):
            doomed = [
                entry
                for entry in entries
                if keys.decode(SubscriptionRow, entry.value).topic_id == topic_id
            ]
            guards = [Compare(entry.key, entry.version) for entry in doomed]
            try:
                await self._metadata.commit([Remove(entry.key) for entry in doomed], guards)
            except MetadataConflict:
                continue  # one was saved meanwhile: read again
            after = entries[-1].key


def _version(entry: Entry | None) -> int:
    return 0 if entry is None else entry.version
