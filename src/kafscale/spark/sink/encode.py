"""From Arrow to record batches of magic 2: the fast way in.

Here: rows of an Arrow batch, chosen and ordered by the caller, laid into a batch, packed and
signed; Kafka's choice of a partition by key. With numba the records are written by compiled
loops (encode_jit.py), without it by whole columns (encode_numpy.py); records with headers then
go through the plain builder (records/record.py).
Next door: where batches go (bulk.py), the way out (kernels/).
Never here: Spark, the bucket, clocks.
"""

from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafscale.model.errors import InvalidRecord
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.records.compression import Codec, compress
from kafscale.records.record import Record, build_batch
from kafscale.spark.kernels.arrays import BoolArray, ByteArray, IntArray, LongArray
from kafscale.spark.sink import encode_numpy

BATCH_BYTES: Final = 1_000_000  # below Kafka's default limit of 1,048,588
PER_RECORD: Final = 41  # the most a record takes besides its bytes: 6 lengths, a time, attributes
PER_HEADER: Final = 10
_MOST_ROWS: Final = 1 << 17  # per batch: small records should not make batches of millions
_NO_LONGS: Final = np.empty(0, np.int64)
_NO_BOOLS: Final = np.empty(0, np.bool_)
_NO_BYTES: Final = np.empty(0, np.uint8)


def _loops() -> ModuleType | None:
    try:
        from kafscale.spark.sink import encode_jit
    except ImportError:
        return None
    return encode_jit


class Blobs(NamedTuple):
    """A binary column as plain arrays: where each value begins, whether it is there, the bytes."""

    starts: LongArray  # one more than there are rows
    present: BoolArray
    data: ByteArray

    @property
    def sizes(self) -> LongArray:
        """Bytes of every row, 0 for null."""
        return np.where(self.present, np.diff(self.starts), 0)


def blobs(column: pa.Array) -> Blobs:
    """See a binary or string column as arrays, copying none of its bytes."""
    kind = column.type
    if pa.types.is_null(kind):
        return Blobs(
            np.zeros(len(column) + 1, np.int64), np.zeros(len(column), np.bool_), _NO_BYTES
        )
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        width: Any = np.int32
    elif pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        width = np.int64
    else:
        raise InvalidRecord(f"a column of {kind}: only strings and bytes can be written")
    _, starts, data = column.buffers()
    offsets = np.frombuffer(starts, width)[column.offset : column.offset + len(column) + 1]
    bytes_ = np.frombuffer(data, np.uint8) if data is not None and data.size else _NO_BYTES
    return Blobs(offsets.astype(np.int64), _present(column), bytes_)


def _present(column: pa.Array) -> BoolArray:
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    valid: BoolArray = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


class RecordRows:
    """The rows of an Arrow batch, ready to be written in any order."""

    def __init__(
        self,
        value: pa.Array,
        *,
        key: pa.Array | None = None,
        headers: pa.Array | None = None,
        times_ms: LongArray,
    ) -> None:
        """Take columns of equal length; headers are lists of structs of name and value."""
        count = len(value)
        self.count = count
        self.columns = (pa.nulls(count, pa.binary()) if key is None else key, value)
        self.value = blobs(value)
        self.key = blobs(pa.nulls(count) if key is None else key)
        self.times_ms = np.ascontiguousarray(times_ms, np.int64)
        self.lists, self.has_list = _NO_LONGS, _NO_BOOLS
        self.name = self.held = Blobs(_NO_LONGS, _NO_BOOLS, _NO_BYTES)
        # What a row takes at most.
        self.sizes = self.key.sizes + self.value.sizes + PER_RECORD
        if headers is not None and len(headers) and headers.null_count < len(headers):
            self._take_headers(headers)

    def _take_headers(self, headers: pa.Array) -> None:
        begins = np.frombuffer(headers.buffers()[1], np.int32)
        self.lists = begins[headers.offset : headers.offset + len(headers) + 1].astype(np.int64)
        self.has_list = _present(headers)
        inner = headers.values
        name, held = inner.field(0), inner.field(1)
        if name.null_count:
            raise InvalidRecord("a header without a name")
        self.name, self.held = blobs(name), blobs(held)
        each = self.name.sizes + self.held.sizes + PER_HEADER
        total = np.concatenate(([0], np.cumsum(each)))
        counted = total[self.lists[1:]] - total[self.lists[:-1]]
        self.sizes = self.sizes + np.where(self.has_list, counted, 0)

    def record(self, row: int, offset: int) -> Record:
        """One row as a value, for the plain way."""
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if len(self.lists) and self.has_list[row]:
            headers = tuple(
                (
                    (_at(self.name, header) or b"").decode(errors="surrogateescape"),
                    _at(self.held, header),
                )
                for header in range(self.lists[row], self.lists[row + 1])
            )
        key, value = _at(self.key, row), _at(self.value, row)
        return Record(offset, int(self.times_ms[row]), key, value, headers)


def _at(column: Blobs, row: int) -> bytes | None:
    if not column.present[row]:
        return None
    return column.data[column.starts[row] : column.starts[row + 1]].tobytes()


class BatchEncoder:
    """Writes batches; keeps its scratch memory between them."""

    def __init__(self, codec: Codec = Codec.NONE, *, fast: bool | None = None) -> None:
        """Pack by `codec`; `fast` False forgoes the compiler, None takes it if it is there."""
        self.codec = codec
        self._jit = None if fast is False else _loops()
        if fast and self._jit is None:
            raise ImportError("numba is not installed: pip install 'kafscale[fast]'")
        self._scratch: ByteArray = np.empty(1 << 20, np.uint8)

    def cut(
        self, rows: RecordRows, chosen: LongArray, batch_bytes: int = BATCH_BYTES
    ) -> list[LongArray]:
        """Divide the chosen rows into batches of about equal size, none much above the limit."""
        if not len(chosen):
            return []
        before = np.cumsum(rows.sizes[chosen]) - rows.sizes[chosen]
        total = int(before[-1] + rows.sizes[chosen[-1]])
        parts = -(-total // batch_bytes)
        lines = before * parts // max(total, 1)
        pieces = np.split(chosen, np.flatnonzero(np.diff(lines)) + 1)
        return [
            piece for part in pieces for piece in np.array_split(part, -(-len(part) // _MOST_ROWS))
        ]

    def encode(
        self,
        rows: RecordRows,
        chosen: LongArray,
        *,
        base_offset: int = 0,
        deltas: LongArray | None = None,
        last_delta: int | None = None,
        leader_epoch: int = 0,
    ) -> bytearray:
        """One batch of the chosen rows.

        Offsets are dense from `base_offset` unless `deltas` says otherwise; `last_delta` lets
        the batch reach over a hole behind its last record.
        """
        if deltas is None:
            deltas = np.arange(len(chosen), dtype=np.int64)
        if last_delta is None:
            last_delta = int(deltas[-1])
        times = rows.times_ms[chosen]
        if self._jit is None and len(rows.lists):
            return self._plain(rows, chosen, base_offset, deltas, last_delta, leader_epoch)
        payload = self._lay(rows, chosen, deltas)
        if self.codec is not Codec.NONE:
            payload = memoryview(compress(self.codec, payload))
        return assembled(
            self.codec,
            payload,
            base_offset=base_offset,
            last_delta=last_delta,
            leader_epoch=leader_epoch,
            base_ms=int(times[0]),
            max_ms=int(times.max()),
            count=len(chosen),
        )

    def _lay(self, rows: RecordRows, chosen: LongArray, deltas: LongArray) -> memoryview:
        """The records, not packed yet; what is given holds until the next call."""
        if self._jit is None:
            key, value = (column.take(pa.array(chosen)) for column in rows.columns)
            return encode_numpy.lay(key, value, deltas, rows.times_ms[chosen])
        room = int(rows.sizes[chosen].sum())
        if room > len(self._scratch):
            self._scratch = np.empty(2 * room, np.uint8)
        end = self._jit.lay(
            self._scratch,
            0,
            chosen,
            deltas,
            rows.times_ms,
            *rows.key,
            *rows.value,
            rows.lists,
            rows.has_list,
            rows.name.starts,
            rows.name.data,
            *rows.held,
        )
        return self._scratch.data[:end]

    def _plain(
        self,
        rows: RecordRows,
        chosen: LongArray,
        base_offset: int,
        deltas: LongArray,
        last_delta: int,
        leader_epoch: int,
    ) -> bytearray:
        records = [
            rows.record(row, base_offset + delta)
            for row, delta in zip(chosen.tolist(), deltas.tolist(), strict=True)
        ]
        built = build_batch(
            records, base_offset=base_offset, codec=self.codec, leader_epoch=leader_epoch
        )
        out = bytearray(built)
        if last_delta != deltas[-1]:
            out[23:27] = last_delta.to_bytes(4, "big")
            batch.sign(out)
        return out


def assembled(
    codec: Codec,
    payload: bytes | memoryview,
    *,
    base_offset: int,
    last_delta: int,
    leader_epoch: int,
    base_ms: int,
    max_ms: int,
    count: int,
) -> bytearray:
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=batch.HEADER_SIZE - batch.LENGTH_PREFIX + len(payload),
        leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=codec,
        last_offset_delta=last_delta,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    out = bytearray(batch.HEADER.pack(*header))
    out += payload
    batch.sign(out)
    return out


# -- choosing partitions ---------------------------------------------------------------------


def partitions_of(key: Blobs, count: int, *, first: int = 0, fast: bool | None = None) -> IntArray:
    """The partition of every row: by key as Kafka's clients choose it; null keys in turn.

    `first` is where the turn begins, so that tasks do not all begin with partition 0.
    """
    loops = None if fast is False else _loops()
    hashes = (loops or encode_numpy).murmur2(key.starts, key.data)
    by_key = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % count
    in_turn = (np.cumsum(~key.present) + first) % count
    return np.where(key.present, by_key, in_turn).astype(np.int32)
