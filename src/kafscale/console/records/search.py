"""Searching records: forwards, or backwards in windows, within a budget.

Here: one search, run in a thread of its own; it says what it found, how far it came, and where to
go on. Kafka has no reading backwards: each partition is read in windows that end where the last
one began and become larger. Next door: reading offsets (admin/records/scanning.py), which ones
(ranges.py), filters and decoders.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from kafscale.admin.records.scanning import ScannedRecord
from kafscale.console.answers.record_shapes import (
    EndEvent,
    EndReason,
    ProgressEvent,
    RecordRow,
    RecordsEvent,
    SearchRequest,
)
from kafscale.console.records.decoders import row_of, scope_of
from kafscale.console.records.filters import NoAnswer, RecordFilter
from kafscale.console.records.ranges import OffsetRange, write_cursor
from kafscale.console.records.schemas import Schemas
from kafscale.model.clock import Clock

SearchEvent = RecordsEvent | ProgressEvent | EndEvent
_FIRST_WINDOW: Final = 128  # offsets of each partition
_SMALL_WINDOW: Final = 8  # is read whatever the budget says
_LARGEST_WINDOW: Final = 1 << 20
_WINDOW_BYTES: Final = 8 << 20
_TELL_EVERY_S: Final = 0.5
_MOST_TEXT: Final = 24 << 20  # of one answer


class RecordTest:
    """Whether a record is what is looked for: bytes first, then the filter."""

    def __init__(
        self, find: str, wanted: RecordFilter | None, schemas: Schemas | None = None
    ) -> None:
        self._find = find.encode("utf-8", "surrogatepass")
        self._wanted = wanted
        self.schemas = schemas
        self.not_evaluated = 0

    def fits(self, record: ScannedRecord) -> bool:
        """Whether it fits. A record on which the filter has no answer does not, and is counted."""
        if self._find and not self._has_bytes(record):
            return False
        if self._wanted is None:
            return True
        try:
            return self._wanted.matches(scope_of(record, self.schemas))
        except NoAnswer:
            self.not_evaluated += 1
            return False

    def _has_bytes(self, record: ScannedRecord) -> bool:
        find = self._find
        if find in (record.value or b"") or find in (record.key or b""):
            return True
        return any(
            find in (value or b"") or find in name.encode() for name, value in record.headers
        )


class RecordReader(Protocol):
    """What is searched: brokers, or a snapshot in the bucket."""

    def read(
        self, ranges: Mapping[int, OffsetRange], is_stopped: Callable[[], bool]
    ) -> Iterator[list[ScannedRecord]]:
        """Yield the records of each partition's range in order; an empty list: time has passed."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class Search:
    """One search. `run` yields events; call it in a thread."""

    def __init__(
        self,
        request: SearchRequest,
        ranges: dict[int, OffsetRange],
        test: RecordTest,
        clock: Clock,
        *,
        is_shown: bool,
        is_stopped: Callable[[], bool],
    ) -> None:
        self._request = request
        self._left = dict(ranges)
        self._test = test
        self._clock = clock
        self._is_shown = is_shown
        self._is_stopped = is_stopped
        self._is_backwards = request.from_kind == "newest"
        self._total = sum(max(end - first, 0) for first, end in ranges.values())
        self._began_s = clock.elapsed_s()
        self._looked_at = self._bytes = self._found = self._text = 0
        self._reached_ms: int | None = None

    def run(self, reader: RecordReader) -> Iterator[SearchEvent]:
        """Search until the limit, the budget or the end is reached."""
        yield self._progress()
        yield from self._backwards(reader) if self._is_backwards else self._forwards(reader)
        reason: EndReason = "end"
        if any(first < end for first, end in self._left.values()):
            reason = "limit" if self._is_full() else "budget"
            if self._is_stopped() and not self._is_over_budget():
                reason = "cancelled"
        after = write_cursor(self._left, backwards=self._is_backwards)
        yield EndEvent(reason=reason, after=after, progress=self._progress())

    # -- forwards --------------------------------------------------------------------------------

    def _forwards(self, reader: RecordReader) -> Iterator[SearchEvent]:
        told_s = self._clock.elapsed_s()
        ranges = dict(self._left)
        for batch in reader.read(ranges, self._must_stop):
            rows: list[RecordRow] = []
            for record in batch:
                if self._is_full():
                    break
                self._look(record)
                if self._test.fits(record):
                    rows.append(self._row(record))
                self._left[record.partition] = record.offset + 1, ranges[record.partition][1]
            if rows:
                yield RecordsEvent(records=rows)
            if rows or self._clock.elapsed_s() - told_s > _TELL_EVERY_S:
                told_s = self._clock.elapsed_s()
                yield self._progress()
            if self._must_stop():
                return
        if not self._must_stop():  # what is missing at the end was compacted away, or a marker
            self._left = {at: (end, end) for at, (_, end) in ranges.items()}

    # -- backwards -------------------------------------------------------------------------------

    def _backwards(self, reader: RecordReader) -> Iterator[SearchEvent]:
        size, is_first = _FIRST_WINDOW, True
        while any(first < end for first, end in self._left.values()) and not self._must_stop():
            windows, before = self._windows(size), self._bytes
            found, is_whole = self._read_windows(reader, windows, self._must_stop)
            if is_first and not is_whole:  # else going on would begin here again and again
                windows = self._windows(_SMALL_WINDOW)
                found, is_whole = self._read_windows(reader, windows, self._is_stopped)
            is_first = False
            if not is_whole:  # stopped on the way: this window is read again later
                return
            rows = self._emit(windows, found)
            if rows:
                yield RecordsEvent(records=rows)
            yield self._progress()
            if self._bytes - before < _WINDOW_BYTES:
                size = min(size * 2, _LARGEST_WINDOW)

    def _windows(self, size: int) -> dict[int, OffsetRange]:
        return {
            at: (max(first, end - size), end)
            for at, (first, end) in self._left.items()
            if first < end
        }

    def _read_windows(
        self,
        reader: RecordReader,
        windows: dict[int, OffsetRange],
        must_stop: Callable[[], bool],
    ) -> tuple[dict[int, deque[ScannedRecord]], bool]:
        """The records of each window that fit; of many the newest, as many as may be asked for."""
        most = self._request.limit
        found: dict[int, deque[ScannedRecord]] = {at: deque(maxlen=most) for at in windows}
        for batch in reader.read(windows, must_stop):
            for record in batch:
                self._look(record)
                if self._test.fits(record):
                    found[record.partition].append(record)
            if must_stop():
                return found, False
        return found, not must_stop()

    def _emit(
        self, windows: dict[int, OffsetRange], found: dict[int, deque[ScannedRecord]]
    ) -> list[RecordRow]:
        """Take the newest of all partitions, each partition's in order, and note what is left."""
        heads = [(-(rows[-1].timestamp_ms or 0), at) for at, rows in found.items() if rows]
        heapq.heapify(heads)
        taken: list[RecordRow] = []
        last: dict[int, int] = {}
        while heads and not self._is_full():
            _, at = heapq.heappop(heads)
            record = found[at].pop()
            last[at] = record.offset
            taken.append(self._row(record))
            if found[at]:
                heapq.heappush(heads, (-(found[at][-1].timestamp_ms or 0), at))
        most = self._request.limit
        for at, (begin, end) in windows.items():
            was_cut = at in last and len(found[at]) + self._count(taken, at) >= most
            if found[at] or was_cut:  # some of this window were not given yet
                self._left[at] = self._left[at][0], last.get(at, end)
            else:
                self._left[at] = self._left[at][0], begin
        return taken

    @staticmethod
    def _count(rows: list[RecordRow], partition: int) -> int:
        return sum(row.partition == partition for row in rows)

    # -- counting --------------------------------------------------------------------------------

    def _row(self, record: ScannedRecord) -> RecordRow:
        request = self._request
        row = row_of(
            record,
            request.key_as,
            request.value_as,
            is_shown=self._is_shown,
            schemas=self._test.schemas,
        )
        self._found += 1
        self._text += len(row.key.text or "") + len(row.value.text or "")
        return row

    def _look(self, record: ScannedRecord) -> None:
        self._looked_at += 1
        self._bytes += record.size
        self._reached_ms = record.timestamp_ms

    def _is_full(self) -> bool:
        return self._found >= self._request.limit or self._text >= _MOST_TEXT

    def _is_over_budget(self) -> bool:
        budget = self._request.budget
        return (
            self._looked_at >= budget.records
            or self._bytes >= budget.bytes
            or self._clock.elapsed_s() - self._began_s >= budget.seconds
        )

    def _must_stop(self) -> bool:
        return self._is_stopped() or self._is_full() or self._is_over_budget()

    def _progress(self) -> ProgressEvent:
        return ProgressEvent(
            looked_at=self._looked_at,
            of=self._total,
            bytes=self._bytes,
            found=self._found,
            seconds=round(self._clock.elapsed_s() - self._began_s, 3),
            reached_ms=None if self._reached_ms is None else str(self._reached_ms),
            not_evaluated=self._test.not_evaluated,
        )
