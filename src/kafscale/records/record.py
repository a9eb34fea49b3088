"""Single records: opening a batch into them and building a batch of them.

Here: everything that needs a record as a value, at the edges only.
Next door: the walk that checks records without opening them (framing.py).
Never here: the hot paths. Appending and fetching move batches closed.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafscale.model.errors import CorruptBatch, InvalidRecord, UnsupportedCompression
from kafscale.records import varint
from kafscale.records.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    BatchHeader,
    read_header,
    sign,
)
from kafscale.records.compression import Codec, UnpackBudget, compress, decompress

# Names of headers are UTF-8 by agreement only; bytes that are not must survive a rewrite.
_NAME_ERRORS = "surrogateescape"


class Record(NamedTuple):
    """One record, with its place and time made absolute."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    attributes: int = 0  # Kafka defines none; a door may note what only its own clients see


def open_batch(batch: bytes | bytearray | memoryview, limit: int) -> list[Record]:
    """Every record of a batch, unpacking at most `limit` bytes."""
    return list(each_record(*unpack(batch, limit)))


def first_at_or_after(
    batch: bytes | bytearray | memoryview, timestamp_ms: int, limit: int
) -> tuple[int, int] | None:
    """Offset and time of the first record that is not older than `timestamp_ms`."""
    for record in each_record(*unpack(batch, limit)):
        if record.timestamp_ms >= timestamp_ms:
            return record.offset, record.timestamp_ms
    return None


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    base_ms: int | None = None,
    next_offset: int | None = None,
) -> bytes:
    """A batch of these records, whose offsets rise from `base_offset` on; gaps are allowed.

    `base_ms`: the time that the header has, if not the first record's. `next_offset`: the one after
    the batch, if offsets without a record come last.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    if base_ms is None:
        base_ms = records[0].timestamp_ms
    last_offset = records[-1].offset if next_offset is None else next_offset - 1
    payload = compress(codec, b"".join(_encode(r, base_offset, base_ms) for r in records))
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE - LENGTH_PREFIX + len(payload),
        leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=codec,
        last_offset_delta=last_offset - base_offset,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return bytes(_assemble(header, payload))


def recompress(
    batch: bytes | bytearray | memoryview,
    codec: Codec,
    limit: int,
    budget: UnpackBudget | None = None,
) -> bytearray:
    """The same records under the same header, packed by another codec and signed anew."""
    header, data = unpack(batch, limit, budget)
    payload = compress(codec, data)
    return _assemble(
        header._replace(
            batch_length=HEADER_SIZE - LENGTH_PREFIX + len(payload),
            attributes=header.attributes & ~CODEC_MASK | codec,
        ),
        payload,
    )


def _assemble(header: BatchHeader, payload: bytes) -> bytearray:
    batch = bytearray(HEADER.pack(*header))
    batch += payload
    sign(batch)
    return batch


def unpack(
    batch: bytes | bytearray | memoryview, limit: int, budget: UnpackBudget | None = None
) -> tuple[BatchHeader, bytes]:
    """The header of a batch, and its records unpacked to at most `limit` bytes."""
    header = read_header(batch)
    if not HEADER_SIZE <= header.size <= len(batch):
        raise CorruptBatch(f"a batch of {header.size} bytes in {len(batch)}")
    if header.codec > Codec.ZSTD:
        raise UnsupportedCompression(f"codec {header.codec}")
    payload = memoryview(batch)[HEADER_SIZE : header.size]
    unpack_bytes = decompress if budget is None else budget.unpack
    return header, bytes(unpack_bytes(Codec(header.codec), payload, limit))


def each_record(header: BatchHeader, data: bytes) -> Iterator[Record]:
    """Open the records of a batch one by one; `data` has them unpacked."""
    at = 0
    for _ in range(header.record_count):
        record, at = _decode(data, at, header)
        yield record
    if at != len(data):
        raise InvalidRecord(f"{len(data) - at} bytes follow the last record")


def _decode(data: bytes, at: int, header: BatchHeader) -> tuple[Record, int]:
    length, at = varint.read(data, at, len(data))
    end = at + length
    if not at < end <= len(data):
        raise InvalidRecord(f"a record claims {length} bytes, {len(data) - at} are left")
    attributes = data[at]
    time_delta, at = varint.read(data, at + 1, end, varint.MAX_LONG_BYTES)
    offset_delta, at = varint.read(data, at, end)
    key, at = _decode_bytes(data, at, end)
    value, at = _decode_bytes(data, at, end)
    count, at = varint.read(data, at, end)
    if not 0 <= count <= (end - at) // 2:
        raise InvalidRecord(f"a record claims {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _decode_bytes(data, at, end)
        if name is None:
            raise InvalidRecord("a header without a name")
        header_value, at = _decode_bytes(data, at, end)
        headers.append((name.decode(errors=_NAME_ERRORS), header_value))
    if at != end:
        raise InvalidRecord(f"a record has {end - at} bytes too many")
    time_ms = _int64(header.base_timestamp_ms + time_delta)
    if header.log_append_time:
        time_ms = header.max_timestamp_ms
    offset = header.base_offset + offset_delta
    return Record(offset, time_ms, key, value, tuple(headers), attributes), end


def _int64(number: int) -> int:
    """A producer's sum may leave 64 bits; what we hand on must fit them, so it wraps as in Java."""
    return (number + 2**63) % 2**64 - 2**63


def _decode_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = varint.read(data, at, end)
    if length == -1:
        return None, at
    if length < 0 or at + length > end:
        raise InvalidRecord(f"{length} bytes claimed at byte {at}, {end - at} are left")
    return data[at : at + length], at + length


def _encode(record: Record, base_offset: int, base_ms: int) -> bytes:
    parts = [
        bytes((record.attributes,)),
        varint.encode(record.timestamp_ms - base_ms),
        varint.encode(record.offset - base_offset),
        *_encode_bytes(record.key),
        *_encode_bytes(record.value),
        varint.encode(len(record.headers)),
    ]
    for name, value in record.headers:
        parts += _encode_bytes(name.encode(errors=_NAME_ERRORS))
        parts += _encode_bytes(value)
    body = b"".join(parts)
    return varint.encode(len(body)) + body


def _encode_bytes(data: bytes | None) -> tuple[bytes, bytes]:
    if data is None:
        return b"\x01", b""
    return varint.encode(len(data)), data
