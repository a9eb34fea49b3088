"""One consumer of a connection: entries out, acknowledgements in.

Here: a consumer's commands as verbs of its subscription, and message ids as offsets.
Next door: entries as bytes (entries_out.py), the connection (session.py), which consumer gets what
(subscriptions), where that is kept (engine/subscriptions).
"""

from collections.abc import Callable, Sequence
from typing import Final

from kafscale.engine.partitions.reads import PartitionRead
from kafscale.engine.subscriptions.attached import Attached
from kafscale.engine.subscriptions.ports import EARLIEST, LATEST, SubscriptionName, Wish
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.connection import Connection
from kafscale.gateways.pulsar.context import GROUP_PREFIX, PulsarContext, Refused
from kafscale.gateways.pulsar.entries_out import (
    EntryFraming,
    StoredBatch,
    entry_of_one,
    entry_of_run,
)
from kafscale.gateways.pulsar.key_hash import HASHES
from kafscale.gateways.pulsar.topics import PartitionPlace
from kafscale.model.buffers import Buffer
from kafscale.model.errors import KafscaleError
from kafscale.records import batch
from kafscale.subscriptions.events import Ack as Acked
from kafscale.subscriptions.events import MessageDelivery, MessageRun, Mode
from kafscale.wire.pulsar.errors import ServerError
from kafscale.wire.pulsar.frame import broker_entry, write_command
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
        self._told_partition = place.partition if place.is_named else -1
        self._context = context
        self._connection = connection
        self._has_epochs = command.consumer_epoch is not None
        self._wants_index = wants_index
        self._gone = gone
        self._is_paused = False

    @property
    def ledger(self) -> int:
        """The first part of all message ids of the topic."""
        return self.topic.descriptor.incarnation

    # -- out ---------------------------------------------------------------------------------

    def deliver(self, deliveries: Sequence[MessageDelivery], epoch: int) -> None:
        """Send entries, all of them at once."""
        buffers: list[Buffer] = []
        for one in deliveries:
            stored = one.source
            assert isinstance(stored, StoredBatch)
            now_ms = self._context.engine.clock.now_ms()
            records = self._context.opened.records(stored, one.first, one.next)
            if one.is_split:
                for record in records:
                    entry = entry_of_one(stored, record, now_ms)
                    offset = record.offset
                    self._add(buffers, entry, (offset, offset), one.redeliveries, epoch)
            else:
                entry = entry_of_run(stored, records, now_ms)
                self._add(buffers, entry, (one.first, one.next - 1), one.redeliveries, epoch)
        self._connection.send(buffers)
        if self._connection.is_write_blocked and not self._is_paused and self.attached is not None:
            self._is_paused = True
            self.attached.pause(True)

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
        command = Delivery(
            consumer_id=self.consumer_id,
            message_id=MessageIdData(ledger_id=self.ledger, entry_id=first),
            redelivery_count=redeliveries or None,
            consumer_epoch=epoch if self._has_epochs else None,
        )
        behind = len(front) + len(entry[0]) + len(entry[1])
        buffers += (write_command(command, behind=behind), front, *entry)

    def go_on(self) -> None:
        """The client reads again."""
        if self._is_paused and self.attached is not None:
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
        name = SubscriptionName(f"{GROUP_PREFIX}{command.subscription}", self.topic, self.partition)
        engine = self._context.engine
        wish = self._wish(command)
        self.attached = await engine.subscriptions.attach(name, wish, EntryFraming(), self)

    def _wish(self, command: Subscribe) -> Wish:
        if not 0 <= command.sub_type < len(_MODES):
            raise Refused(ServerError.NOT_ALLOWED, f"subscription type {command.sub_type}")
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
            mode=_MODES[command.sub_type],
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
        if bounds.end > bounds.start:
            first, index = await self._last_entry(bounds.end - 1)
            last = MessageIdData(
                ledger_id=ledger, entry_id=first, partition=self._told_partition, batch_index=index
            )
        done = MessageIdData(ledger_id=ledger, entry_id=self.attached.acknowledged_to - 1)
        return GetLastMessageIdResponse(
            last_message_id=last,
            request_id=command.request_id,
            consumer_mark_delete_position=done,
        )

    async def _last_entry(self, offset: int) -> tuple[int, int]:
        """The entry that an offset lies in, and the index there; -1 if it is no batch."""
        read = PartitionRead(self.topic, self.partition, offset, _LAST_BATCH_BYTES)
        (result,) = await self._context.engine.partitions.fetch([read], _LAST_BATCH_BYTES, 0, 0.0)
        if result.error is not None:
            raise result.error
        for piece in result.batches:
            for at, header in batch.walk(piece):
                if header.base_offset <= offset <= header.last_offset:
                    whole = piece[at : at + header.size]
                    return _index_in(EntryFraming().frame(whole, header, by_key=False), offset)
        return offset, -1


def _index_in(runs: Sequence[MessageRun], offset: int) -> tuple[int, int]:
    """The first offset of the entry with this offset, and the index in it."""
    for run in runs:
        if run.first <= offset < run.next:
            stored = run.source
            assert isinstance(stored, StoredBatch)
            is_batch = not run.is_split and stored.is_batch
            return (run.first, offset - run.first) if is_batch else (offset, -1)
    return offset, -1


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
