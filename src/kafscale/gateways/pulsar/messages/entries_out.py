"""Record batches become entries for consumers.

Here: how a batch is cut into entries, and an entry as bytes. An entry that a Pulsar producer sent
comes out as it went in, and has the message id that its producer was told. A batch of a Kafka
producer is one entry, or several of up to a thousand messages. Where key compaction has left gaps,
each stretch without one is an entry: clients acknowledge an entry when they have had all of it.
Next door: the way in (entries_in.py), a consumer (consuming/consumers.py), which consumer gets
what (subscriptions).
"""

import base64
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from kafscale.gateways.pulsar.messages import splice
from kafscale.gateways.pulsar.messages.entries_in import (
    METADATA_HEADER,
    PARTITION_KEY_HEADER,
    PULSAR_ORIGIN,
    BatchFlag,
    RecordFlag,
)
from kafscale.gateways.pulsar.messages.key_hash import sticky_hash
from kafscale.records import named
from kafscale.records.batch import BatchHeader
from kafscale.records.record import Record, open_batch, unpack
from kafscale.subscriptions.events import MessageRun
from kafscale.wire.pulsar.frame import sign_entry
from kafscale.wire.pulsar.messages.metadata import (
    KeyValue,
    MessageMetadata,
    SingleMessageMetadata,
    single_bytes,
)

SignedEntry = tuple[bytes, bytes]  # checksum and metadata, then payload
_MOST_IN_ENTRY: Final = 1000  # messages of a Kafka producer
_MOST_UNPACKED: Final = 1 << 30  # what is stored was within the limits of its topic
_MOST_OPENED: Final = 16  # batches, between two pieces that are delivered of them


class StoredBatch:
    """A batch as the log has it, and how its records were sent."""

    __slots__ = ("batch", "flags", "header", "is_pulsars")

    def __init__(self, batch: memoryview, header: BatchHeader) -> None:
        self.batch = batch
        self.header = header
        self.is_pulsars = header.producer_id <= PULSAR_ORIGIN
        self.flags = BatchFlag(header.producer_epoch & 15) if self.is_pulsars else BatchFlag(0)

    @property
    def is_batch(self) -> bool:
        """Whether clients see its messages as messages of a batch."""
        if self.flags & BatchFlag.OPAQUE:
            return self.header.last_offset_delta > 0
        return not self.flags & BatchFlag.SINGLES

    def sequence_id(self, offset: int) -> int:
        """The sequence id of a message, up to the bits that are kept."""
        header = self.header
        first = named.first_sequence(header) if header.is_named else header.base_sequence
        return first + offset - header.base_offset if first >= 0 else 0


class LastOpened:
    """What was opened last of stored batches: a batch is often delivered in pieces."""

    def __init__(self) -> None:
        self._opened: OrderedDict[StoredBatch, list[Record]] = OrderedDict()
        # Records as bytes, and where the next piece begins: its offset, and its place.
        self._unpacked: OrderedDict[StoredBatch, tuple[bytes, int, int]] = OrderedDict()

    def entry(self, stored: StoredBatch, first: int, after: int, now_ms: int) -> SignedEntry:
        """An entry with the messages from one offset up to another."""
        usual = self._usual_entry(stored, first, after)
        if usual is not None:
            return usual
        return entry_of_run(stored, self.records(stored, first, after), now_ms)

    def singles(
        self, stored: StoredBatch, first: int, after: int, now_ms: int
    ) -> list[tuple[int, SignedEntry]]:
        """An entry for each message from one offset up to another, with its offset."""
        begin = self._begin(stored, first)
        usual = None if begin is None else _spliced_singles(stored, *begin, first, after)
        if begin is not None and usual is not None:
            self._go_on(stored, begin[0], after, usual[1])
            return usual[0]
        records = self.records(stored, first, after)
        return [(record.offset, entry_of_one(stored, record, now_ms)) for record in records]

    def _usual_entry(self, stored: StoredBatch, first: int, after: int) -> SignedEntry | None:
        """None if something about the records is not usual."""
        begin = self._begin(stored, first)
        made = None if begin is None else _spliced(stored, *begin, first, after)
        if begin is None or made is None:
            return None
        self._go_on(stored, begin[0], after, made[1])
        return made[0]

    def _begin(self, stored: StoredBatch, first: int) -> tuple[bytes, int] | None:
        """The records as bytes, and the place of the first one, if that is known."""
        header = stored.header
        is_kept = stored.flags & (BatchFlag.OPAQUE | BatchFlag.DELAYED) or stored in self._opened
        if is_kept or header.log_append_time:
            return None
        if stored in self._unpacked:
            data, offset, at = self._unpacked.pop(stored)
        else:
            data, offset, at = unpack(stored.batch, _MOST_UNPACKED)[1], header.base_offset, 0
        return (data, at) if offset == first else None

    def _go_on(self, stored: StoredBatch, data: bytes, after: int, at: int) -> None:
        """Keep the rest of a batch for its next piece."""
        if after < stored.header.next_offset:
            self._unpacked[stored] = data, after, at
            if len(self._unpacked) > _MOST_OPENED:
                self._unpacked.popitem(last=False)

    def records(self, stored: StoredBatch, first: int, after: int) -> list[Record]:
        """The records from one offset up to another."""
        records = self._opened.get(stored)
        if records is None:
            records = self._opened[stored] = open_batch(stored.batch, _MOST_UNPACKED)
            if len(self._opened) > _MOST_OPENED:
                self._opened.popitem(last=False)
        header = stored.header
        if len(records) == header.last_offset_delta + 1:
            return records[first - header.base_offset : after - header.base_offset]
        return [record for record in records if first <= record.offset < after]


class EntryFraming:
    """Implements engine.subscriptions.ports.Framing."""

    def frame(
        self, batch: memoryview, header: BatchHeader, *, by_key: bool
    ) -> Sequence[MessageRun]:
        """Cut a batch into the entries that consumers get."""
        stored = StoredBatch(batch, header)
        first, after = header.base_offset, header.next_offset
        if stored.flags & BatchFlag.OPAQUE:
            return [_opaque_run(stored, by_key)] if header.record_count else []
        is_whole = header.record_count == after - first
        if is_whole and not by_key and not stored.flags & BatchFlag.DELAYED:
            return list(_runs(stored, first, after))
        records = open_batch(batch, _MOST_UNPACKED)
        return [run for part in _stretches(records) for run in _runs_of(stored, part, by_key)]


def _runs(stored: StoredBatch, first: int, after: int) -> Iterator[MessageRun]:
    """The entries of a stretch without gaps."""
    if stored.flags & BatchFlag.SINGLES:
        yield MessageRun(first, after, is_split=True, source=stored)
    elif stored.is_pulsars:
        yield MessageRun(first, after, source=stored)
    else:
        # Cut by offset, so that a batch is cut in the same way before and after compaction.
        begin = stored.header.base_offset
        while first < after:
            end = min(after, first + _MOST_IN_ENTRY - (first - begin) % _MOST_IN_ENTRY)
            yield MessageRun(first, end, source=stored)
            first = end


def _stretches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Records without gaps between their offsets."""
    part: list[Record] = []
    for record in records:
        if part and record.offset != part[-1].offset + 1:
            yield part
            part = []
        part.append(record)
    if part:
        yield part


def _runs_of(stored: StoredBatch, part: Sequence[Record], by_key: bool) -> Iterator[MessageRun]:
    deliver_at_ms = 0
    if stored.flags & BatchFlag.DELAYED:
        deliver_at_ms = _kept_metadata(part[0]).deliver_at_time or 0
    for run in _runs(stored, part[0].offset, part[-1].offset + 1):
        if not by_key:
            yield run._replace(deliver_at_ms=deliver_at_ms)
            continue
        records = part[run.first - part[0].offset : run.next - part[0].offset]
        hashes = [_hash(record) for record in records]
        is_one = not run.is_split and len(set(hashes)) == 1
        yield run._replace(
            is_split=not is_one,
            hashes=hashes[:1] if is_one else hashes,
            deliver_at_ms=deliver_at_ms,
        )


def _hash(record: Record) -> int:
    return sticky_hash(b"%d" % record.offset if record.key is None else record.key)


def _opaque_run(stored: StoredBatch, by_key: bool) -> MessageRun:
    header = stored.header
    run = MessageRun(header.base_offset, header.next_offset, source=stored)
    if not by_key and not stored.flags & BatchFlag.DELAYED:
        return run
    (record,) = open_batch(stored.batch, _MOST_UNPACKED)
    deliver_at_ms = _kept_metadata(record).deliver_at_time or 0
    return run._replace(hashes=[_hash(record)] if by_key else (), deliver_at_ms=deliver_at_ms)


def _kept_metadata(record: Record) -> MessageMetadata:
    """The metadata that was kept in a header; without any, an empty one."""
    for name, value in record.headers:
        if name == METADATA_HEADER and value is not None:
            return MessageMetadata.decode(memoryview(value))
    return MessageMetadata(producer_name="")


# -- bytes -------------------------------------------------------------------------------------


def _spliced(
    stored: StoredBatch, data: bytes, at: int, first: int, after: int
) -> tuple[SignedEntry, int] | None:
    """An entry of usual records from `at` on, and the place after them; None: they are not."""
    header, count = stored.header, after - first
    publish_ms = header.base_timestamp_ms
    if not stored.is_pulsars:
        delta_ms = splice.time_delta(data, at)
        publish_ms += delta_ms
        if delta_ms < 0:
            return None
    sequence, out = stored.sequence_id(first), bytearray()
    if not header.is_named and header.base_sequence < 0:
        sequence = -1
    delta, base_ms = first - header.base_offset, header.base_timestamp_ms
    end = splice.to_messages(data, at, delta, count, base_ms, sequence, stored.is_pulsars, out)
    if end == splice.UNUSUAL or (after == header.next_offset and end != len(data)):
        return None
    whole = MessageMetadata(
        producer_name="",
        sequence_id=max(0, sequence),
        publish_time=publish_ms,
        num_messages_in_batch=count,
    )
    return sign_entry(whole.encode(), bytes(out)), end


def _spliced_singles(
    stored: StoredBatch, data: bytes, at: int, first: int, after: int
) -> tuple[list[tuple[int, SignedEntry]], int] | None:
    """Entries of usual records from `at` on, and the place after them; None: they are not."""
    header, is_pulsars = stored.header, stored.is_pulsars
    base, base_ms = header.base_offset, header.base_timestamp_ms
    sequence, is_numbered = stored.sequence_id(base), header.is_named or header.base_sequence >= 0
    made = []
    for delta in range(first - base, after - base):
        number = sequence + delta if is_numbered else 0
        opened = splice.to_single(data, at, delta, base_ms, number, is_pulsars)
        at, metadata, payload = opened
        if at == splice.UNUSUAL:
            return None
        made.append((base + delta, sign_entry(metadata, payload)))
    return made, at


def entry_of_run(
    stored: StoredBatch, records: Sequence[Record], now_ms: int
) -> tuple[bytes, bytes]:
    """An entry with all these messages: checksum and metadata, then payload."""
    first = records[0]
    if stored.flags & BatchFlag.OPAQUE:
        metadata = b"".join(
            value for name, value in first.headers if name == METADATA_HEADER and value is not None
        )
        return sign_entry(metadata, first.value or b"")
    parts: list[bytes] = []
    for record in records:
        value = record.value or b""
        single = SingleMessageMetadata(
            properties=_properties(stored, record),
            payload_size=len(value),
            event_time=_event_time(stored, record),
            sequence_id=stored.sequence_id(record.offset),
            null_value=True if record.value is None else None,
            **_keys(stored, record),
        )
        parts += (single_bytes(single), value)
    whole = _kept_metadata(first) if stored.is_pulsars else MessageMetadata(producer_name="")
    _complete(whole, stored, first, now_ms)
    whole.num_messages_in_batch = len(records)
    return sign_entry(whole.encode(), b"".join(parts))


def entry_of_one(stored: StoredBatch, record: Record, now_ms: int) -> tuple[bytes, bytes]:
    """An entry with one message that is no batch."""
    metadata = _kept_metadata(record) if stored.is_pulsars else MessageMetadata(producer_name="")
    _complete(metadata, stored, record, now_ms)
    metadata.properties = _properties(stored, record)
    metadata.event_time = _event_time(stored, record)
    if record.value is None:
        metadata.null_value = True
    metadata.__dict__.update(_keys(stored, record))
    return sign_entry(metadata.encode(), record.value or b"")


def _complete(metadata: MessageMetadata, stored: StoredBatch, record: Record, now_ms: int) -> None:
    """Fill in what every entry has."""
    if "sequence_id" not in metadata.__dict__:
        metadata.sequence_id = stored.sequence_id(record.offset)
    metadata.publish_time = _publish_time(stored, record, now_ms)


def _publish_time(stored: StoredBatch, record: Record, now_ms: int) -> int:
    header = stored.header
    if stored.is_pulsars and not header.log_append_time:
        is_event = record.attributes & RecordFlag.EVENT_TIME
        return header.base_timestamp_ms if is_event else record.timestamp_ms
    return record.timestamp_ms if record.timestamp_ms >= 0 else now_ms


def _event_time(stored: StoredBatch, record: Record) -> int | None:
    if stored.is_pulsars:
        is_kept = record.attributes & RecordFlag.EVENT_TIME and not stored.header.log_append_time
        return record.timestamp_ms if is_kept else None
    return record.timestamp_ms if record.timestamp_ms > 0 else None


def _properties(stored: StoredBatch, record: Record) -> list[KeyValue]:
    reserved = (METADATA_HEADER, PARTITION_KEY_HEADER) if stored.is_pulsars else ()
    return [
        KeyValue(key=_text(name), value=(value or b"").decode(errors="replace"))
        for name, value in record.headers
        if name not in reserved
    ]


def _text(name: str) -> str:
    """The name of a header; bytes of it that are no UTF-8 are replaced."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _keys(stored: StoredBatch, record: Record) -> dict[str, str | bytes | bool]:
    """The fields for a record's key: as they were sent, or both for the key of a Kafka client."""
    key = record.key
    if key is None:
        return {}
    if not stored.is_pulsars:
        return {"ordering_key": key, **_partition_key(key, is_base64=False)}
    attributes = record.attributes
    fields: dict[str, str | bytes | bool] = {}
    if attributes & RecordFlag.ORDERING_KEY:
        fields["ordering_key"] = key
    if attributes & RecordFlag.PARTITION_KEY:
        beside = [value for name, value in record.headers if name == PARTITION_KEY_HEADER]
        text = beside[0] if beside and beside[0] is not None else key
        is_base64 = attributes & RecordFlag.BASE64 != 0
        fields.update(_partition_key(text, is_base64=is_base64))
    return fields


def _partition_key(key: bytes, *, is_base64: bool) -> dict[str, str | bytes | bool]:
    """A partition key is text: bytes that are no UTF-8 are sent as base64."""
    if not is_base64:
        try:
            return {"partition_key": key.decode()}
        except UnicodeDecodeError:
            pass
    return {
        "partition_key": base64.b64encode(key).decode(),
        "partition_key_b64_encoded": True,
    }
