"""The 61 bytes in front of every record batch (magic 2).

Here: reading the header, giving a batch its place, its checksum, stepping through stored bytes;
the records stay closed.
Next door: single records (record.py), compression (compression.py), what producers may send
(validation.py).
Never here: sockets, clocks, segments.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from kafscale.model.errors import CorruptBatch

HEADER: Final = struct.Struct(
    ">"
    "q"  #  0 base_offset
    "i"  #  8 batch_length       counts every byte after itself
    "i"  # 12 leader_epoch
    "b"  # 16 magic              always 2
    "I"  # 17 crc                crc32c of byte 21 to the end
    "h"  # 21 attributes
    "i"  # 23 last_offset_delta
    "q"  # 27 base_timestamp_ms
    "q"  # 35 max_timestamp_ms
    "q"  # 43 producer_id
    "h"  # 51 producer_epoch
    "i"  # 53 base_sequence
    "i"  # 57 record_count
)
HEADER_SIZE: Final = 61
assert HEADER.size == HEADER_SIZE

LENGTH_PREFIX: Final = 12  # base_offset and batch_length: what batch_length does not count
MIN_BATCH_LENGTH: Final = HEADER_SIZE - LENGTH_PREFIX
SIGNED_FROM: Final = 21

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

MAX_SEQUENCE: Final = 2**31 - 1
NAMED_BELOW: Final = -(1 << 62)  # the ids of producers that are known by name (named.py)

_LENGTH: Final = struct.Struct(">i")
_LEADER_EPOCH: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")


class BatchHeader(NamedTuple):
    """The header's fields, as they stand in the bytes."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LENGTH_PREFIX

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number of the compression codec, which may be unknown."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def log_append_time(self) -> bool:
        """Whether every record's time is max_timestamp_ms, set by the broker."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_named(self) -> bool:
        """Whether its producer is known by name (named.py)."""
        return self.producer_id < NAMED_BELOW

    @property
    def has_producer(self) -> bool:
        """Whether a log remembers its producer, by id or by name."""
        return self.producer_id >= 0 or self.producer_id < NAMED_BELOW

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number: after 2^31 - 1 comes 0. -1 without a sequence."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def read_header(buf: bytes | bytearray | memoryview, at: int = 0) -> BatchHeader:
    """Read the header at `at`; whether its batch is whole is the caller's question."""
    if at < 0 or len(buf) - at < HEADER_SIZE:
        raise CorruptBatch(f"{len(buf) - at} bytes are too few for a batch header")
    return BatchHeader._make(HEADER.unpack_from(buf, at))


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in the log.

    Both fields lie before byte 21, outside the checksum: nothing is decompressed or signed anew.
    """
    _OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, 12, leader_epoch)


def stamp_append_time(batch: bytearray | memoryview, now_ms: int) -> None:
    """Make the broker's time the time of every record, and sign the batch anew."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, 21)
    _ATTRIBUTES.pack_into(batch, 21, attributes | LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(batch, 35, now_ms)
    sign(batch)


def sign(batch: bytearray | memoryview) -> None:
    """Write the checksum that belongs to the bytes of this one batch."""
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[SIGNED_FROM:]))


def check_crc(batch: bytes | bytearray | memoryview) -> bool:
    """Whether the batch at the start of these bytes is whole and its checksum right."""
    if len(batch) < HEADER_SIZE:
        return False
    size = _LENGTH.unpack_from(batch, 8)[0] + LENGTH_PREFIX
    if not HEADER_SIZE <= size <= len(batch):
        return False
    claimed: int = _CRC.unpack_from(batch, 17)[0]
    return crc32c(memoryview(batch)[SIGNED_FROM:size]) == claimed


def walk(
    buf: bytes | bytearray | memoryview, at: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Step through stored batches: position and header of each, stopping before a cut-off one.

    Checksums are not looked at; a length no batch can have means we lost our footing.
    """
    stop = len(buf) if end is None else end
    while at + LENGTH_PREFIX <= stop:
        length: int = _LENGTH.unpack_from(buf, at + 8)[0]
        if length < MIN_BATCH_LENGTH:
            raise CorruptBatch(f"batch length {length} at byte {at}")
        after = at + LENGTH_PREFIX + length
        if after > stop:
            return
        yield at, BatchHeader._make(HEADER.unpack_from(buf, at))
        at = after
