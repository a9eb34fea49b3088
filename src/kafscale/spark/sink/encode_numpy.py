"""The encoder's loops without a compiler: numbers by numpy, bytes joined by Arrow.

Every number of a record is written for all records at once, as columns of bytes of which only
those in use are kept; Arrow then joins heads, keys and values. Records with headers are left to
the plain way. Next door: the compiled form (encode_jit.py).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafscale.spark.kernels.arrays import BoolArray, ByteArray, LongArray

_MIX = np.uint32(0x5BD1E995)


def _varints(numbers: LongArray) -> tuple[ByteArray, BoolArray]:
    """Zigzag varints of many numbers: a row of bytes each, and which of them are in use."""
    raw = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    most = max(1, -(-int(raw.max(initial=0)).bit_length() // 7))
    groups = raw[:, None] >> (np.arange(most, dtype=np.uint64) * np.uint64(7))
    used = groups > 0
    used[:, 0] = True
    out = (groups & np.uint64(0x7F)).astype(np.uint8)
    out[:, :-1] |= np.where(used[:, 1:], 0x80, 0).astype(np.uint8)
    return out, used


def _texts(*parts: tuple[ByteArray, BoolArray]) -> pa.Array:
    """The bytes in use of each row, put together, as one binary column."""
    table = np.concatenate([part for part, _ in parts], axis=1)
    used = np.concatenate([mask for _, mask in parts], axis=1)
    ends = np.zeros(len(table) + 1, np.int32)
    np.cumsum(used.sum(axis=1), out=ends[1:])
    data = table[used]
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(table), [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )


def lay(key: pa.Array, value: pa.Array, deltas: LongArray, times: LongArray) -> memoryview:
    """The records of these columns, one after the other; times are relative to the first."""
    count = len(value)
    zero = (np.zeros((count, 1), np.uint8), np.ones((count, 1), np.bool_))
    key_sizes, key_bytes = _sized(key)
    value_sizes, value_bytes = _sized(value)
    time, delta = _varints(times - times[0]), _varints(deltas)
    before_key, before_value = _varints(key_sizes), _varints(value_sizes)
    sizes = 2 + np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)  # attributes, no headers
    for _, used in (time, delta, before_key, before_value):
        sizes = sizes + used.sum(axis=1)
    head = _texts(_varints(sizes), zero, time, delta, before_key)
    joined: Any = pc.binary_join_element_wise(
        head, key_bytes, _texts(before_value), value_bytes, pa.scalar(b"\0"), pa.scalar(b"")
    )
    return memoryview(joined.buffers()[2])[: _end(joined)]


def _end(joined: pa.Array) -> int:
    return int(np.frombuffer(joined.buffers()[1], np.int32)[len(joined)])


def _sized(column: pa.Array) -> tuple[LongArray, pa.Array]:
    """Lengths, -1 for null, and the bytes, none for null."""
    column = column.cast(pa.binary())
    sizes = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
    return sizes.astype(np.int64), pc.fill_null(column, b"")


def murmur2(starts: LongArray, data: ByteArray) -> npt.NDArray[np.uint32]:
    """Kafka's 32-bit hash of every key; keys of one length are hashed together."""
    sizes = np.diff(starts)
    hashes = np.empty(len(sizes), np.uint32)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        whole = size & ~3
        bytes_ = data[starts[rows][:, None] + np.arange(size)]
        parts = np.ascontiguousarray(bytes_[:, :whole]).view("<u4").reshape(len(rows), whole // 4)
        hashed = np.full(len(rows), (0x9747B28C ^ size) & 0xFFFFFFFF, np.uint32)
        for column in parts.T:
            part = column * _MIX
            part ^= part >> 24
            hashed = hashed * _MIX ^ part * _MIX
        if rest := size - whole:
            tail = bytes_[:, whole:].astype(np.uint32) << (8 * np.arange(rest, dtype=np.uint32))
            hashed = (hashed ^ np.bitwise_or.reduce(tail, axis=1)) * _MIX
        hashed ^= hashed >> 13
        hashed *= _MIX
        hashes[rows] = hashed ^ hashed >> 15
    return hashes
