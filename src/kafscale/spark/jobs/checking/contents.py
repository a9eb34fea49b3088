"""A lane of one segment, batch by batch: checksums, offsets, times, and every record's frame.

Here: findings about batches, many at a time; only where something is wrong, one by one. Next door:
the object around them (checks.py), opening batches (logs/batch_records.py).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from kafscale.log.formats.segment import ANY_TIME, Span
from kafscale.model.errors import BadBatch
from kafscale.spark.jobs.logs import batch_records
from kafscale.spark.jobs.logs.batch_records import OpenedBatches
from kafscale.spark.kernels import scan
from kafscale.spark.kernels.arrays import BoolArray, LongArray
from kafscale.spark.kernels.positions import BrokenRegion, PositionFinder

_MOST: Final = 20  # findings of one kind in one lane: the rest would say the same


class AuditFinding(NamedTuple):
    """One thing that is not as it should be."""

    object: str
    kind: str
    severity: str  # error, warning, info; or repaired
    text: str


class LaneContents:
    """Adds up what a lane's batches say and compares it with its span."""

    def __init__(self, key: str, span: Span, dense: bool, finder: PositionFinder) -> None:
        """Expect the lane of an object; `dense`: no offset may be missing."""
        self.key = key
        self.span = span
        self.findings: list[AuditFinding] = []
        self.records = 0
        self._dense = dense
        self._finder = finder
        self._expected = span.first
        self._min_ms = ANY_TIME[1]
        self._max_ms = ANY_TIME[0]
        self._positions: list[list[int]] = []
        self._bases: list[list[int]] = []

    def all_positions(self) -> Iterable[int]:
        """Where batches begin in the object."""
        return (at for some in self._positions for at in some)

    def all_bases(self) -> Iterable[int]:
        """Their first offsets."""
        return (base for some in self._bases for base in some)

    def take(self, data: memoryview, at: int, positions: list[int]) -> None:
        """Look at whole batches that begin at byte `at` of the object."""
        headers = scan.read_headers(np.frombuffer(data, np.uint8), positions)
        places = headers.positions + at
        self._positions.append(places.tolist())
        self._bases.append(headers.column("base_offset").tolist())
        sound = self._check_sums(data, headers, places)
        self._check_offsets(headers, places)
        self.records += int(headers.column("record_count").sum())
        self._min_ms = min(self._min_ms, int(headers.column("base_timestamp_ms").min()))
        self._max_ms = max(self._max_ms, int(headers.column("max_timestamp_ms").max()))
        if not sound.all():
            headers = scan.BatchHeaders(headers.positions[sound], headers.table[sound])
            places = places[sound]
        if len(headers.positions):
            self._open(data, headers, at)

    def lost(self, at: int, why: str) -> None:
        """No next batch can be found."""
        self._find("framing", "error", at, why)

    def finish(self) -> None:
        """Compare the sums with the span."""
        span = self.span
        if self._expected != span.last + 1:
            text = f"lane {span.lane} ends at offset {self._expected - 1}, not {span.last}"
            self.findings.append(AuditFinding(self.key, "offsets", "error", text))
        if self.records != span.records:
            text = f"lane {span.lane} has {self.records} records, not {span.records}"
            self.findings.append(AuditFinding(self.key, "records", "error", text))
        told = (span.min_timestamp_ms, span.max_timestamp_ms)
        if told not in (ANY_TIME, (self._min_ms, self._max_ms)):
            text = f"lane {span.lane} has times {self._min_ms} to {self._max_ms}, not {told}"
            self.findings.append(AuditFinding(self.key, "timestamps", "error", text))

    def _find(self, kind: str, severity: str, at: int, text: str) -> None:
        if sum(1 for finding in self.findings if finding.kind == kind) < _MOST:
            self.findings.append(AuditFinding(self.key, kind, severity, f"byte {at}: {text}"))

    def _check_sums(
        self, data: memoryview, headers: scan.BatchHeaders, places: LongArray
    ) -> BoolArray:
        """Which batches are what their producers signed."""
        rows = zip(
            headers.positions.tolist(),
            headers.sizes.tolist(),
            headers.column("crc").tolist(),
            strict=True,
        )
        sound = np.array([scan.crc_is_right(data, *row) for row in rows], np.bool_)
        magic = headers.column("magic") == 2
        for row in np.flatnonzero(~sound).tolist():
            self._find("batch_crc", "error", int(places[row]), "the batch fails its checksum")
        for row in np.flatnonzero(~magic).tolist():
            text = f"magic {headers.table['magic'][row]}, not 2"
            self._find("format", "error", int(places[row]), text)
        both: BoolArray = sound & magic
        return both

    def _check_offsets(self, headers: scan.BatchHeaders, places: LongArray) -> None:
        bases, lasts = headers.column("base_offset"), headers.last_offsets
        expected = np.concatenate([[self._expected], lasts[:-1] + 1])
        wrong = bases < expected
        if self._dense:
            wrong |= bases != expected
        for row in np.flatnonzero(wrong).tolist():
            text = f"a batch begins at offset {bases[row]}, expected {expected[row]}"
            self._find("offsets", "error", int(places[row]), text)
        counts, covered = headers.column("record_count"), lasts - bases + 1
        wrong = (counts > covered) | (counts < 0)
        if self._dense:
            wrong |= counts != covered
        for row in np.flatnonzero(wrong).tolist():
            text = f"{counts[row]} records in a batch of {covered[row]} offsets"
            self._find("records", "error", int(places[row]), text)
        self._expected = int(lasts[-1]) + 1

    def _open(self, data: memoryview, headers: scan.BatchHeaders, at: int) -> None:
        """Look into the batches, all at once; if that fails, one by one."""
        try:
            for piece in batch_records.slices(data, headers, self._finder):
                self._check_records(piece, at)
        except (BadBatch, BrokenRegion):
            for row in range(len(headers.positions)):
                single = scan.BatchHeaders(
                    headers.positions[row : row + 1], headers.table[row : row + 1]
                )
                self._open_one(data, single, at)

    def _open_one(self, data: memoryview, header: scan.BatchHeaders, at: int) -> None:
        place = int(header.positions[0]) + at
        try:
            for piece in batch_records.slices(data, header, self._finder):
                self._check_records(piece, at)
        except BrokenRegion:
            text = "the records contradict their lengths or their count"
            self._find("framing", "error", place, text)
        except BadBatch as bad:
            self._find("compression", "error", place, str(bad))

    def _check_records(self, piece: OpenedBatches, at: int) -> None:
        counts = piece.regions.counts
        offsets, times = piece.positions.offsets, piece.positions.times_ms
        bases, lasts = piece.regions.base_offsets, piece.headers.last_offsets
        newest = piece.regions.append_times
        filled = counts > 0
        if not filled.any() or _is_in_order(counts, filled, offsets, times, bases, lasts, newest):
            return
        of = np.repeat(np.arange(len(counts)), counts)
        wrong = np.zeros(len(counts), np.bool_)
        falling = np.flatnonzero((np.diff(offsets) <= 0) & (of[1:] == of[:-1]))
        wrong[of[falling]] = True
        wrong[of[(offsets < bases[of]) | (offsets > lasts[of])]] = True
        for row in np.flatnonzero(wrong).tolist():
            place = int(piece.headers.positions[row]) + at
            self._find("offsets", "error", place, "the records' offsets do not rise in the batch")
        late = np.zeros(len(counts), np.bool_)
        late[of[times > newest[of]]] = True
        for row in np.flatnonzero(late).tolist():
            place = int(piece.headers.positions[row]) + at
            text = "a record is younger than its batch says: searches by time can miss it"
            self._find("timestamps", "warning", place, text)


def _is_in_order(
    counts: LongArray,
    filled: BoolArray,
    offsets: LongArray,
    times: LongArray,
    bases: LongArray,
    lasts: LongArray,
    newest: LongArray,
) -> bool:
    """Whether offsets rise throughout, within their batches, and no record is too young.

    The usual case, decided without asking for each record whose it is.
    """
    ends = np.cumsum(counts)[filled]
    firsts = ends - counts[filled]
    return (
        bool((offsets[1:] > offsets[:-1]).all())
        and bool((offsets[firsts] >= bases[filled]).all())
        and bool((offsets[ends - 1] <= lasts[filled]).all())
        and bool((np.maximum.reduceat(times, firsts) <= newest[filled]).all())
    )
