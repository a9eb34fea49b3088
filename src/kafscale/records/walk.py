"""The rule of framing.py as one plain loop over bytes, made to be compiled.

`make setup` compiles this file to machine code where there is a C compiler (setup.py). The loop
only ever accepts: what it does not accept is left to the rule itself, which finds the error. Where
this file is not compiled, strides.py is faster, and walks alone.
Never here: imports of this package, errors, an object per record (a conditional expression would
make some).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

_BAD: Final = -1  # no place; as a number, odd and not the null of a length


def are_sound(data: bytes, at: i64, count: i64, require_key: bool) -> bool:
    """Whether exactly `count` sound records, numbered from 0, fill `data` from `at` on."""
    try:
        index: i64 = 0
        while index < count:
            at = _after_record(data, at, index, require_key)
            if at == _BAD:
                return False
            index += 1
    except IndexError:  # the data is cut off
        return False
    return at == len(data)


def _after_record(data: bytes, at: i64, index: i64, require_key: bool) -> i64:
    """The place after record number `index`, which begins at `at`.

    Numbers of one byte are read in place: most are, and a call would cost more than the rest.
    """
    raw: i64 = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw)
    end = at + (raw >> 1)
    if raw & 1 or end > len(data):
        return _BAD
    at += 1  # attributes
    time_at = at
    while data[at] > 0x7F:
        at += 1
    at += 1
    if at - time_at > 10:
        return _BAD
    raw = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw)
    if raw != index << 1:
        return _BAD
    at = _after_bytes(data, at, not require_key)
    if at == _BAD:
        return _BAD
    at = _after_bytes(data, at, True)
    if at == _BAD:
        return _BAD
    if data[at]:
        at = _after_headers(data, at, end)
    else:
        at += 1
    if at != end:
        return _BAD
    return at


def _after_headers(data: bytes, at: i64, end: i64) -> i64:
    """The place after the headers: their count, then name and value of each."""
    fields: i64 = data[at]  # zigzag, so twice the count
    at += 1
    if fields > 0x7F:
        fields, at = _longer(data, at, fields)
    if fields & 1 or fields > end - at:
        return _BAD
    field: i64 = 0
    while field < fields and at != _BAD:
        at = _after_bytes(data, at, field & 1 == 1)
        field += 1
    return at


def _after_bytes(data: bytes, at: i64, nullable: bool) -> i64:
    """The place after a length and as many bytes."""
    raw: i64 = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw)
    if not raw & 1:
        return at + (raw >> 1)
    if raw != 1 or not nullable:
        return _BAD
    return at


def _longer(data: bytes, at: i64, raw: i64) -> tuple[i64, i64]:
    """The rest of a number of two to five bytes, still zigzag, and the place after it."""
    raw &= 0x7F
    shift: i64 = 7
    while shift <= 28:
        byte: i64 = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, at
        shift += 7
    return _BAD, at
