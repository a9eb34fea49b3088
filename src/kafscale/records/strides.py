"""The rule of framing.py at the speed of C, for the one loop that every produced byte passes.

Records of equal size stand at equal distances, so `data[at:end:stride]` picks the same byte out of
all of them, and one comparison checks it for the whole run: when every byte that decides a record's
form equals the first record's, and that one is sound, all are. Records of mixed sizes go through
a short loop over tables. Both only ever accept; whatever they do not recognise is left to the
rule itself, which finds the error or the unusual form. So no record is refused by a second opinion,
and hostile input costs about what the rule costs. Where the same loop over bytes is compiled
(walk.py), it goes first.
"""

import struct
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, Final

from kafscale.records import walk
from kafscale.records.framing import check_end, check_headers, check_record

WALK_IS_COMPILED: Final = not isinstance(walk.are_sound, FunctionType)

_Unpack = Callable[[bytes, int], tuple[Any, ...]]

_RUN: Final = 128  # records of a run to try at first: a false start must not cost much
_MIXED: Final = 16  # records of mixed sizes to take before looking for a run again: at first,
_MAX_MIXED: Final = 128  # and when mixed sizes go on
_WORTHWHILE: Final = (
    4  # a try that brings fewer records costs more than it saves: take some plainly
)
_MAX_PLAIN: Final = 64  # before the next, the more the longer that goes on
_FAR: Final = 1 << 40  # beyond any buffer: stands for numbers that the tables do not know

# The bytes of offset delta i, one table per byte: those of one byte, of two, and of three.
_TOP: Final = 1 << 17  # three bytes would reach 2^20; batches of more records are read one by one
_REACH: Final = (0, 64, 8192, _TOP)  # by width: the first number that needs a longer one
_SEVEN: Final = bytes(range(0, 128, 2))  # the lowest seven bits of 2i
_LOW: Final = bytes(byte | 0x80 for byte in _SEVEN) * (_TOP // 64)
_MID: Final = b"".join(bytes([high]) * 64 for high in range(128)) * (_TOP // 8192)
_DELTAS: Final = (
    (),
    (_SEVEN,),
    (_LOW, _MID[:8192]),
    (_LOW, bytes(b | 0x80 for b in _MID[:8192]) * (_TOP // 8192),
     b"".join(bytes([high]) * 8192 for high in range(_TOP // 8192))),
)  # fmt: skip
_KEEP_TOP_BIT: Final = bytes(byte & 0x80 for byte in range(256))

# One-byte lengths to the bytes they stand for. Null counts none; where keys are required it is FAR.
_SHORT: Final = [n >> 1 if not n & 1 or n == 1 else _FAR for n in range(128)] + [_FAR] * 128
_SHORT_KEY: Final = [n if at != 1 else _FAR for at, n in enumerate(_SHORT)]
# Two-byte lengths, both bytes read as one number less 0x8000: those bytes and what they stand for.
_LONG: Final = [
    2 + (low >> 1 | high << 6) if high < 128 and not low & 1 else _FAR
    for low in range(128)
    for high in range(256)
]


def _form(time_width: int, delta_width: int) -> tuple[_Unpack, _Unpack, int, int, int]:
    """How to read what stands before a key, given two widths.

    Gives readers of length (of one byte, of two), timestamp delta, offset delta and key length;
    the bytes between a record's length and its key; the continuation bits of the timestamp delta,
    and how they must stand. The attributes are skipped, or read along to fill a machine number.
    """
    time = ("", "H", "xH", "I", "xI")[time_width]
    delta = ("", "B", "H", "3s")[delta_width]
    mask = 0x80808080 & (1 << 8 * time_width) - 1
    return (
        struct.Struct(f">B{time}{delta}B").unpack_from,
        struct.Struct(f">H{time}{delta}B").unpack_from,
        2 + time_width + delta_width,
        mask,
        mask & ~0x80,
    )


_MAX_TIME_WIDTH: Final = 4
_FORMS: Final = [[_form(time, delta) for delta in (1, 2, 3)] for time in range(1, 5)]
_WANTED: Final = (
    list(_SEVEN),
    [low << 8 | high for low, high in zip(_LOW[:8192], _MID[:8192], strict=True)],
)


def check_records(data: bytes, at: int, count: int, require_key: bool) -> None:
    """Check that exactly `count` sound records, numbered from 0, fill `data` from `at` on."""
    if not (WALK_IS_COMPILED and walk.are_sound(data, at, count, require_key)):
        check_by_strides(data, at, count, require_key)


def check_by_strides(data: bytes, at: int, count: int, require_key: bool) -> None:
    """The same without compiled code."""
    index = 0
    run, mixed, plain = _RUN, _MIXED, 1
    while index < count:
        if _run_begins(data, at):
            at, checked = _check_run(data, at, index, min(run, count - index), require_key)
            run = run * 4 if checked == run else _RUN
            mixed = _MIXED
        else:
            at, checked = _check_mixed(data, at, index, min(mixed, count - index), require_key)
            mixed = min(mixed * 2, _MAX_MIXED)
        index += checked
        if checked >= _WORTHWHILE:
            plain = 1
            continue
        for number in range(index, min(index + plain, count)):
            at = check_record(data, at, number, require_key).end
            index += 1
        plain = min(plain * 2, _MAX_PLAIN)
    check_end(data, at, count)


def _run_begins(data: bytes, at: int) -> bool:
    """Whether this record and the next three seem to have the same size."""
    first = data[at : at + 2]
    if len(first) < 2:
        return False
    low, high = first
    stride = _SHORT[low] + 1 if low < 0x80 else _LONG[(low & 0x7F) << 8 | high]
    return data[at + stride : at + 4 * stride : stride] == first[:1] * 3


def _check_run(data: bytes, at: int, index: int, most: int, require_key: bool) -> tuple[int, int]:
    """Check the record at `at` by the rule, and with it those that follow in the same form."""
    end, lengths, time_at, delta_at, delta_end = check_record(data, at, index, require_key)
    width = delta_end - delta_at
    if width > 3 or not _REACH[width - 1] <= index < _REACH[width]:
        return end, 1
    stride = end - at
    count = min(most, _REACH[width] - index, (len(data) - at) // stride)
    stop = at + count * stride
    for place in lengths:
        column = data[place:stop:stride]
        like = data[place : place + 1]
        if column != like * count:
            count -= len(column.lstrip(like))
            stop = at + count * stride
    for place in range(time_at, delta_at):
        column = data[place:stop:stride].translate(_KEEP_TOP_BIT)
        like = column[:1]
        if column != like * count:
            count -= len(column.lstrip(like))
            stop = at + count * stride
    for place, table in zip(range(delta_at, delta_end), _DELTAS[width], strict=True):
        column = data[place:stop:stride]
        wanted = table[index : index + count]
        if column != wanted:
            count = next(n for n in range(count) if column[n] != wanted[n])
            stop = at + count * stride
    return stop, count


def _check_mixed(data: bytes, at: int, index: int, most: int, require_key: bool) -> tuple[int, int]:
    """Check records of any size in their common form: numbers of few bytes.

    Goes as far as that form goes; gives the place after it and the number of records.
    """
    time_width = _time_width(data, at)
    if time_width > _MAX_TIME_WIDTH or index >= _TOP:
        return at, 0
    delta_width = 1 if index < 64 else 2 if index < 8192 else 3
    short_head, long_head, key_at, time_mask, time_form = _FORMS[time_width - 1][delta_width - 1]
    key_size = _SHORT_KEY if require_key else _SHORT
    short, long = _SHORT, _LONG
    checked = 0
    try:
        for wanted in _wanted_deltas(delta_width, index, index + most):
            if data[at] < 0x80:
                length, time, delta, key = short_head(data, at)
                value_at = at + key_at + 1 + key_size[key]
                after = at + 1 + short[length]
            else:
                length, time, delta, key = long_head(data, at)
                value_at = at + key_at + 2 + key_size[key]
                after = at + long[length - 0x8000]
            value = data[value_at]
            if value < 0x80:
                headers_at = value_at + 1 + short[value]
            else:
                headers_at = value_at + long[(value & 0x7F) << 8 | data[value_at + 1]]
            if delta != wanted or time & time_mask != time_form:
                break
            if (headers_at + 1 != after or data[headers_at]) and (
                after > len(data) or check_headers(data, headers_at, after, []) != after
            ):
                break
            at = after
            checked += 1
    except (IndexError, struct.error):  # a number the tables do not know, or cut-off data
        pass
    return at, checked


def _time_width(data: bytes, at: int) -> int:
    """Bytes of the timestamp delta of the record at `at`, whose length has one or two."""
    first = at + 2 if data[at : at + 1] < b"\x80" else at + 3
    for width in range(1, _MAX_TIME_WIDTH + 1):
        if data[first + width - 1 : first + width] < b"\x80":
            return width
    return _MAX_TIME_WIDTH + 1


def _wanted_deltas(width: int, index: int, stop: int) -> Iterable[int | bytes]:
    """Offset deltas of one width from `index` on, in the form in which `_form` reads them."""
    if width < 3:
        return _WANTED[width - 1][index:stop]
    return map(bytes, zip(*(table[index:stop] for table in _DELTAS[3]), strict=True))
