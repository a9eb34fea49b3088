"""A stream of stored bytes into Arrow record batches of a few megabytes.

Here: gathering chunks in one buffer that is used again, checking and unpacking batches, and
building the columns that are wanted. Memory: the buffer, the unpacked records, one Arrow batch;
a single batch larger than the buffer makes them grow, up to a limit.
Next door: positions.py and spans.py, which do the work on the bytes.
Never here: where the bytes come from.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafscale.model.buffers import Buffer
from kafscale.model.errors import BadBatch, CorruptBatch, CorruptObject
from kafscale.records import batch
from kafscale.records.compression import Codec, decompress
from kafscale.spark.kernels import scan, spans
from kafscale.spark.kernels.arrays import ByteArray, IntArray, LongArray
from kafscale.spark.kernels.finders import position_finder
from kafscale.spark.kernels.positions import (
    BrokenRegion,
    Positions,
    Regions,
)
from kafscale.spark.kernels.scan import BatchHeaders

BUFFER_BYTES: Final = 4 << 20  # measured: 1 to 4 MiB are best, half or four times that cost 20 %
LARGEST_BATCH: Final = 512 << 20
LAST_OFFSET: Final = 2**63 - 1

FIELDS: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": spans.TIMESTAMP,
    "timestampType": pa.int32(),
    "headers": spans.HEADERS,
}


class PartitionWindow(NamedTuple):
    """Whose records these are, and the window of offsets that is wanted.

    With `since_ms`, batches whose latest record is older are passed over unopened; older records
    of other batches do appear.
    """

    topic: str = ""
    partition: int = 0
    first: int = 0
    until: int = LAST_OFFSET
    since_ms: int | None = None
    # Of aborted transactions: producer, first offset, offset of the marker. They are left out.
    aborted: tuple[tuple[int, int, int], ...] = ()


class ObjectPiece(NamedTuple):
    """Whole batches of one lane as they lie in one object, in chunks of any size."""

    key: str
    start: int  # byte position of the first chunk in the object
    chunks: Iterable[Buffer]


class UnreadableBatch(NamedTuple):
    """A batch that could not be read; offset -1 where it is not known."""

    key: str
    position: int
    offset: int
    reason: str

    def __str__(self) -> str:
        offset = "" if self.offset < 0 else f", offset {self.offset}"
        return f"{self.key}, byte {self.position}{offset}: {self.reason}"


class _Origin(NamedTuple):
    """From where in the buffer on the bytes stem from this object."""

    at: int
    key: str
    start: int


class RecordDecoder:
    """Turns pieces of lanes into Arrow, only the wanted columns.

    One decoder serves one task: it keeps its buffers from lane to lane. What cannot be read
    raises CorruptBatch or CorruptObject; with a list of `findings` it is put down there instead,
    and reading goes on after it.
    """

    def __init__(
        self,
        columns: Sequence[str] = tuple(FIELDS),
        *,
        verify_crc: bool = True,
        fast: bool | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        largest_batch: int = LARGEST_BATCH,
        findings: list[UnreadableBatch] | None = None,
    ) -> None:
        self.schema = pa.schema([(name, FIELDS[name]) for name in columns])
        self._finder = position_finder(fast)
        self._verify_crc = verify_crc
        self._target = buffer_bytes
        self._largest = largest_batch
        self._findings = findings
        self._input: ByteArray = np.empty(buffer_bytes, np.uint8)
        self._unpacked: ByteArray = np.empty(0, np.uint8)
        self._used = 0
        self._origins: list[_Origin] = []
        self._lane = PartitionWindow()
        self._constants: dict[str | int, pa.Array] = {}
        self.next_offset = 0  # after the last row that was handed out
        self._past_window = False
        self._lost = False  # no next batch can be found in this piece

    def decode(
        self, lane: PartitionWindow, pieces: Iterable[ObjectPiece]
    ) -> Iterator[pa.RecordBatch]:
        """The lane's records, in the order of the pieces; stops reading after the window."""
        self._lane = lane
        self._constants = {}
        self.next_offset = lane.first
        self._used, self._origins, self._past_window = 0, [], False
        for piece in pieces:
            self._origins.append(_Origin(self._used, piece.key, piece.start))
            self._lost = False
            for chunk in piece.chunks:
                yield from self._take(chunk)
                if self._past_window:
                    return
                if self._lost:
                    break
        yield from self._drain(final=True)

    def _take(self, chunk: Buffer) -> Iterator[pa.RecordBatch]:
        view = np.frombuffer(chunk, np.uint8)
        while len(view):
            room = min(len(view), len(self._input) - self._used)
            self._input[self._used : self._used + room] = view[:room]
            self._used += room
            view = view[room:]
            if self._used == len(self._input):
                yield from self._drain(final=False)
                if self._past_window or self._lost:
                    return
                if self._used == len(self._input):
                    self._grow()

    def _grow(self) -> None:
        """A batch that does not fit the buffer."""
        if len(self._input) >= self._largest:
            where = self._where(0, "a batch larger than can be read")
            raise CorruptObject(str(where))
        larger = np.empty(min(4 * len(self._input), self._largest), np.uint8)
        larger[: self._used] = self._input[: self._used]
        self._input = larger

    def _drain(self, *, final: bool) -> Iterator[pa.RecordBatch]:
        """Decode the whole batches in the buffer; what is left moves to its front."""
        view = self._input.data
        positions: list[int] = []
        rest = self._used
        ends = [origin.at for origin in self._origins[1:]] + [self._used]
        for origin, end in zip(self._origins, ends, strict=True):
            walked = scan.walk(view, origin.at, end)
            positions += walked.positions
            if walked.problem:
                self._lost = end == self._used
                self._report(CorruptObject, self._where(walked.stop, walked.problem))
            elif walked.stop < end:
                if end == self._used and not final:
                    rest = walked.stop
                else:
                    self._report(CorruptObject, self._where(walked.stop, "ends within a batch"))
        if positions:
            yield from self._rows(view, scan.read_headers(self._input, positions))
        self._keep(rest)

    def _keep(self, rest: int) -> None:
        last = self._origins[-1] if self._origins else _Origin(0, "", 0)
        left = self._used - rest
        self._input[:left] = self._input[rest : self._used].copy()
        self._origins = [_Origin(0, last.key, last.start + rest - last.at)]
        self._used = left

    def _rows(self, view: memoryview, headers: BatchHeaders) -> Iterator[pa.RecordBatch]:
        lane = self._lane
        bases = headers.column("base_offset")
        self._past_window = bool((bases >= lane.until).any())
        wanted = (bases < lane.until) & (headers.last_offsets >= lane.first)
        wanted &= ~headers.flagged(batch.CONTROL)
        if lane.aborted:
            wanted &= ~scan.aborted(headers, lane.aborted)
        if lane.since_ms is not None:
            wanted &= headers.column("max_timestamp_ms") >= lane.since_ms
        headers = self._sound(view, BatchHeaders(headers.positions[wanted], headers.table[wanted]))
        if not len(headers.positions):
            return
        if not headers.codecs.any():
            ends = headers.positions + headers.sizes
            starts = headers.positions + batch.HEADER_SIZE
            yield from self._arrow(self._input, _regions(headers, starts, ends), headers)
            return
        yield from self._packed_rows(view, headers)

    def _sound(self, view: memoryview, headers: BatchHeaders) -> BatchHeaders:
        """Those batches whose checksum and format are right."""
        bad = headers.column("magic") != 2
        if self._verify_crc:
            rows = zip(
                headers.positions.tolist(),
                headers.sizes.tolist(),
                headers.column("crc").tolist(),
                strict=True,
            )
            bad |= np.array([not scan.crc_is_right(view, *row) for row in rows], np.bool_)
        if not bad.any():
            return headers
        for at in np.flatnonzero(bad).tolist():
            magic = int(headers.table["magic"][at])
            reason = "the checksum does not match" if magic == 2 else f"magic {magic}, not 2"
            self._report(CorruptBatch, self._where_batch(headers, at, reason))
        return BatchHeaders(headers.positions[~bad], headers.table[~bad])

    def _packed_rows(self, view: memoryview, headers: BatchHeaders) -> Iterator[pa.RecordBatch]:
        """Unpack batch after batch into one buffer, and decode whenever that is full."""
        starts: list[int] = []
        ends: list[int] = []
        rows: list[int] = []
        used = 0
        places = zip(
            headers.positions.tolist(), headers.sizes.tolist(), headers.codecs.tolist(), strict=True
        )
        for row, (position, size, codec) in enumerate(places):
            payload = view[position + batch.HEADER_SIZE : position + size]
            try:
                if codec > Codec.ZSTD:
                    raise CorruptBatch(f"codec {codec} is not known")
                data = decompress(Codec(codec), payload, self._largest) if codec else payload
            except BadBatch as problem:
                self._report(CorruptBatch, self._where_batch(headers, row, str(problem)))
                continue
            if used and used + len(data) > self._target:
                some = BatchHeaders(headers.positions[rows], headers.table[rows])
                yield from self._arrow(self._unpacked, _regions(some, starts, ends), some)
                starts, ends, rows, used = [], [], [], 0
            self._unpacked = _with_room(self._unpacked, used, len(data), self._target)
            self._unpacked[used : used + len(data)] = np.frombuffer(data, np.uint8)
            starts.append(used)
            used += len(data)
            ends.append(used)
            rows.append(row)
        if rows:
            some = BatchHeaders(headers.positions[rows], headers.table[rows])
            yield from self._arrow(self._unpacked, _regions(some, starts, ends), some)

    def _arrow(
        self, data: ByteArray, regions: Regions, headers: BatchHeaders
    ) -> Iterator[pa.RecordBatch]:
        lane = self._lane
        while True:
            try:
                positions = self._finder.find(data, regions, lane.first, lane.until)
                break
            except BrokenRegion as problem:
                reason = "the records contradict their lengths or their count"
                where = self._where_batch(headers, problem.index, reason)
                self._report(CorruptBatch, where)
                regions = regions.without(problem.index)
                left = np.delete(np.arange(len(headers.positions)), problem.index)
                headers = BatchHeaders(headers.positions[left], headers.table[left])
        if len(positions.offsets):
            self.next_offset = int(positions.offsets[-1]) + 1
            columns = [self._column(name, data, regions, positions) for name in self.schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(
        self, name: str, data: ByteArray, regions: Regions, positions: Positions
    ) -> pa.Array:
        count = len(positions.offsets)
        match name:
            case "key":
                return spans.copy(data, positions.keys, positions.key_nulls)
            case "value":
                return spans.copy(data, positions.values, positions.value_nulls)
            case "topic":
                return self._constant(self._lane.topic, count, pa.string())
            case "partition":
                return self._constant(self._lane.partition, count, pa.int32())
            case "offset":
                return pa.array(positions.offsets)
            case "timestamp":
                return spans.timestamps(positions.times_ms)
            case "timestampType":
                return pa.array(_time_types(regions, positions))
            case _:
                return spans.headers(data, positions)

    def _constant(self, value: str | int, count: int, kind: pa.DataType) -> pa.Array:
        """The same value over and over, made once and shown in part."""
        known = self._constants.get(value)
        if known is None or len(known) < count:
            known = self._constants[value] = pa.repeat(pa.scalar(value, kind), 2 * count)
        return known[:count]

    def _where_batch(self, headers: BatchHeaders, row: int, reason: str) -> UnreadableBatch:
        offset = int(headers.table["base_offset"][row])
        return self._where(int(headers.positions[row]), reason)._replace(offset=offset)

    def _where(self, at: int, reason: str) -> UnreadableBatch:
        origin = next(row for row in reversed(self._origins) if row.at <= at)
        return UnreadableBatch(origin.key, origin.start + at - origin.at, -1, reason)

    def _report(
        self, error: type[CorruptBatch] | type[CorruptObject], finding: UnreadableBatch
    ) -> None:
        if self._findings is None:
            raise error(str(finding))
        self._findings.append(finding)


def _regions(
    headers: BatchHeaders, starts: LongArray | list[int], ends: LongArray | list[int]
) -> Regions:
    return Regions(
        np.asarray(starts, np.int64),
        np.asarray(ends, np.int64),
        headers.column("record_count"),
        headers.column("base_offset"),
        headers.column("base_timestamp_ms"),
        headers.column("max_timestamp_ms"),
        headers.flagged(batch.LOG_APPEND_TIME),
    )


def _time_types(regions: Regions, positions: Positions) -> IntArray:
    """0: the producer's time, 1: the broker's."""
    count = len(positions.offsets)
    if not regions.appended.any():
        return np.zeros(count, np.int32)
    if regions.appended.all():
        return np.ones(count, np.int32)
    # A record lies in the last region that begins before its value.
    region = np.searchsorted(regions.starts, positions.values[0::2], side="right") - 1
    return regions.appended[region].astype(np.int32)


def _with_room(buffer: ByteArray, used: int, more: int, target: int) -> ByteArray:
    if used + more <= len(buffer):
        return buffer
    larger = np.empty(max(target, used + more), np.uint8)
    larger[:used] = buffer[:used]
    return larger
