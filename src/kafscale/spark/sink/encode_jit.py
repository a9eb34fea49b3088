"""The loops of the encoder, compiled: records laid into a buffer, keys hashed.

Here: loops over plain arrays, nothing else. Importing this needs numba.
Next door: what the arrays mean, and the same thing without a compiler (encode.py).
"""

from typing import Any

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

_jit = numba.njit(cache=True, nogil=True, boundscheck=False)


@_jit
def _put(out: Any, at: int, number: int) -> int:
    """Write a zigzag varint; gives the place after it."""
    raw = np.uint64((number << 1) ^ (number >> 63))
    while raw > np.uint64(0x7F):
        out[at] = np.uint8(raw & np.uint64(0x7F)) | np.uint8(0x80)
        raw >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(raw)
    return at + 1


@_jit
def _width(number: int) -> int:
    """Bytes that `_put` takes."""
    raw = np.uint64((number << 1) ^ (number >> 63))
    width = 1
    while raw > np.uint64(0x7F):
        raw >>= np.uint64(7)
        width += 1
    return width


@intrinsic
def _move(_: Any, out: Any, at: Any, data: Any, start: Any, size: Any) -> Any:
    """The machine's own memcpy: a loop over single bytes takes three times as long."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        there, at, here, start, size = args
        ends = []
        for kind, array, place in ((out, there, at), (data, here, start)):
            held = context.make_array(kind)(context, builder, array)
            ends.append(builder.gep(held.data, [place]))
        move: Any = cgutils.raw_memcpy  # which has no types
        move(builder, ends[0], ends[1], size, 1)
        return context.get_dummy_value()

    return types.none(out, types.int64, data, types.int64, types.int64), emit


@_jit
def _copy(out: Any, at: int, data: Any, start: int, size: int) -> int:
    if size > 0:
        _move(out, at, data, start, size)  # type: ignore[call-arg]
    return at + size


@_jit
def lay(
    out: Any,
    at: int,
    rows: Any,
    deltas: Any,
    times: Any,
    key_at: Any,
    key_is: Any,
    keys: Any,
    value_at: Any,
    value_is: Any,
    values: Any,
    list_at: Any,
    list_is: Any,
    name_at: Any,
    names: Any,
    held_at: Any,
    held_is: Any,
    held: Any,
) -> int:
    """Write the records of `rows` one after the other; gives the place after the last."""
    base_ms = times[rows[0]]
    for index in range(len(rows)):
        row = rows[index]
        time = times[row] - base_ms
        delta = deltas[index]
        key_size = key_at[row + 1] - key_at[row] if key_is[row] else -1
        value_size = value_at[row + 1] - value_at[row] if value_is[row] else -1
        first, last = 0, 0
        if len(list_at) and list_is[row]:
            first, last = list_at[row], list_at[row + 1]
        size = 1 + _width(time) + _width(delta) + _width(key_size) + _width(value_size)
        size += max(key_size, 0) + max(value_size, 0) + _width(last - first)
        for header in range(first, last):
            name_size = name_at[header + 1] - name_at[header]
            held_size = held_at[header + 1] - held_at[header] if held_is[header] else -1
            size += _width(name_size) + name_size + _width(held_size) + max(held_size, 0)
        at = _put(out, at, size)
        out[at] = 0
        at = _put(out, at + 1, time)
        at = _put(out, at, delta)
        at = _put(out, at, key_size)
        at = _copy(out, at, keys, key_at[row], max(key_size, 0))
        at = _put(out, at, value_size)
        at = _copy(out, at, values, value_at[row], max(value_size, 0))
        at = _put(out, at, last - first)
        for header in range(first, last):
            name_size = name_at[header + 1] - name_at[header]
            at = _put(out, at, name_size)
            at = _copy(out, at, names, name_at[header], name_size)
            held_size = held_at[header + 1] - held_at[header] if held_is[header] else -1
            at = _put(out, at, held_size)
            at = _copy(out, at, held, held_at[header], max(held_size, 0))
    return at


@_jit
def murmur2(starts: Any, data: Any) -> Any:
    """Kafka's 32-bit hash of every key, as unsigned numbers."""
    count = len(starts) - 1
    hashes = np.empty(count, np.uint32)
    mix = np.uint32(0x5BD1E995)
    for row in range(count):
        at = starts[row]
        size = starts[row + 1] - at
        hashed = np.uint32(0x9747B28C) ^ np.uint32(size)
        for place in range(at, at + (size & ~3), 4):
            part = np.uint32(
                np.uint32(data[place])
                | np.uint32(data[place + 1]) << np.uint32(8)
                | np.uint32(data[place + 2]) << np.uint32(16)
                | np.uint32(data[place + 3]) << np.uint32(24)
            )
            part = np.uint32(part * mix)
            part ^= part >> np.uint32(24)
            hashed = np.uint32(np.uint32(hashed * mix) ^ np.uint32(part * mix))
        rest = size & 3
        tail = at + (size & ~3)
        if rest == 3:
            hashed ^= np.uint32(data[tail + 2]) << np.uint32(16)
        if rest >= 2:
            hashed ^= np.uint32(data[tail + 1]) << np.uint32(8)
        if rest >= 1:
            hashed = np.uint32(np.uint32(hashed ^ np.uint32(data[tail])) * mix)
        hashed ^= hashed >> np.uint32(13)
        hashed = np.uint32(hashed * mix)
        hashed ^= hashed >> np.uint32(15)
        hashes[row] = hashed
    return hashes
