"""The compiled finder: one pass over the bytes, positions only.

Here: a loop that numba compiles once per machine (its cache lies beside this file or in the
user's cache folder) and the memory it writes to.
Next door: the same without numba (positions_plain.py).

Compiled code has no safety net: no byte is read and no cell written that was not compared with a
bound before.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np

from kafscale.records.framing import MIN_RECORD_SIZE
from kafscale.spark.kernels.arrays import BoolArray, ByteArray, IntArray, LongArray
from kafscale.spark.kernels.positions import (
    BrokenRegion,
    Positions,
    Regions,
    check_bounds,
)

Function = TypeVar("Function", bound=Callable[..., Any])

_INT_BYTES: Final = 5
_LONG_BYTES: Final = 10


def _compiled(signature: str) -> Callable[[Function], Function]:
    """Compile now, from the cache where there is a place for one."""

    def make(function: Function) -> Function:
        compiled: Any
        try:
            compiled = numba.njit(signature, cache=True, nogil=True)(function)
        except RuntimeError:  # no folder that numba could write to
            compiled = numba.njit(signature, nogil=True)(function)
        return cast(Function, compiled)

    return make


@_compiled("UniTuple(int64, 2)(uint8[::1], int64, int64)")
def _number(data: ByteArray, at: Any, end: Any) -> tuple[Any, Any]:
    """A zigzag number of at most five bytes and the place after it; place -1: none."""
    if at < end and data[at] < 0x80:
        low = np.int64(data[at])
        return (low >> 1) ^ -(low & 1), at + 1
    raw = np.int64(0)
    shift = np.int64(0)
    stop = min(end, at + _INT_BYTES)
    while at < stop:
        byte = np.int64(data[at])
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    return np.int64(0), np.int64(-1)


@_compiled("UniTuple(int64, 2)(uint8[::1], int64, int64)")
def _long(data: ByteArray, at: Any, end: Any) -> tuple[Any, Any]:
    """A zigzag number of at most ten bytes, wrapped to 64 bits; place -1: none."""
    if at < end and data[at] < 0x80:
        low = np.int64(data[at])
        return (low >> 1) ^ -(low & 1), at + 1
    raw = np.uint64(0)
    over = np.uint64(0)  # bit 64 of the raw number, which becomes the top bit of the result
    shift = np.uint64(0)
    stop = min(end, at + _LONG_BYTES)
    while at < stop:
        byte = np.uint64(data[at])
        at += 1
        raw |= (byte & np.uint64(0x7F)) << shift
        if shift == np.uint64(63):
            over = (byte >> np.uint64(1)) & np.uint64(1)
        if byte < np.uint64(0x80):
            half = (raw >> np.uint64(1)) | (over << np.uint64(63))
            return np.int64(half) ^ -np.int64(raw & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


_FIND: Final = (
    "Tuple((int64, int64, int64))(uint8[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1], int64[::1], boolean[::1], int64, int64, int64[::1], int64[::1], int32[::1], "
    "boolean[::1], int32[::1], boolean[::1], int32[::1], int32[::1], int32[::1], boolean[::1])"
)


@_compiled(_FIND)
def _find(
    data: ByteArray,
    starts: LongArray,
    ends: LongArray,
    counts: LongArray,
    base_offsets: LongArray,
    base_times: LongArray,
    append_times: LongArray,
    appended: BoolArray,
    first: int,
    until: int,
    offsets: LongArray,
    times: LongArray,
    keys: IntArray,
    key_nulls: BoolArray,
    values: IntArray,
    value_nulls: BoolArray,
    header_ends: IntArray,
    names: IntArray,
    header_values: IntArray,
    header_nulls: BoolArray,
) -> tuple[int, int, int]:
    """Rows found, headers found (more than there was room for: too few cells), broken region."""
    row = 0
    heads = 0
    room = len(header_nulls)
    for region in range(len(starts)):
        at = starts[region]
        region_end = ends[region]
        for _ in range(counts[region]):
            length, at = _number(data, at, region_end)
            if at < 0 or length < 1 or length > region_end - at:
                return row, heads, region
            end = at + length
            time_delta, at = _long(data, at + 1, end)
            if at < 0:
                return row, heads, region
            offset_delta, at = _number(data, at, end)
            if at < 0:
                return row, heads, region
            key_length, key_at = _number(data, at, end)
            if key_at < 0 or key_length < -1 or key_length > end - key_at:
                return row, heads, region
            key_end = key_at + max(key_length, 0)
            value_length, value_at = _number(data, key_end, end)
            if value_at < 0 or value_length < -1 or value_length > end - value_at:
                return row, heads, region
            value_end = value_at + max(value_length, 0)
            count, at = _number(data, value_end, end)
            if at < 0 or count < 0 or count > (end - at) // 2:
                return row, heads, region
            offset = base_offsets[region] + offset_delta
            wanted = first <= offset < until
            for _header in range(count):
                length, at = _number(data, at, end)
                if at < 0 or length < 0 or length > end - at:
                    return row, heads, region
                name_at = at
                at += length
                name_end = at
                length, at = _number(data, at, end)
                if at < 0 or length < -1 or length > end - at:
                    return row, heads, region
                if wanted and heads < room:
                    names[2 * heads] = name_at
                    names[2 * heads + 1] = name_end
                    header_values[2 * heads] = at
                    header_values[2 * heads + 1] = at + max(length, 0)
                    header_nulls[heads] = length < 0
                if wanted:
                    heads += 1
                at += max(length, 0)
            if at != end:
                return row, heads, region
            if wanted:
                offsets[row] = offset
                times[row] = base_times[region] + time_delta
                if appended[region]:
                    times[row] = append_times[region]
                keys[2 * row] = key_at
                keys[2 * row + 1] = key_end
                key_nulls[row] = key_length < 0
                values[2 * row] = value_at
                values[2 * row + 1] = value_end
                value_nulls[row] = value_length < 0
                header_ends[row] = heads
                row += 1
        if at != region_end:
            return row, heads, region
    return row, heads, -1


class JitFinder:
    """Finds positions by compiled code, in memory that it uses again."""

    def __init__(self) -> None:
        self._rows = 0
        self._heads = 0
        self._make_room(1 << 12, 1 << 8)

    def find(self, data: ByteArray, regions: Regions, first: int, until: int) -> Positions:
        """Positions of the records with first <= offset < until."""
        check_bounds(data, regions)
        room = (regions.ends - regions.starts) // MIN_RECORD_SIZE
        # A count beyond what fits fails at the record where the bytes end, before its row.
        rows = int(np.clip(regions.counts, 0, room).sum())
        self._make_room(rows, 0)
        while True:
            offsets, times = np.empty(rows, np.int64), np.empty(rows, np.int64)
            count, heads, broken = _find(data, *regions, first, until, offsets, times, *self._cells)
            if broken >= 0:
                raise BrokenRegion(broken)
            if heads <= self._heads:
                break
            self._make_room(0, heads)
        keys, key_nulls, values, value_nulls, header_ends, names, contents, nulls = self._cells
        return Positions(
            offsets[:count],
            times[:count],
            keys[: 2 * count],
            key_nulls[:count],
            values[: 2 * count],
            value_nulls[:count],
            header_ends[:count],
            names[: 2 * heads],
            contents[: 2 * heads],
            nulls[:heads],
        )

    def _make_room(self, rows: int, heads: int) -> None:
        if rows <= self._rows and heads <= self._heads:
            return
        self._rows, self._heads = max(rows, self._rows), max(heads, self._heads)
        self._cells: tuple[Any, ...] = (
            np.empty(2 * self._rows, np.int32),
            np.empty(self._rows, np.bool_),
            np.empty(2 * self._rows, np.int32),
            np.empty(self._rows, np.bool_),
            np.empty(self._rows, np.int32),
            np.empty(2 * self._heads, np.int32),
            np.empty(2 * self._heads, np.int32),
            np.empty(self._heads, np.bool_),
        )
