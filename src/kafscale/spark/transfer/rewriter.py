"""One slice of a topic written again at its own offsets: batches joined and packed anew.

Here: rows with the offsets they have, holes included, laid into one segment that covers exactly
the slice. Every offset of it lies within some batch, so that readers step over the holes.
Next door: rows that get new offsets (sink/staging.py), writing segments (sink/sealing.py).
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from kafscale.log.formats.segment import LaneBatches
from kafscale.model.errors import InvalidRecord
from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.spark.kernels.arrays import LongArray
from kafscale.spark.sink.encode import BATCH_BYTES, BatchEncoder, assembled
from kafscale.spark.sink.staging import read_columns

_GATHER: Final = 16 << 20
_LONGEST_REACH: Final = 2**31 - 1
_NO_TIME: Final = -1


class Rewriter:
    """Lays rows with given offsets into batches without a gap between them."""

    def __init__(
        self, codec: str, first: int, *, batch_bytes: int = BATCH_BYTES, leader_epoch: int = 0
    ) -> None:
        """Begin at offset `first`."""
        self._encoder = BatchEncoder(Codec.named(codec))
        self._batch_bytes = batch_bytes
        self._epoch = leader_epoch
        self._first = first
        self.next = first  # the first offset that no batch covers yet
        self.batches: list[bytearray] = []
        self.records = 0
        self.bytes = 0
        self._times: list[tuple[int, int]] = []
        self._waiting: list[pa.RecordBatch] = []
        self._gathered = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows; their column `offset` rises."""
        if rows.num_rows:
            self._waiting.append(rows)
            self._gathered += rows.nbytes
            if self._gathered >= _GATHER:
                self._write()

    def finish(self, until: int) -> LaneBatches:
        """Cover everything up to `until`; gives what goes into the segment."""
        if self._waiting:
            self._write()
        if self.next < until:
            self._reach(until)
        return LaneBatches(
            0,
            self._first,
            until - 1,
            self.records,
            min(low for low, _ in self._times),
            max(high for _, high in self._times),
            self.batches,
        )

    def _write(self) -> None:
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._gathered = [], 0
        for rows in table.to_batches():
            offsets: LongArray = rows.column(rows.schema.get_field_index("offset")).to_numpy()
            columns = read_columns(rows, -1).rows
            parts = self._encoder.cut(columns, np.arange(columns.count), self._batch_bytes)
            for part in parts:
                last = int(offsets[part[-1]])
                deltas = offsets[part] - self.next
                if last - self.next > _LONGEST_REACH:
                    raise InvalidRecord(f"a hole from offset {self.next} on is too wide to keep")
                made = self._encoder.encode(
                    columns, part, base_offset=self.next, deltas=deltas, leader_epoch=self._epoch
                )
                times = columns.times_ms[part]
                self._keep(made, last + 1, len(part), int(times.min()), int(times.max()))

    def _keep(self, made: bytearray, following: int, records: int, low: int, high: int) -> None:
        self.batches.append(made)
        self.bytes += len(made)
        self.next = following
        self.records += records
        self._times.append((low, high))

    def _reach(self, until: int) -> None:
        """Cover the hole at the end: by the last batch, as Kafka's own cleaner leaves them.

        Where there is none, by a batch without records.
        """
        if self.batches:
            base = batch.read_header(self.batches[-1]).base_offset
            if until - 1 - base <= _LONGEST_REACH:
                self.batches[-1][23:27] = (until - 1 - base).to_bytes(4, "big")
                batch.sign(self.batches[-1])
                self.next = until
        while self.next < until:
            step = min(until - self.next, _LONGEST_REACH)
            made = assembled(
                Codec.NONE,
                b"",
                base_offset=self.next,
                last_delta=step - 1,
                leader_epoch=self._epoch,
                base_ms=_NO_TIME,
                max_ms=_NO_TIME,
                count=0,
            )
            self._keep(made, self.next + step, 0, _NO_TIME, _NO_TIME)


def rewritten(
    rows: Iterable[pa.RecordBatch], first: int, until: int, codec: str, batch_bytes: int
) -> LaneBatches:
    """All rows of a slice in one go."""
    writer = Rewriter(codec, first, batch_bytes=batch_bytes)
    for some in rows:
        writer.add(some)
    return writer.finish(until)
