"""What travels with a message: its metadata, and the metadata of each message of a batch.

Here: the two tables, and stepping through the messages of a batch.
Next door: frames and checksums (../frame.py), commands (commands.py).
Never here: compression, and what a field means for a record
(gateways/pulsar/messages/entries_in.py).
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.pulsar.protobuf import (
    REQUIRED,
    ProtoMessage,
    boolean,
    many,
    nested,
    number,
    raw,
    signed,
    string,
)

_SIZE: Final = struct.Struct(">I")


class Compression(IntEnum):
    """How a payload is packed."""

    NONE = 0
    LZ4 = 1
    ZLIB = 2
    ZSTD = 3
    SNAPPY = 4


class KeyValue(ProtoMessage):
    """A property."""

    key: str = string(1, REQUIRED)
    value: str = string(2, REQUIRED)


class EncryptionKey(ProtoMessage):
    """The key of a payload, itself encrypted for a reader."""

    key: str = string(1, REQUIRED)
    value: bytes = raw(2, REQUIRED)
    metadata: "list[KeyValue]" = many(nested(3, KeyValue))


class MessageMetadata(ProtoMessage):
    """What is said about an entry: a message, or a batch of them."""

    producer_name: str = string(1, REQUIRED)
    sequence_id: int = number(2, REQUIRED)
    publish_time: int = number(3, REQUIRED)  # milliseconds
    properties: "list[KeyValue]" = many(nested(4, KeyValue))
    replicated_from: str | None = string(5)
    partition_key: str | None = string(6)
    replicate_to: list[str] = many(string(7))
    compression: int | None = number(8)
    uncompressed_size: int | None = number(9)
    num_messages_in_batch: int | None = signed(11)  # present: the payload is a batch, even of one
    event_time: int | None = number(12)
    encryption_keys: "list[EncryptionKey]" = many(nested(13, EncryptionKey))
    encryption_algo: str | None = string(14)
    encryption_param: bytes | None = raw(15)
    schema_version: bytes | None = raw(16)
    partition_key_b64_encoded: bool | None = boolean(17)
    ordering_key: bytes | None = raw(18)
    deliver_at_time: int | None = signed(19)
    marker_type: int | None = signed(20)
    txnid_least_bits: int | None = number(22)
    txnid_most_bits: int | None = number(23)
    highest_sequence_id: int | None = number(24)
    null_value: bool | None = boolean(25)
    uuid: str | None = string(26)
    num_chunks_from_msg: int | None = signed(27)
    total_chunk_msg_size: int | None = signed(28)
    chunk_id: int | None = signed(29)
    null_partition_key: bool | None = boolean(30)
    schema_id: bytes | None = raw(32)


class SingleMessageMetadata(ProtoMessage):
    """What is said about one message of a batch."""

    properties: "list[KeyValue]" = many(nested(1, KeyValue))
    partition_key: str | None = string(2)
    payload_size: int = signed(3, REQUIRED)
    compacted_out: bool | None = boolean(4)
    event_time: int | None = number(5)
    partition_key_b64_encoded: bool | None = boolean(6)
    ordering_key: bytes | None = raw(7)
    sequence_id: int | None = number(8)
    null_value: bool | None = boolean(9)
    null_partition_key: bool | None = boolean(10)


class BrokerEntryMetadata(ProtoMessage):
    """What the broker says about an entry."""

    broker_timestamp: int | None = number(1)
    index: int | None = number(2)  # the offset of the entry's last message


def each_single(
    payload: memoryview, count: int
) -> Iterator[tuple[SingleMessageMetadata, memoryview]]:
    """The messages of a batch, which must fill the unpacked payload exactly."""
    at, end = 0, len(payload)
    for _ in range(count):
        if end - at < _SIZE.size:
            raise MalformedMessage(f"a batch of {count} messages ends early")
        (size,) = _SIZE.unpack_from(payload, at)
        at += _SIZE.size
        if size > end - at:
            raise MalformedMessage(f"metadata of {size} bytes, {end - at} are left")
        single = SingleMessageMetadata.decode(payload[at : at + size])
        at += size
        if not 0 <= single.payload_size <= end - at:
            raise MalformedMessage(f"a message of {single.payload_size} bytes, {end - at} are left")
        yield single, payload[at : at + single.payload_size]
        at += single.payload_size
    if at != end:
        raise MalformedMessage(f"{end - at} bytes follow the last message of a batch")


def single_bytes(single: SingleMessageMetadata) -> bytes:
    """The metadata of one message of a batch, with its length in front; the payload follows."""
    encoded = single.encode()
    return _SIZE.pack(len(encoded)) + encoded
