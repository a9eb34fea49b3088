"""One consumer of a connection: entries out, acknowledgements in.

Here: a consumer's commands as verbs of its subscription, and message ids as offsets.
Next door: entries as bytes (messages/entries_out.py), the connection (session.py), which consumer
gets what (subscriptions), where that is kept (engine/subscriptions).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from kafscale.access.quotas import QuotaKey
from kafscale.engine.partitions.reads import PartitionRead
from kafscale.engine.subscriptions.attached import Attached
from kafscale.engine.subscriptions.ports import EARLIEST, LATEST, SubscriptionName, Wish
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.connection import Connection
from kafscale.gateways.pulsar.context import GROUP_PREFIX, PulsarContext, Refused
from kafscale.gateways.pulsar.messages.entries_out import (
    EntryFraming,
    StoredBatch,
)
from kafscale.gateways.pulsar.messages.key_hash import HASHES
from kafscale.gateways.pulsar.topics import PartitionPlace
from kafscale.model.buffers import Buffer
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.records import batch
from kafscale.subscriptions.events import Ack as Acked
from kafscale.subscriptions.events import MessageDelivery, MessageRun, Mode
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.frame import broker_entry, write_command, write_delivery
from kafscale.wire.pulsar.messages.commands import (
    NO_REQUEST,
    Ack,
    ActiveConsumerChange,
    CloseConsumer,
    Delivery,
    GetLastMessageId,
    GetLastMessageIdResponse,
    MessageIdData,
    RedeliverUnacknowledged,
    Seek,
    Subscribe,
)
from kafscale.wire.pulsar.messages.metadata import BrokerEntryMetadata

_MODES: Final = (Mode.EXCLUSIVE, Mode.SHARED, Mode.FAILOVER, Mode.KEY_SHARED)
_FROM_EARLIEST: Final = 1
_CUMULATIVE: Final = 1
_STICKY: Final = 1
_LAST: Final = (1 << 63) - 1  # ledger and entry of "latest"
_WORD: Final = 1 << 64
_LAST_BATCH_BYTES: Final = 1  # one batch, whatever its size


class PulsarConsumer:
    """Implements engine.subscriptions.ports.Receiver."""

    def __init__(
        self,
        context: PulsarContext,
        connection: Connection,
        command: Subscribe,
        place: PartitionPlace,
        *,
        wants_index: bool,
        gone: Callable[["PulsarConsumer"], None],
    ) -> None:
        """`wants_index`: the client understands what a broker adds to an entry."""
        self.consumer_id = command.consumer_id
        self.topic: Topic = place.topic
        self.partition = place.partition
        self.attached: Attached | None = None
        self._named_partition = place.partition if place.is_named else None
        self._context = context
        self._connection = connection
        self._has_epochs = command.consumer_epoch is not None
        self._wants_index = wants_index
        self._gone = gone
        self._is_paused = False
        self._group_id = f"{GROUP_PREFIX}{command.subscription}"
        self._is_denied = False  # it is on its way out

    @property
    def ledger(self) -> int:
        """The first part of all message ids of the topic."""
        return self.topic.descriptor.incarnation

    # -- out ---------------------------------------------------------------------------------

    @property
    def _is_held_up(self) -> bool:
        """Whether the client does not read, or is over its quota."""
        return self._connection.is_write_blocked or self._connection.is_muted

    def deliver(self, deliveries: Sequence[MessageDelivery], epoch: int) -> None:
        """Send entries, all of them at once. A client that has lost its leave subscribes again."""
        if self._is_denied or self._has_lost_leave():
            if not self._is_denied:
                self._is_denied = True
                asyncio.get_running_loop().call_soon(self._leave)
            return
        buffers: list[Buffer] = []
        for one in deliveries:
            stored = one.source
            assert isinstance(stored, StoredBatch)
            now_ms = self._context.engine.clock.now_ms()
            opened = self._context.opened
            if one.is_split:
                for offset, entry in opened.singles(stored, one.first, one.next, now_ms):
                    self._add(buffers, entry, (offset, offset), one.redeliveries, epoch)
            else:
                entry = opened.entry(stored, one.first, one.next, now_ms)
                self._add(buffers, entry, (one.first, one.next - 1), one.redeliveries, epoch)
        self._connection.send(buffers)
        if self._context.engine.quotas.limits_clients:
            size = sum(map(len, buffers))
            self._context.charge(self._connection, QuotaKey.CONSUMED_BYTES, size)
        if self._is_held_up and not self._is_paused and self.attached is not None:
            self._is_paused = True
            self.attached.pause(True)

    def _has_lost_leave(self) -> bool:
        """A consumer may last for days: what its client may do is asked for every delivery."""
        context, read = self._context, AccessOperation.READ
        return context.is_denied(
            self._connection, read, ResourceType.TOPIC, self.topic.name
        ) or context.is_denied(self._connection, read, ResourceType.GROUP, self._group_id)

    def _leave(self) -> None:
        if self.attached is not None:
            self.attached.detach()
            self.disconnected(None)

    def _add(
        self,
        buffers: list[Buffer],
        entry: tuple[bytes, bytes],
        offsets: tuple[int, int],
        redeliveries: int,
        epoch: int,
    ) -> None:
        first, last = offsets
        front = b""
        if self._wants_index:
            front = broker_entry(BrokerEntryMetadata(index=last))
        behind = len(front) + len(entry[0]) + len(entry[1])
        if not redeliveries and not self._has_epochs and self._named_partition is None:
            head = write_delivery(self.consumer_id, self.ledger, first, behind=behind)
            buffers += (head, front, *entry)
            return
        command = Delivery(
            consumer_id=self.consumer_id,
            message_id=MessageIdData(
                ledger_id=self.ledger, entry_id=first, partition=self._named_partition
            ),
            redelivery_count=redeliveries or None,
            consumer_epoch=epoch if self._has_epochs else None,
        )
        buffers += (write_command(command, behind=behind), front, *entry)

    def go_on(self) -> None:
        """The client reads again, or has waited long enough."""
        if self._is_paused and not self._is_held_up and self.attached is not None:
            self._is_paused = False
            self.attached.pause(False)

    def activity(self, is_active: bool) -> None:
        """Tell the client whether it is the active one."""
        change = ActiveConsumerChange(consumer_id=self.consumer_id, is_active=is_active)
        self._connection.send((write_command(change),))

    def disconnected(self, problem: KafscaleError | None) -> None:
        """Have the client subscribe again, here or at another broker."""
        close = CloseConsumer(consumer_id=self.consumer_id, request_id=NO_REQUEST)
        self._connection.send((write_command(close),))
        self._gone(self)

    # -- in ----------------------------------------------------------------------------------

    async def attach(self, command: Subscribe) -> None:
        """Join the subscription. Raises KafscaleError and Refused."""
        name = SubscriptionName(self._group_id, self.topic, self.partition)
        engine = self._context.engine
        wish = self._wish(command)
        self.attached = await engine.subscriptions.attach(name, wish, EntryFraming(), self)

    def _wish(self, command: Subscribe) -> Wish:
        if not 0 <= command.sub_type < len(_MODES):
            raise Refused(ServerError.NOT_ALLOWED, f"subscription type {command.sub_type}")
        mode = _MODES[command.sub_type]
        if command.read_compacted and mode not in (Mode.EXCLUSIVE, Mode.FAILOVER):
            words = "compacted topics are read by Exclusive and Failover subscriptions"
            raise Refused(ServerError.NOT_ALLOWED, words)
        start, start_ms = LATEST, -1
        if command.start_message_id is not None:
            start = self.position(command.start_message_id)
        elif command.initial_position == _FROM_EARLIEST:
            start = EARLIEST
        if command.start_message_rollback_duration_sec:
            back_ms = command.start_message_rollback_duration_sec * 1000
            start_ms = max(0, self._context.engine.clock.now_ms() - back_ms)
        return Wish(
            name=command.consumer_name or "",
            mode=mode,
            is_durable=command.durable,
            start=start,
            start_ms=start_ms,
            priority=command.priority_level or 0,
            key_ranges=_key_ranges(command),
            epoch=command.consumer_epoch or 0,
            properties={one.key: one.value for one in command.subscription_properties},
        )

    def position(self, message_id: MessageIdData) -> int:
        """Where delivery begins for a message id: at its entry. The client drops what it had."""
        ledger, entry = message_id.ledger_id, message_id.entry_id
        if ledger > self.ledger or entry >= _LAST:
            return LATEST
        return EARLIEST if ledger < self.ledger or entry < 0 else entry

    async def acknowledge(self, command: Ack) -> None:
        """Note what the client has done. Raises KafscaleError."""
        if self.attached is None:
            return
        acks = [
            Acked(one.entry_id, tuple(word % _WORD for word in one.ack_set))
            for one in command.message_id
            if one.ledger_id == self.ledger and one.entry_id >= 0
        ]
        if command.ack_type != _CUMULATIVE:
            if acks:
                await self.attached.acknowledge(acks)
        elif len(command.message_id) != 1:
            raise Refused(ServerError.NOT_ALLOWED, "a cumulative ack has one message id")
        elif acks:
            await self.attached.acknowledge_up_to(acks[0])

    def permit(self, messages: int) -> None:
        """Take so many more messages."""
        if self.attached is not None:
            self.attached.permit(messages)

    async def unsubscribe(self, *, force: bool) -> None:
        """End the subscription. Raises KafscaleError."""
        assert self.attached is not None
        await self.attached.unsubscribe(force=force)
        self._gone(self)

    async def close(self) -> None:
        """Go; what is not acknowledged comes again."""
        self._gone(self)
        if self.attached is not None:
            await self.attached.close()

    def redeliver(self, command: RedeliverUnacknowledged) -> None:
        """Have entries delivered again."""
        if self.attached is not None:
            offsets = [one.entry_id for one in command.message_ids if one.ledger_id == self.ledger]
            if command.message_ids and not offsets:
                return
            self.attached.redeliver(offsets or None, command.consumer_epoch or 0)

    async def seek(self, command: Seek) -> None:
        """Go on from another message or time. Raises KafscaleError and Refused."""
        assert self.attached is not None
        if command.message_id is not None:
            await self.attached.seek(self.position(command.message_id))
        elif command.message_publish_time is not None:
            await self.attached.seek_time(min(command.message_publish_time, _LAST))
        else:
            raise Refused(ServerError.METADATA_ERROR, "a seek without a message id or a time")

    async def last_message_id(self, command: GetLastMessageId) -> GetLastMessageIdResponse:
        """The last message of the partition, and how far the subscription is."""
        assert self.attached is not None
        ledger = self.ledger
        partitions = self._context.engine.partitions
        bounds = await partitions.bounds(self.topic, self.partition, -1)
        last = MessageIdData(ledger_id=-1, entry_id=-1, partition=-1, batch_index=-1)
        found = await self._last_message(bounds.start, bounds.end)
        if found is not None:
            first, index = found
            partition = -1 if self._named_partition is None else self._named_partition
            last = MessageIdData(
                ledger_id=ledger, entry_id=first, partition=partition, batch_index=index
            )
        done = MessageIdData(ledger_id=ledger, entry_id=self.attached.acknowledged_to - 1)
        return GetLastMessageIdResponse(
            last_message_id=last,
            request_id=command.request_id,
            consumer_mark_delete_position=done,
        )

    async def _last_message(self, start: int, end: int) -> tuple[int, int] | None:
        """The entry of the last message, and its index there; None if there is no message.

        Behind it may be marks of transactions, aborted records, and gaps of key compaction. No
        consumer gets these, so that a reader who is told of them would wait without end.
        """
        seen_from, back = end, 1
        while seen_from > start:
            begin = max(start, end - back)
            found = await self._last_between(begin, seen_from)
            if found is not None:
                return found
            seen_from, back = begin, 2 * back
        return None

    async def _last_between(self, at: int, end: int) -> tuple[int, int] | None:
        """The same for the batches with these offsets."""
        found, after = None, at - 1
        while at < end and after < at:
            read = PartitionRead(self.topic, self.partition, at, _LAST_BATCH_BYTES)
            fetch = self._context.engine.partitions.fetch
            (result,) = await fetch([read], _LAST_BATCH_BYTES, 0, 0.0)
            if result.error is not None:
                raise result.error
            after = at
            for piece in result.batches:
                for place, header in batch.walk(piece):
                    at = header.next_offset
                    if not header.is_control:
                        whole = piece[place : place + header.size]
                        runs = EntryFraming().frame(whole, header, by_key=False)
                        found = _last_of(runs[-1]) if runs else found
        return found


def _last_of(run: MessageRun) -> tuple[int, int]:
    """The first offset of the last entry of a run, and the index in it; -1 if it is no batch."""
    stored = run.source
    assert isinstance(stored, StoredBatch)
    is_batch = not run.is_split and stored.is_batch
    return (run.first, run.next - 1 - run.first) if is_batch else (run.next - 1, -1)


def _key_ranges(command: Subscribe) -> tuple[tuple[int, int], ...]:
    """The hashes that a consumer wants for itself; none: it takes its share."""
    wanted = command.key_shared_meta
    if wanted is None or wanted.key_shared_mode != _STICKY:
        return ()
    for one in wanted.hash_ranges:
        if not 0 <= one.start <= one.end < HASHES:
            raise Refused(
                ServerError.CONSUMER_ASSIGN_ERROR, f"a range of hashes {one.start} to {one.end}"
            )
    return tuple((one.start, one.end + 1) for one in wanted.hash_ranges)
