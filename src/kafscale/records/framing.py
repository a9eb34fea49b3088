"""The order inside a batch's records: the rule, one record at a time, without making objects.

A record is: length, attributes (1 byte, ignored), timestamp delta, offset delta, key length, key,
value length, value, header count, and per header: name length, name, value length, value. All
numbers are zigzag varints. A length of -1 means null.
Next door: the same rule at speed (strides.py), opening records for use (record.py).
Never here: whole batches and their headers (validation.py).
"""

from typing import Final, NamedTuple

from kafscale.model.errors import InvalidRecord

MIN_RECORD_SIZE: Final = 7  # every number at one byte, nothing else


class FrameOutline(NamedTuple):
    """Where a sound record keeps the bytes that decide its form."""

    end: int
    lengths: list[int]  # every byte of every length and count: equal bytes, equal form
    time_at: int
    delta_at: int
    delta_end: int


def check_end(data: bytes, at: int, count: int) -> None:
    """Refuse what follows the last record."""
    if at != len(data):
        raise InvalidRecord(f"{len(data) - at} bytes follow the last of {count} records")


def check_record(data: bytes, at: int, index: int, require_key: bool) -> FrameOutline:
    """Check the record at `at`, which must be number `index`."""
    try:
        return _check_record(data, at, index, require_key)
    except IndexError:
        raise InvalidRecord(f"record {index} is cut off") from None


def _check_record(data: bytes, at: int, index: int, require_key: bool) -> FrameOutline:
    """The rule. Numbers of one byte are read in place: calls would cost more than the rest.

    Each number may be read past the record's end, as far as `data` goes; `at` only ever grows, so
    that comparing it with `end` once more at the end finds every overrun.
    """
    lengths = [at]
    raw = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw, lengths)
    end = at + (raw >> 1)
    if raw & 1 or end > len(data):
        raise InvalidRecord(f"record {index} claims more than the {len(data) - at} bytes left")

    time_at = at = at + 1
    while data[at] > 0x7F:
        at += 1
    delta_at = at = at + 1
    if at - time_at > 10:
        raise InvalidRecord(f"record {index} has a timestamp that does not end")

    raw = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = _longer(data, at, raw, [])
    if raw != index << 1:
        raise InvalidRecord(f"record {index} has offset delta {(raw >> 1) ^ -(raw & 1)}")
    delta_end = at

    for nullable in (not require_key, True):  # key, value
        lengths.append(at)
        raw = data[at]
        at += 1
        if raw > 0x7F:
            raw, at = _longer(data, at, raw, lengths)
        if not raw & 1:
            at += raw >> 1
        elif raw > 1 or not nullable:
            raise InvalidRecord(f"record {index} lacks a key, or has a negative length")

    at = check_headers(data, at, end, lengths)
    if at != end:
        raise InvalidRecord(f"record {index} ends at byte {at}, by its length at {end}")
    return FrameOutline(end, lengths, time_at, delta_at, delta_end)


def keyless(data: bytes, at: int, count: int) -> tuple[int, ...]:
    """The numbers of the records without a key among `count` sound ones."""
    found = []
    for index in range(count):
        outline = check_record(data, at, index, require_key=False)
        at = outline.delta_end
        raw = data[at]
        if raw > 0x7F:
            raw, _ = _longer(data, at + 1, raw, [])
        if raw & 1:
            found.append(index)
        at = outline.end
    return tuple(found)


def check_headers(data: bytes, at: int, end: int, lengths: list[int]) -> int:
    """Step over the headers, each a name and a nullable value; the place after them."""
    lengths.append(at)
    raw_count = data[at]
    at += 1
    if not raw_count:
        return at
    if raw_count > 0x7F:
        raw_count, at = _longer(data, at, raw_count, lengths)
    if raw_count & 1 or raw_count > end - at:
        raise InvalidRecord(f"header count {(raw_count >> 1) ^ -(raw_count & 1)}")
    for field in range(raw_count):
        lengths.append(at)
        raw = data[at]
        at += 1
        if raw > 0x7F:
            raw, at = _longer(data, at, raw, lengths)
        if not raw & 1:
            at += raw >> 1
        elif raw > 1 or not field & 1:
            raise InvalidRecord("a header lacks a name, or has a negative length")
    return at


def _longer(data: bytes, at: int, raw: int, places: list[int]) -> tuple[int, int]:
    """The rest of a number of two to five bytes, still zigzag; the places of those bytes."""
    raw &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[at]
        places.append(at)
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, at
    raise InvalidRecord(f"the number before byte {at} does not end")
