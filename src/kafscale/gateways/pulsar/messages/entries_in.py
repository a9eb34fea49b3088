"""What a producer sent becomes a record batch.

Here: an entry, that is one message or a batch of them, opened and written as records. Kafka's
readers see key, value, headers and time. What only Pulsar's readers see lies where Kafka's readers
do not look: in header fields that have no meaning without a producer id, and in the attributes of
records, which Kafka defines none of (decision 57). What fits nowhere is kept in a header of the
batch's first record.
Next door: the way back (entries_out.py), the usual case in fast loops (splice.py), unpacking
(payloads.py), the tables (wire/pulsar).
"""

import base64
import binascii
from collections.abc import Sequence
from enum import IntFlag
from typing import Final, NamedTuple

from kafscale.gateways.pulsar.messages import payloads, splice
from kafscale.model.errors import BatchTooLarge, InvalidRecord, InvalidRequest
from kafscale.records import named
from kafscale.records.batch import (
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MAX_SEQUENCE,
    BatchHeader,
    sign,
)
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch, recompress
from kafscale.wire.pulsar.messages.metadata import (
    Compression,
    KeyValue,
    MessageMetadata,
    SingleMessageMetadata,
    each_single,
)

# The producer id, or one of a named producer (records/named.py): to Kafka's readers both say that
# there is none, as every negative one does.
PULSAR_ORIGIN: Final = -2
METADATA_HEADER: Final = "pulsar.metadata"  # fields that no record has a place for
PARTITION_KEY_HEADER: Final = "pulsar.partition_key"  # beside another ordering key
Single = tuple[SingleMessageMetadata, memoryview]
_LARGEST_TIME_MS: Final = 1 << 62
_MOST_MESSAGES: Final = 100_000  # in one entry


class BatchFlag(IntFlag):
    """How the records of a batch were sent; in the batch's producer epoch."""

    BATCHED = 1  # as one batch
    SINGLES = 2  # one by one
    OPAQUE = 4  # as bytes that only the consumer can open: encrypted, or a chunk
    DELAYED = 8  # with a time before which it is not to be delivered


class RecordFlag(IntFlag):
    """What a record's key and time were; in the record's attributes."""

    EVENT_TIME = 1  # the time is the event time, not the publish time
    ORDERING_KEY = 2  # the key is an ordering key
    PARTITION_KEY = 4  # the key is a partition key; with the flag above, it is both
    BASE64 = 8  # the partition key was sent as base64


class SentEntry(NamedTuple):
    """An entry that was opened."""

    metadata: MessageMetadata
    payload: memoryview  # unpacked, unless it is opaque
    flags: BatchFlag
    codec: Codec  # that its records are packed by
    rest: bytes  # the metadata that no record has a place for; empty if there is none

    @property
    def is_plain(self) -> bool:
        """Whether it can be stored in one batch with the entries before and after it."""
        metadata = self.metadata
        return self.flags == BatchFlag.SINGLES and not self.rest and not metadata.event_time

    @property
    def is_early_chunk(self) -> bool:
        """Whether more chunks of its message follow: all of them have the same sequence id."""
        chunks = self.metadata.num_chunks_from_msg
        return chunks is not None and (self.metadata.chunk_id or 0) + 1 < chunks

    @property
    def messages(self) -> int:
        """How many offsets it takes."""
        return self.metadata.num_messages_in_batch or 1


def open_entry(raw_metadata: memoryview, payload: memoryview, limit: int) -> SentEntry:
    """Open what follows a SEND, taking no more than `limit` bytes of memory.

    Raises MalformedMessage and BadBatch.
    """
    metadata = MessageMetadata.decode(raw_metadata)
    if metadata.marker_type is not None or metadata.txnid_most_bits is not None:
        raise InvalidRequest("transactions are not supported")
    if len(payload) > limit:
        raise BatchTooLarge(f"{len(payload)} bytes; {limit} are allowed")
    count = metadata.num_messages_in_batch
    if count is not None and not 0 < count <= _MOST_MESSAGES:
        raise InvalidRecord(f"a batch of {count} messages")
    is_delayed = bool(metadata.deliver_at_time)
    if metadata.encryption_keys or metadata.uuid is not None:
        flags = BatchFlag.OPAQUE | (BatchFlag.DELAYED if is_delayed else 0)
        return SentEntry(metadata, payload, flags, Codec.NONE, bytes(raw_metadata))
    compression = metadata.compression or Compression.NONE
    unpacked = payloads.unpack(compression, payload, metadata.uncompressed_size or 0, limit)
    flags = BatchFlag.SINGLES if count is None else BatchFlag.BATCHED
    if is_delayed:
        flags |= BatchFlag.DELAYED
    return SentEntry(metadata, unpacked, flags, payloads.CODEC_OF[compression], _rest(metadata))


def _rest(metadata: MessageMetadata) -> bytes:
    """The fields of an entry that its records have no place for."""
    if not (
        metadata.schema_version
        or metadata.deliver_at_time
        or metadata.replicated_from
        or metadata.replicate_to
        or metadata.schema_id
        or metadata.sequence_id > MAX_SEQUENCE
    ):
        return b""
    return MessageMetadata(
        producer_name=metadata.producer_name,
        sequence_id=metadata.sequence_id,
        publish_time=metadata.publish_time,
        replicated_from=metadata.replicated_from,
        replicate_to=metadata.replicate_to,
        schema_version=metadata.schema_version,
        deliver_at_time=metadata.deliver_at_time,
        schema_id=metadata.schema_id,
    ).encode()


def has_keys(entry: SentEntry) -> bool:
    """Whether every message has a key, as compacted topics need."""
    if entry.flags & BatchFlag.BATCHED:
        singles = each_single(entry.payload, entry.messages)
        return all(_key(single)[0] is not None for single, _ in singles)
    return _key(entry.metadata)[0] is not None


class Sender(NamedTuple):
    """Who sent the entries of a batch, for a topic that stores none of them twice."""

    producer: int  # the number of the name
    last: int  # the last sequence id of the batch, as far as the command tells
    stored: int = -1  # up to this sequence id, messages of this producer are stored


def batch_of_all(
    entries: Sequence[SentEntry], codec: Codec | None, sender: Sender | None = None
) -> bytearray:
    """One record batch of one entry, or of plain ones that were sent one after the other.

    `codec`: the topic's own; None: the producer's.
    """
    if len(entries) == 1:
        return _batch_of(entries[0], codec, sender)
    records = [_of_single(number, entry) for number, entry in enumerate(entries)]
    return _built(records, entries[0], codec, len(entries), sender)


def _batch_of(entry: SentEntry, codec: Codec | None, sender: Sender | None) -> bytearray:
    count = entry.messages
    if entry.flags == BatchFlag.BATCHED and not entry.rest:
        spliced = _spliced(entry, codec, sender)
        if spliced is not None:
            return spliced
    if entry.flags & BatchFlag.OPAQUE:
        records = [_opaque(entry)]
        if sender is not None:
            last = entry.metadata.sequence_id + count - 1
            sender = sender._replace(last=max(sender.last, last))
    elif entry.flags & BatchFlag.BATCHED:
        publish_ms = _time(entry.metadata.publish_time)
        singles = list(each_single(entry.payload, count))
        if sender is not None:
            singles, sender = _new_ones(singles, entry.metadata.sequence_id, sender)
            count = len(singles)
        records = [
            _record(number, single, payload, publish_ms)
            for number, (single, payload) in enumerate(singles)
        ]
    else:
        records = [_of_single(0, entry)]
    if entry.rest:
        first = records[0]
        headers = (*first.headers, (METADATA_HEADER, entry.rest))
        records[0] = first._replace(headers=headers)
    return _built(records, entry, codec, count, sender)


def _spliced(entry: SentEntry, codec: Codec | None, sender: Sender | None) -> bytearray | None:
    """The batch of a usual entry; None if something about it is not usual."""
    metadata, count, data = entry.metadata, entry.messages, bytes(entry.payload)
    publish_ms, out = _time(metadata.publish_time), bytearray(HEADER_SIZE)
    at, latest_ms, sequence = splice.to_records(data, 0, 0, count, publish_ms, out)
    if at != len(data):
        return None
    if sender is not None:
        last = metadata.sequence_id + count - 1 if sequence < 0 else sequence
        sender = sender._replace(last=max(sender.last, last))
        if metadata.sequence_id <= sender.stored < sender.last:
            return None
    times, fields = (publish_ms, latest_ms), _producer_fields(entry, count, sender)
    return _finished(out, count, times, fields, entry.codec if codec is None else codec)


def batch_of_plain(
    out: bytearray, count: int, times: tuple[int, int], sequence_id: int, codec: Codec | None
) -> bytearray:
    """One record batch of plain messages whose records lie in `out` behind the header's place.

    `times`: the first message's, and the latest. `codec`: the topic's own; None: none.
    """
    fields = named.NamedFields(PULSAR_ORIGIN, int(BatchFlag.SINGLES), sequence_id & MAX_SEQUENCE)
    return _finished(out, count, times, fields, Codec.NONE if codec is None else codec)


def _finished(
    out: bytearray, count: int, times: tuple[int, int], fields: named.NamedFields, codec: Codec
) -> bytearray:
    """Write the header of a batch whose records lie behind its place."""
    header = BatchHeader(
        base_offset=0,
        batch_length=len(out) - LENGTH_PREFIX,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=Codec.NONE,
        last_offset_delta=count - 1,
        base_timestamp_ms=times[0],
        max_timestamp_ms=times[1],
        record_count=count,
        **fields._asdict(),
    )
    HEADER.pack_into(out, 0, *header)
    sign(out)
    return out if codec is Codec.NONE else recompress(out, codec, len(out))


def _producer_fields(first: SentEntry, count: int, sender: Sender | None) -> named.NamedFields:
    if sender is None:
        sequence = first.metadata.sequence_id & MAX_SEQUENCE
        return named.NamedFields(PULSAR_ORIGIN, int(first.flags), sequence)
    if sender.last > named.LARGEST_SEQUENCE:
        raise InvalidRecord(f"a sequence id of {sender.last}")
    return named.fields_of(sender.producer, sender.last, count, first.flags)


def _new_ones(singles: list[Single], first: int, sender: Sender) -> tuple[list[Single], Sender]:
    """The messages of a batch that are not stored, or all if all are; and the last sequence id."""
    numbers = [
        first + number if one.sequence_id is None else one.sequence_id
        for number, (one, _) in enumerate(singles)
    ]
    sender = sender._replace(last=max(sender.last, numbers[-1]))
    if first <= sender.stored < sender.last:
        singles = [
            one for one, number in zip(singles, numbers, strict=True) if number > sender.stored
        ]
        if not singles:
            raise InvalidRecord("a batch whose sequence ids contradict each other")
    return singles, sender


def _built(
    records: Sequence[Record],
    first: SentEntry,
    codec: Codec | None,
    count: int,
    sender: Sender | None,
) -> bytearray:
    return bytearray(
        build_batch(
            records,
            base_offset=0,
            codec=first.codec if codec is None else codec,
            **_producer_fields(first, count, sender)._asdict(),
            base_ms=_time(first.metadata.publish_time),
            next_offset=count,
        )
    )


def _opaque(entry: SentEntry) -> Record:
    metadata = entry.metadata
    key, attributes, headers = _key(metadata)
    return Record(0, _time(metadata.publish_time), key, bytes(entry.payload), headers, attributes)


def _of_single(number: int, entry: SentEntry) -> Record:
    return _record(number, entry.metadata, entry.payload, _time(entry.metadata.publish_time))


def _record(
    number: int,
    message: MessageMetadata | SingleMessageMetadata,
    payload: memoryview,
    publish_ms: int,
) -> Record:
    key, attributes, headers = _key(message)
    time_ms = publish_ms
    if message.event_time:
        time_ms = _time(message.event_time)
        attributes |= RecordFlag.EVENT_TIME
    if message.properties:
        headers = (*_headers(message.properties), *headers)
    value = None if message.null_value else bytes(payload)
    return Record(number, time_ms, key, value, headers, attributes)


def _headers(properties: Sequence[KeyValue]) -> tuple[tuple[str, bytes], ...]:
    return tuple((one.key, one.value.encode()) for one in properties)


def _time(time_ms: int) -> int:
    if time_ms > _LARGEST_TIME_MS:
        raise InvalidRecord(f"a time of {time_ms} milliseconds")
    return time_ms


def _key(
    message: MessageMetadata | SingleMessageMetadata,
) -> tuple[bytes | None, int, tuple[tuple[str, bytes], ...]]:
    """The key of a record, how it was sent, and the header for a partition key beside it."""
    text = None if message.null_partition_key else message.partition_key
    ordering = message.ordering_key
    if text is None:
        return ordering, 0 if ordering is None else RecordFlag.ORDERING_KEY, ()
    key, attributes = text.encode(), int(RecordFlag.PARTITION_KEY)
    if message.partition_key_b64_encoded:
        try:
            decoded = base64.b64decode(text, validate=True)
        except binascii.Error:
            raise InvalidRecord("a partition key that claims to be base64") from None
        if base64.b64encode(decoded).decode() == text:
            key, attributes = decoded, attributes | RecordFlag.BASE64
    if ordering is None:
        return key, attributes, ()
    attributes |= RecordFlag.ORDERING_KEY
    if ordering == key:
        return key, attributes, ()
    return ordering, attributes, ((PARTITION_KEY_HEADER, key),)
