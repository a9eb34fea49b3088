"""Records from one format to the other, as two plain loops over bytes.

A record of Kafka: length, attributes, time delta, offset delta, key length, key, value length,
value, header count, headers. A length of -1 means null.
A record of Fluvio: length, attributes, time delta, offset delta, a byte that says whether there is
a key, key length, key, value length, value, 0. A value is never null, and there are no headers.
All numbers are zigzag varints. Most bytes are the same in both, and are copied as they are.

Here: the loops. They give the pieces that the caller joins: to grow one result piece by piece takes
twice as long. They go through a bounded number of records per call, so that others run in between.
Both check every length against what is left: a stored batch may be broken, too.
`make setup` compiles this file to machine code where there is a C compiler (setup.py).
Next door: whole batches (incoming.py, outgoing.py).
Never here: imports of this package, batch headers, compression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

BROKEN: Final = -1  # no place: the record cannot be right
_NO_KEY: Final = 0
_HAS_KEY: Final = 1
_NULL: Final = 1  # the length -1
_BYTES: Final = [bytes((number,)) for number in range(256)]
_EMPTY_VALUE: Final = b"\x00\x00"  # and no headers


def to_kafka(data: bytes, at: i64, index: i64, count: i64, out: list[bytes]) -> i64:
    """Append the pieces of records of Fluvio to `out` as Kafka's, numbered from `index` on.

    Gives the place after the last of `count` records, or BROKEN.
    """
    try:
        last = index + count
        while index < last:
            at = _record_to_kafka(data, at, index, out)
            if at == BROKEN:
                return BROKEN
            index += 1
    except IndexError:  # the data is cut off
        return BROKEN
    return at


def _record_to_kafka(data: bytes, at: i64, index: i64, out: list[bytes]) -> i64:
    raw: i64 = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw)
    end = at + (raw >> 1)
    if raw & 1 or end > len(data):
        return BROKEN
    begin = at
    at = _after_number(data, at + 1)
    time_end = at
    if time_end - begin > 11:
        return BROKEN
    at = _after_number(data, at)  # the offset delta: clients count without it
    tag_at = at
    has_key: i64 = data[at]
    at += 1
    key_at = at
    if has_key == _HAS_KEY:
        raw = data[at]
        at += 1
        if raw > 0x7F:
            raw, at = _longer(data, at, raw)
        if raw & 1:
            return BROKEN
        at += raw >> 1
    elif has_key != _NO_KEY:
        return BROKEN
    raw = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw)
    if raw & 1:
        return BROKEN
    at += raw >> 1
    value_end = at
    if value_end >= end or _after_number(data, at) != end:
        return BROKEN
    size = time_end - begin + _width(index) + value_end - key_at + 1
    if has_key == _NO_KEY:
        size += 1
    _put(out, size << 1)
    _put_head(data, begin, time_end, tag_at, index, out)
    if has_key == _NO_KEY:
        out.append(_BYTES[_NULL])
    _put_tail(data, key_at, value_end, end, out)
    return end


def offset_delta(data: bytes, at: i64) -> i64:
    """The offset delta of the record of Kafka at `at`; BROKEN if it cannot be read."""
    try:
        at = _after_number(data, _after_number(data, at) + 1)
        raw: i64 = data[at]
        at += 1
        if raw > 0x7F:
            raw, at = _longer(data, at, raw)
    except IndexError:
        return BROKEN
    if raw & 1:
        return BROKEN
    return raw >> 1


def after_record(data: bytes, at: i64) -> i64:
    """The place after the record of Kafka at `at`, or BROKEN."""
    try:
        raw: i64 = data[at]
        at += 1
        if raw > 0x7F:
            raw, at = _longer(data, at, raw)
    except IndexError:
        return BROKEN
    end = at + (raw >> 1)
    if raw & 1 or end > len(data):
        return BROKEN
    return end


def to_fluvio(
    data: bytes, at: i64, index: i64, count: i64, delta: i64, keep_times: bool, out: list[bytes]
) -> tuple[i64, i64]:
    """Append the pieces of records of Kafka to `out` as Fluvio's, numbered from `index` on.

    The records must have the offset deltas `delta`, `delta` + 1 and so on: the loop ends early at
    one that has another. Gives the place after the last record, or BROKEN, and how many there were.
    Without `keep_times` every record has the time of the batch.
    """
    done: i64 = 0
    try:
        while done < count:
            after = _record_to_fluvio(data, at, index + done, delta + done, keep_times, out)
            if after == BROKEN:
                return BROKEN, done
            if after == at:
                break
            at = after
            done += 1
    except IndexError:
        return BROKEN, done
    return at, done


def _record_to_fluvio(
    data: bytes, start: i64, index: i64, delta: i64, keep_times: bool, out: list[bytes]
) -> i64:
    """The place after the record at `start`; `start` itself if its offset delta is another one."""
    at = start
    raw: i64 = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw)
    end = at + (raw >> 1)
    if raw & 1 or end > len(data):
        return BROKEN
    begin = at
    at = _after_number(data, at + 1)
    time_end = at
    raw = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw)
    if raw != delta << 1:
        return start
    delta_end = at
    key_at = at
    raw = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw)
    has_key = raw != _NULL
    if has_key:
        if raw & 1:
            return BROKEN
        at += raw >> 1
    else:
        key_at = at
    value_at = at
    raw = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw)
    has_value = raw != _NULL
    if has_value:
        if raw & 1:
            return BROKEN
        at += raw >> 1
    value_end = at
    if value_end >= end:
        return BROKEN  # the header count is missing
    if not has_value:
        value_end = value_at
    time_size = time_end - begin
    if not keep_times:
        time_size = 2
    size = time_size + _width(index) + 1 + value_end - key_at + 1
    if not has_value:
        size += 1
    _put(out, size << 1)
    if keep_times:
        _put_head(data, begin, time_end, delta_end, index, out)
    else:
        out.append(data[begin : begin + 1])
        out.append(_BYTES[0])
        _put(out, index << 1)
    out.append(_BYTES[_HAS_KEY] if has_key else _BYTES[_NO_KEY])
    if has_value:
        _put_tail(data, key_at, value_end, end, out)
    else:
        out.append(data[key_at:value_end])
        out.append(_EMPTY_VALUE)
    return end


def _put_head(
    data: bytes, begin: i64, time_end: i64, delta_end: i64, index: i64, out: list[bytes]
) -> None:
    """Append attributes, time delta and `index`: in one piece if the data has the same number."""
    raw: i64 = data[time_end]
    if (raw == index << 1 and raw <= 0x7F) or _is_number(data, time_end, delta_end, index << 1):
        out.append(data[begin:delta_end])
    else:
        out.append(data[begin:time_end])
        _put(out, index << 1)


def _put_tail(data: bytes, key_at: i64, value_end: i64, end: i64, out: list[bytes]) -> None:
    """Append key and value and no headers: in one piece if the data has none."""
    if end - value_end == 1 and data[value_end] == 0:
        out.append(data[key_at:end])
    else:
        out.append(data[key_at:value_end])
        out.append(_BYTES[0])


def _after_number(data: bytes, at: i64) -> i64:
    while data[at] > 0x7F:
        at += 1
    return at + 1


def _longer(data: bytes, at: i64, raw: i64) -> tuple[i64, i64]:
    """A number of several bytes whose first one was `raw`, and the place after it."""
    raw &= 0x7F
    shift: i64 = 7
    while shift <= 28:
        byte: i64 = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return raw, at
        shift += 7
    raise IndexError  # no length or delta has so many bytes


def _is_number(data: bytes, at: i64, end: i64, raw: i64) -> bool:
    """Whether these bytes are `raw`, written as shortly as it can be."""
    while raw > 0x7F:
        if at >= end or data[at] != raw & 0x7F | 0x80:
            return False
        at += 1
        raw >>= 7
    return at + 1 == end and data[at] == raw


def _width(number: i64) -> i64:
    """How many bytes `number` takes, written."""
    raw = number << 1
    width: i64 = 1
    while raw > 0x7F:
        raw >>= 7
        width += 1
    return width


def _put(out: list[bytes], raw: i64) -> None:
    """Append a number, zigzag already."""
    while raw > 0x7F:
        out.append(_BYTES[raw & 0x7F | 0x80])
        raw >>= 7
    out.append(_BYTES[raw])
