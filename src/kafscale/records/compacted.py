"""What key compaction leaves of a batch: the rule, and the batch without the other records.

Offsets stay: a batch keeps its first and last offset whatever it loses. The records that stay keep
their bytes, and the batch its codec.
Here: pure work on one batch. Next door: which batches of a log are compacted (log/upkeep).
Never here: where the newest offsets come from.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafscale.model.errors import CorruptBatch, InvalidRecord
from kafscale.records import batch, varint
from kafscale.records.batch import BatchHeader
from kafscale.records.compression import Codec, compress, decompress


def survives(offset: Any, newest: Any, is_value: Any, horizon: int) -> Any:
    """Whether a record stays: no newer one of its key is known, and it is no old tombstone.

    `newest` is the last known offset of the record's key, -1 if none is known. `is_value` is False
    for a tombstone; tombstones below `horizon` have been kept for long enough. The rule takes the
    numbers of one record, or arrays with those of many.
    """
    return (newest <= offset) & (is_value | (offset >= horizon))


class KeyedRecord(NamedTuple):
    """What key compaction looks at of a record, and where the record lies."""

    start: int
    end: int
    time_delta: int
    offset_delta: int
    key: bytes | None
    is_value: bool  # False: a tombstone, which has a key and no value


def unpack_records(whole: memoryview, header: BatchHeader, most_bytes: int) -> bytes:
    """The records of a batch as they lie one after the other."""
    payload = whole[batch.HEADER_SIZE : header.size]
    if header.codec > Codec.ZSTD:
        raise CorruptBatch(f"codec {header.codec} is not known")
    if not header.codec or not len(payload):
        return bytes(payload)
    return bytes(decompress(Codec(header.codec), payload, most_bytes))


def keyed_records(records: bytes, count: int) -> Iterator[KeyedRecord]:
    """The `count` records that fill these bytes, without their values."""
    read, whole = varint.read, len(records)
    end = 0
    for _ in range(count):
        start = end
        size, at = read(records, start, whole)
        end = at + size
        if not at < end <= whole:
            raise InvalidRecord(f"a record claims {size} bytes, {whole - at} are left")
        time_delta, at = read(records, at + 1, end, varint.MAX_LONG_BYTES)
        offset_delta, at = read(records, at, end)
        key_size, at = read(records, at, end)
        key = None
        if key_size >= 0:
            key = records[at : at + key_size]
            at += key_size
        value_size, _ = read(records, at, end)
        is_value = key is None or value_size >= 0
        yield KeyedRecord(start, end, time_delta, offset_delta, key, is_value)
    if end != whole:
        raise InvalidRecord(f"{whole - end} bytes follow the last record")


class LeftOfBatch(NamedTuple):
    """What key compaction leaves of a batch."""

    data: memoryview | bytearray  # the batch itself where nothing was removed
    kept: int  # records
    removed: int


def learn_keys(whole: memoryview, header: BatchHeader, newest: dict[bytes, int], most: int) -> int:
    """Note the last offset of every key of a batch; gives the bytes of the keys that are new.

    `most`: bytes that the batch may unpack to.
    """
    if header.is_control:
        return 0
    new_bytes = 0
    for row in keyed_records(unpack_records(whole, header, most), header.record_count):
        if row.key is not None:
            if row.key not in newest:
                new_bytes += len(row.key)
            newest[row.key] = header.base_offset + row.offset_delta
    return new_bytes


def left_of(
    whole: memoryview, header: BatchHeader, newest: Mapping[bytes, int], horizon: int, most: int
) -> LeftOfBatch:
    """The batch without the records that do not survive; control batches stay as they are."""
    if header.is_control or not header.record_count:
        return LeftOfBatch(whole, header.record_count, 0)
    records = unpack_records(whole, header, most)
    left = [
        row
        for row in keyed_records(records, header.record_count)
        if survives(
            header.base_offset + row.offset_delta,
            -1 if row.key is None else newest.get(row.key, -1),
            row.is_value,
            horizon,
        )
    ]
    removed = header.record_count - len(left)
    if not removed:
        return LeftOfBatch(whole, len(left), 0)
    if not left:
        return LeftOfBatch(without_records(header), 0, removed)
    newest_ms = header.base_timestamp_ms + max(row.time_delta for row in left)
    made = with_records(header, [records[row.start : row.end] for row in left], newest_ms)
    return LeftOfBatch(made, len(left), removed)


def with_records(header: BatchHeader, records: Sequence[bytes], max_timestamp_ms: int) -> bytearray:
    """The batch with only these of its records, packed as it was.

    `max_timestamp_ms`: of these records; the batch keeps its own where the broker set it.
    """
    payload = compress(Codec(header.codec), b"".join(records))
    return _assemble(
        header._replace(
            batch_length=batch.MIN_BATCH_LENGTH + len(payload),
            record_count=len(records),
            max_timestamp_ms=(
                header.max_timestamp_ms if header.log_append_time else max_timestamp_ms
            ),
        ),
        payload,
    )


def without_records(header: BatchHeader) -> bytearray:
    """The batch without any record: 61 bytes that hold its offsets."""
    return _assemble(
        header._replace(
            batch_length=batch.MIN_BATCH_LENGTH,
            attributes=header.attributes & ~batch.CODEC_MASK,
            record_count=0,
        ),
        b"",
    )


def _assemble(header: BatchHeader, payload: bytes) -> bytearray:
    data = bytearray(batch.HEADER.pack(*header))
    data += payload
    batch.sign(data)
    return data
