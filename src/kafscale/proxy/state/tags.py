"""The tag of a batch: which virtual partition it belongs to, at which offset, from which producer.

A tag lies in three fields of the batch's header that the upstream does not look at when the
producer id is negative. So a compressed batch stays closed, and plain consumers read it as ever.

    producer id     1 | kind 3 bits | lane 13 | producer number, high 7 | virtual offset 40
    producer epoch  producer number, low 15
    base sequence   the client's own; of a client without idempotence, chance

A producer number stands for a client's producer id and epoch. The batch that uses a number first
has its meaning in a header of its first record: only this batch is packed anew.
Next door: which batches count (lanes.py). Never here: sockets, clocks.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from kafscale.model.errors import CorruptBatch
from kafscale.records import varint
from kafscale.records.batch import HEADER_SIZE, LENGTH_PREFIX, BatchHeader, sign
from kafscale.records.compression import Codec, compress
from kafscale.records.record import build_batch, each_record, unpack

MOST_LANES: Final = 1 << 13
MOST_NUMBERS: Final = 1 << 22
OFFSET_RANGE: Final = 1 << 40
DEFINITION: Final = "kafscale.producer"  # the name of the record header

_HAS_PRODUCER: Final = 1
_DEFINES: Final = 2  # the third bit of the kind is 0: so no tag is -1, which means "no producer"
_LOW_BITS: Final = 15
_LOW_MASK: Final = (1 << _LOW_BITS) - 1
_HIGH_MASK: Final = (1 << 7) - 1
_FIELDS: Final = struct.Struct(">Qhi")
_FIELDS_AT: Final = 43
_DEFINED: Final = struct.Struct(">qh")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_LOG_APPEND_TIME: Final = 0x08

_Headers = tuple[tuple[str, bytes | None], ...]


class Tag(NamedTuple):
    """What a batch of a virtual partition says about itself."""

    lane: int
    offset: int  # the virtual one of its first record
    number: int  # of the producer; of a batch without one, chance
    sequence: int
    has_producer: bool = False
    defines: bool = False

    @property
    def identity(self) -> tuple[int, int, int]:
        """What stays the same when a batch is sent again, perhaps at another offset."""
        return self.lane, self.number, self.sequence


class TaggedProducer(NamedTuple):
    """A client's producer."""

    producer_id: int
    epoch: int


def write_tag(batch: bytearray | memoryview, tag: Tag) -> None:
    """Put a tag into a batch and sign it anew. The batch's own checksum must be right."""
    kind = _HAS_PRODUCER * tag.has_producer | _DEFINES * tag.defines
    high, low = tag.number >> _LOW_BITS, tag.number & _LOW_MASK
    first = 1 << 63 | kind << 60 | tag.lane << 47 | high << 40 | tag.offset
    _FIELDS.pack_into(batch, _FIELDS_AT, first, low, tag.sequence)
    sign(batch)


def read_tag(header: BatchHeader) -> Tag | None:
    """The tag of a batch; None: a plain producer wrote it."""
    if header.producer_id >= -1:
        return None
    first = header.producer_id + (1 << 64)
    kind = first >> 60 & 7
    if kind > (_HAS_PRODUCER | _DEFINES):
        raise CorruptBatch(f"a tag of kind {kind}, which this version does not know")
    number = (first >> 40 & _HIGH_MASK) << _LOW_BITS | header.producer_epoch & _LOW_MASK
    return Tag(
        first >> 47 & MOST_LANES - 1,
        first & OFFSET_RANGE - 1,
        number,
        header.base_sequence,
        bool(kind & _HAS_PRODUCER),
        bool(kind & _DEFINES),
    )


def with_definition(batch: memoryview, producer: TaggedProducer, limit: int) -> bytearray:
    """The batch with the meaning of its producer's number in a header of its first record."""
    value = _DEFINED.pack(*producer)
    return _with_first(batch, limit, lambda headers: (*headers, (DEFINITION, value)))


def read_definition(batch: memoryview, limit: int) -> TaggedProducer:
    """Whose number a batch defines."""
    first = next(each_record(*unpack(batch, limit)), None)
    for name, value in reversed(first.headers if first is not None else ()):
        if name == DEFINITION and value is not None and len(value) == _DEFINED.size:
            return TaggedProducer(*_DEFINED.unpack(value))
    raise CorruptBatch("a batch defines a producer's number, and its first record does not say it")


def without_definition(batch: memoryview, limit: int) -> bytearray:
    """The batch as its client sent it, save the fields of the tag."""

    def strip(headers: _Headers) -> _Headers:
        return headers[:-1] if headers and headers[-1][0] == DEFINITION else headers

    return _with_first(batch, limit, strip)


def _with_first(batch: memoryview, limit: int, change: Callable[[_Headers], _Headers]) -> bytearray:
    """The batch with other headers at its first record; the other records keep their bytes."""
    header, data = unpack(batch, limit)
    # The first record's own time is wanted, not the log's.
    own = header._replace(attributes=header.attributes & ~_LOG_APPEND_TIME)
    first = next(each_record(own, data), None)
    if first is None:
        raise CorruptBatch("a batch without records")
    size, at = varint.read(data, 0, len(data))
    changed = build_batch(
        [first._replace(headers=change(first.headers))],
        base_offset=header.base_offset,
        base_ms=header.base_timestamp_ms,
    )[HEADER_SIZE:]
    payload = compress(Codec(header.codec), changed + data[at + size :])
    made = bytearray(batch[:HEADER_SIZE]) + payload
    _LENGTH.pack_into(made, _LENGTH_AT, len(made) - LENGTH_PREFIX)
    sign(made)
    return made
