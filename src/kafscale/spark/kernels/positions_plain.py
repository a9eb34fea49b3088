"""The plain finder: numpy alone.

Here: a Python loop that hops from record to record by their lengths, then each field of all
records at once. Numbers are read byte by byte, each step for those records that need it.
Next door: the same compiled (positions_jit.py).
"""

from typing import Final, NamedTuple

import numpy as np

from kafscale.records.framing import MIN_RECORD_SIZE
from kafscale.spark.kernels.arrays import BoolArray, ByteArray, IntArray, LongArray
from kafscale.spark.kernels.positions import (
    BrokenRegion,
    Positions,
    Regions,
    check_bounds,
    first_overfull,
)

_INT_BYTES: Final = 5
_LONG_BYTES: Final = 10

# How far a record's first byte reaches, and what a second byte adds. Odd ones are negative
# lengths: they are found afterwards, all at once.
_HOP: Final = [1 + (byte >> 1) for byte in range(128)]
_HOP_LOW: Final = [2 + ((byte & 0x7F) >> 1) for byte in range(256)]
_HOP_HIGH: Final = [byte << 6 for byte in range(128)]


class _Fields(NamedTuple):
    """All numbers and places of all records."""

    offsets: LongArray
    times_ms: LongArray
    keys: tuple[LongArray, LongArray, BoolArray]
    values: tuple[LongArray, LongArray, BoolArray]
    header_counts: LongArray
    headers_at: LongArray


class PlainFinder:
    """Finds positions without numba."""

    def find(self, data: ByteArray, regions: Regions, first: int, until: int) -> Positions:
        """Positions of the records with first <= offset < until."""
        check_bounds(data, regions)
        overfull = first_overfull(regions, MIN_RECORD_SIZE)
        if overfull is not None:
            # The regions before it may be broken in other ways, and the first one is to be named.
            self._find(data, Regions._make(column[:overfull] for column in regions), first, until)
            raise BrokenRegion(overfull)
        return self._find(data, regions, first, until)

    def _find(self, data: ByteArray, regions: Regions, first: int, until: int) -> Positions:
        reader = _Reader(data, regions)
        fields = reader.fields()
        names, contents, of_record = reader.headers(fields)
        reader.raise_first()
        wanted = (fields.offsets >= first) & (fields.offsets < until)
        kept = wanted[of_record]
        return Positions(
            fields.offsets[wanted],
            fields.times_ms[wanted],
            _spans(*fields.keys[:2], wanted),
            fields.keys[2][wanted],
            _spans(*fields.values[:2], wanted),
            fields.values[2][wanted],
            np.cumsum(fields.header_counts[wanted]).astype(np.int32),
            _spans(*names[:2], kept),
            _spans(*contents[:2], kept),
            contents[2][kept],
        )


def _spans(starts: LongArray, ends: LongArray, wanted: BoolArray) -> IntArray:
    spans = np.empty(2 * int(wanted.sum()), np.int32)
    spans[0::2] = starts[wanted]
    spans[1::2] = ends[wanted]
    return spans


class _Reader:
    """Reads all records of all regions; remembers which of them are not sound."""

    def __init__(self, data: ByteArray, regions: Regions) -> None:
        self._data = data
        self._regions = regions
        self._broken = regions.total  # the first broken region
        starts, firsts = self._hop()
        counts = np.diff(firsts)
        self._region = np.repeat(np.arange(regions.total), counts)
        self._starts = starts
        # A record ends where the next one starts; the last of a region with the region.
        self._ends = np.append(starts[1:], 0)[: len(starts)]
        lasts = firsts[1:][counts > 0] - 1
        self._ends[lasts] = regions.ends[counts > 0]
        self._bad = np.zeros(len(starts), np.bool_)

    def _hop(self) -> tuple[LongArray, LongArray]:
        """Where each record starts, and which record is the first of each region."""
        regions = self._regions
        places: list[int] = []
        firsts = [0]
        data = self._data.tobytes()
        add = places.append
        rows = zip(
            regions.starts.tolist(), regions.ends.tolist(), regions.counts.tolist(), strict=True
        )
        for number, (at, end, count) in enumerate(rows):
            mark = len(places)
            try:
                for _ in range(count):
                    add(at)
                    byte = data[at]
                    if byte < 0x80:
                        at += _HOP[byte]
                        continue
                    second = data[at + 1]
                    if second < 0x80:
                        at += _HOP_LOW[byte] + _HOP_HIGH[second]
                    else:
                        at = _hop_far(data, at)
            except IndexError:
                at = -1
            if at != end:
                del places[mark:]  # nothing after this region counts
                self._broken = number
                firsts += [mark] * (regions.total - number)
                break
            firsts.append(len(places))
        return np.array(places, np.int64), np.array(firsts, np.int64)

    def fields(self) -> _Fields:
        """Read everything up to the headers."""
        regions, region = self._regions, self._region
        first_bytes = self._byte(self._starts)
        self._bad |= (first_bytes & 1) != 0  # a negative length
        _, at = self._number(self._starts, _INT_BYTES)
        self._bad |= at >= self._ends
        time_delta, at = self._number(at + 1, _LONG_BYTES)
        offset_delta, at = self._number(at, _INT_BYTES)
        keys, at = self._bytes(at)
        values, at = self._bytes(at)
        counts, at = self._number(at, _INT_BYTES)
        self._bad |= (counts < 0) | (counts > (self._ends - at) // 2)
        self._bad |= (counts == 0) & (at != self._ends)
        times = regions.base_times[region] + time_delta
        times = np.where(regions.appended[region], regions.append_times[region], times)
        return _Fields(regions.base_offsets[region] + offset_delta, times, keys, values, counts, at)

    def headers(
        self, fields: _Fields
    ) -> tuple[
        tuple[LongArray, LongArray, BoolArray], tuple[LongArray, LongArray, BoolArray], LongArray
    ]:
        """Names, values, and whose they are: the n-th header of every record at once."""
        rows = np.flatnonzero((fields.header_counts > 0) & ~self._bad)
        at = fields.headers_at[rows]
        headers: list[tuple[LongArray, ...]] = []
        step = 0
        while len(rows):
            name_length, name_at = self._number(at, _INT_BYTES, rows)
            name_end = name_at + np.maximum(name_length, 0)
            length, value_at = self._number(name_end, _INT_BYTES, rows)
            at = value_at + np.maximum(length, 0)
            self._bad[rows] |= (name_length < 0) | (length < -1) | (at > self._ends[rows])
            headers.append((rows, name_at, name_end, value_at, at, length))
            step += 1
            more = fields.header_counts[rows] > step
            done = rows[~more]
            self._bad[done] |= at[~more] != self._ends[done]
            more &= ~self._bad[rows]
            rows, at = rows[more], at[more]
        if not headers:
            none, no = np.empty(0, np.int64), np.empty(0, np.bool_)
            return (none, none, no), (none, none, no), none
        columns = [np.concatenate(parts) for parts in zip(*headers, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        of, name_at, name_end, value_at, value_end, length = (c[order] for c in columns)
        return (name_at, name_end, length < 0), (value_at, value_end, length < 0), of

    def raise_first(self) -> None:
        """Name the first region that is not sound."""
        bad = np.flatnonzero(self._bad)
        broken = min(int(self._region[bad[0]]), self._broken) if len(bad) else self._broken
        if broken < self._regions.total:
            raise BrokenRegion(broken)

    def _bytes(self, at: LongArray) -> tuple[tuple[LongArray, LongArray, BoolArray], LongArray]:
        length, start = self._number(at, _INT_BYTES)
        end = start + np.maximum(length, 0)
        self._bad |= (length < -1) | (end > self._ends)
        return (start, end, length < 0), end

    def _byte(self, at: LongArray) -> LongArray:
        """The byte at each place; any byte for a place that is outside, found by its end."""
        if not len(at):
            return np.empty(0, np.int64)
        return self._data[np.minimum(at, len(self._data) - 1)].astype(np.int64)

    def _number(
        self, at: LongArray, most: int, rows: LongArray | slice = slice(None)
    ) -> tuple[LongArray, LongArray]:
        """The zigzag numbers at these places of these records, and the places after them."""
        ends = self._ends[rows]
        byte = self._byte(at)
        bad = at >= ends
        raw = byte & 0x7F
        top = np.zeros(len(at), np.int64)  # bit 64 of a raw number, the top bit of the result
        after = at + 1
        more = np.flatnonzero(byte & 0x80)
        for step in range(1, most):
            if not len(more):
                break
            place = after[more]
            bad[more] |= place >= ends[more]
            byte = self._byte(place)
            raw[more] |= (byte & 0x7F) << (7 * step)
            if step == _LONG_BYTES - 1:
                top[more] = (byte >> 1) & 1
            after[more] += 1
            more = more[(byte & 0x80) != 0]
        bad[more] = True
        self._bad[rows] |= bad
        half = ((raw >> 1) & (2**63 - 1)) | (top << 63)
        return half ^ -(raw & 1), after


def _hop_far(data: bytes, at: int) -> int:
    """The place after a record whose length has three to five bytes; -1 if it does not end."""
    raw = shift = 0
    for place in range(at, at + _INT_BYTES):
        byte = data[place]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return place + 1 + (raw >> 1)
        shift += 7
    return -1
