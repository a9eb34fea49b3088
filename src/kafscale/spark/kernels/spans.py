"""Copying fields into Arrow.

Here: the span copy. Starts and ends of fields are read as the offsets of one long binary array
that lies over the raw bytes; its even elements are the fields, and taking them lets Arrow copy.
Next door: where the fields are (positions.py).
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafscale.spark.kernels.arrays import BoolArray, ByteArray, IntArray, LongArray
from kafscale.spark.kernels.positions import Positions

HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS: Final = pa.list_(HEADER)
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

_LAST_MS: Final = (2**63 - 1) // 1000

_even = np.arange(0, 1 << 16, 2, dtype=np.int32)


def copy(data: ByteArray, spans: IntArray, nulls: BoolArray) -> pa.BinaryArray:
    """The bytes of each span, or null."""
    count = len(nulls)
    null_count = int(np.count_nonzero(nulls))
    if null_count == count:
        return pa.nulls(count, pa.binary())
    over = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(spans), pa.py_buffer(data)]
    )
    places = _even_numbers(count)
    indices = pa.array(places, mask=nulls if null_count else None)
    return pc.take(over, indices, boundscheck=False)


def headers(data: ByteArray, positions: Positions) -> pa.ListArray:
    """The headers of each record; null where it has none, as Spark's Kafka source says it."""
    count = len(positions.offsets)
    if not len(positions.header_nulls):
        return pa.nulls(count, HEADERS)
    names = copy(data, positions.names, np.zeros(len(positions.header_nulls), np.bool_))
    values = copy(data, positions.header_values, positions.header_nulls)
    starts = np.zeros(count + 1, np.int32)
    starts[1:] = positions.header_ends
    empty = starts[1:] == starts[:-1]
    pairs = pa.StructArray.from_arrays([_text(names), values], fields=list(HEADER))
    return pa.ListArray.from_arrays(
        pa.array(starts), pairs, type=HEADERS, mask=pa.array(empty) if empty.any() else None
    )


def timestamps(times_ms: LongArray) -> pa.TimestampArray:
    """Milliseconds as Arrow keeps times; null for those that microseconds cannot say."""
    beyond = None
    if len(times_ms) and not -_LAST_MS <= times_ms.min() <= times_ms.max() <= _LAST_MS:
        beyond = (times_ms < -_LAST_MS) | (times_ms > _LAST_MS)
        times_ms = np.where(beyond, 0, times_ms)
    return pa.array(times_ms * 1000, mask=beyond).cast(TIMESTAMP)


def _text(names: pa.BinaryArray) -> pa.StringArray:
    """Names are UTF-8 by agreement only; what is not is shown as Java shows it."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.as_py().decode(errors="replace") for name in names], pa.string())


def _even_numbers(count: int) -> IntArray:
    global _even
    if len(_even) < count:
        _even = np.arange(0, 4 * count, 2, dtype=np.int32)
    return _even[:count]
