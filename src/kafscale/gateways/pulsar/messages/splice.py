"""Messages of a batch from one format to the other, as two plain loops over bytes.

A message of Pulsar: 4 bytes of length, metadata in protobuf, payload. A record of Kafka: length,
attributes, time delta, offset delta, key, value, headers, with zigzag varints.
Here: the loops, for what is usual. They leave the rest to the slower functions next door: keys in
base64, two keys of one message, text beyond ASCII, fields that are kept in headers, broken bytes.
`make setup` compiles this file to machine code where there is a C compiler (setup.py).
Next door: whole entries (entries_in.py, entries_out.py), which define the bits used here, and
messages that come one by one (sends.py).
Never here: imports of this package, batch headers, compression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

UNUSUAL: Final = -1  # no place: the slower function says what is to be done
_EVENT_TIME: Final = 1  # bits of a record's attributes: RecordFlag
ORDERING_KEY: Final = 2
PARTITION_KEY: Final = 4
_NULL: Final = 1  # the length -1
NO_HEADS: Final = bytearray()
_SIZES: Final = [bytes((0, 0, 0, size)) for size in range(256)]


def to_records(
    data: bytes, at: i64, index: i64, count: i64, publish_ms: i64, out: bytearray
) -> tuple[i64, i64, i64]:
    """Append messages to `out` as records, numbered from `index` on.

    Gives the place after the last one, or UNUSUAL; the latest time of any of them; and the last
    one's sequence id, -1 if it has none.
    """
    latest_ms: i64 = 0
    sequence_id: i64 = -1
    try:
        last = index + count
        while index < last:
            at, time_ms, sequence_id = _to_record(data, at, index, publish_ms, out)
            if at == UNUSUAL:
                return UNUSUAL, 0, 0
            if index == last - count or time_ms > latest_ms:
                latest_ms = time_ms
            index += 1
    except IndexError:  # the data is cut off
        return UNUSUAL, 0, 0
    return at, latest_ms, sequence_id


def _to_record(
    data: bytes, at: i64, index: i64, publish_ms: i64, out: bytearray
) -> tuple[i64, i64, i64]:
    size: i64 = 0
    for _ in range(4):
        byte: i64 = data[at]
        size = size << 8 | byte
        at += 1
    end = at + size
    if end > len(data):
        return UNUSUAL, 0, 0
    properties: i64 = 0
    heads = NO_HEADS
    key_at: i64 = 0
    key_size: i64 = -1
    kind: i64 = 0
    value_size: i64 = -1
    event_ms: i64 = 0
    sequence_id: i64 = -1
    is_null = False
    while at < end:
        tag: i64 = data[at]
        at += 1
        number: i64 = data[at]
        at += 1
        if number > 0x7F:
            number, at = longer(data, at, number)
        if tag == 0x18:
            value_size = number
        elif tag == 0x40:
            sequence_id = number
        elif tag == 0x12 or tag == 0x3A:
            if key_size >= 0 or at + number > end:
                return UNUSUAL, 0, 0
            kind = PARTITION_KEY if tag == 0x12 else ORDERING_KEY
            key_at = at
            key_size = number
            at += number
        elif tag == 0x0A:
            if not properties:
                heads = bytearray()
            if at + number > end or not put_header(data, at, at + number, heads):
                return UNUSUAL, 0, 0
            properties += 1
            at += number
        elif tag == 0x28:
            event_ms = number
        elif tag == 0x48:
            is_null = number != 0
        else:
            return UNUSUAL, 0, 0
    after = end + value_size
    if at != end or value_size < 0 or value_size > 0x3FFFFFFF or after > len(data):
        return UNUSUAL, 0, 0
    if event_ms < 0 or event_ms > 1 << 61:
        return UNUSUAL, 0, 0
    key = data[key_at : key_at + key_size] if key_size > 0 else b""
    if kind == PARTITION_KEY and not key.isascii():
        return UNUSUAL, 0, 0
    time_ms = publish_ms
    if event_ms:
        time_ms = event_ms
        kind |= _EVENT_TIME
    if is_null:
        value_size = -1
    delta_ms = time_ms - publish_ms
    times_and_key = (kind, delta_ms, index, key_size, key)
    put_record(out, times_and_key, value_size, properties, heads, data, end)
    return after, time_ms, sequence_id


def put_header(data: bytes, at: i64, end: i64, heads: bytearray) -> bool:
    """Append a property as a header; False if it is not a plain one."""
    for tag in (0x0A, 0x12):
        if at >= end or data[at] != tag:
            return False
        at += 1
        size: i64 = data[at]
        at += 1
        if size > 0x7F:
            size, at = longer(data, at, size)
        if size < 0 or at + size > end:
            return False
        text = data[at : at + size]
        if not text.isascii():
            return False
        put(heads, size << 1)
        heads += text
        at += size
    return at == end


def put_record(
    out: bytearray,
    front: tuple[i64, i64, i64, i64, bytes],
    value_size: i64,
    properties: i64,
    heads: bytearray,
    data: bytes,
    value_at: i64,
) -> None:
    """`front`: attributes, time delta, offset delta, key size (-1: no key), key."""
    attributes, delta_ms, index, key_size, key = front
    time_raw = (delta_ms << 1) ^ (delta_ms >> 63)
    size = 1 + width(time_raw) + width(index << 1) + width(properties << 1) + len(heads)
    size += width(key_size << 1) + key_size if key_size >= 0 else 1
    size += width(value_size << 1) + value_size if value_size >= 0 else 1
    if size < 1 << 20 and 0 <= time_raw < 1 << 7 and index < 1 << 13 and key_size < 1 << 6:
        _put_front(out, size << 1, attributes, time_raw, index << 1, key_size)
    else:
        put(out, size << 1)
        out.append(attributes)
        put(out, time_raw)
        put(out, index << 1)
        put(out, key_size << 1 if key_size >= 0 else _NULL)
    if key_size > 0:
        out += key
    if value_size >= 0:
        put(out, value_size << 1)
        out += data[value_at : value_at + value_size]
    else:
        out.append(_NULL)
    put(out, properties << 1)
    if properties:
        out += heads


def _put_front(
    out: bytearray, size: i64, attributes: i64, time_raw: i64, index: i64, key_size: i64
) -> None:
    """Append up to eight bytes as one number: those of usual records are small."""
    word: i64 = 0
    at: i64 = 0
    while size > 0x7F:
        word |= (size & 0x7F | 0x80) << at
        size >>= 7
        at += 8
    word |= size << at | attributes << (at + 8) | time_raw << (at + 16)
    at += 24
    if index > 0x7F:
        word |= (index & 0x7F | 0x80) << at
        index >>= 7
        at += 8
    word |= index << at | (key_size << 1 if key_size >= 0 else _NULL) << (at + 8)
    out += int(word).to_bytes((at >> 3) + 2, "little")


def to_messages(
    data: bytes,
    at: i64,
    delta: i64,
    count: i64,
    base_ms: i64,
    sequence: i64,
    is_pulsars: bool,
    out: bytearray,
) -> i64:
    """Append records to `out` as messages of a batch. Gives the place after them, or UNUSUAL.

    They must have the offset deltas `delta`, `delta` + 1 and so on. `sequence`: the first one's
    sequence id; -1: all have 0. `is_pulsars`: attributes say what key and time were.
    """
    try:
        for number in range(count):
            sequence_id = sequence + number if sequence >= 0 else 0
            at = _to_message(data, at, delta + number, base_ms, sequence_id, is_pulsars, out)
            if at == UNUSUAL:
                return UNUSUAL
    except IndexError:
        return UNUSUAL
    return at


def time_delta(data: bytes, at: i64) -> i64:
    """The time delta of the record at `at`; UNUSUAL for one before the batch's time."""
    try:
        while data[at] > 0x7F:
            at += 1
        raw: i64 = data[at + 2]
        if raw > 0x7F:
            raw, at = longer(data, at + 3, raw)
    except IndexError:
        return UNUSUAL
    return UNUSUAL if raw & 1 else raw >> 1


def _to_message(
    data: bytes,
    at: i64,
    delta: i64,
    base_ms: i64,
    sequence_id: i64,
    is_pulsars: bool,
    out: bytearray,
) -> i64:
    end, attributes, delta_ms, key_at, key_size, value_at, value_size, at = _open(data, at, delta)
    time_ms = base_ms + delta_ms
    kinds = _kinds(attributes, time_ms, key_size, is_pulsars)
    if end == UNUSUAL or kinds == UNUSUAL:
        return UNUSUAL
    heads = NO_HEADS
    if data[at] or at + 1 != end:
        heads = bytearray()
        if not _put_properties(data, at, end, is_pulsars, heads, 0x0A):
            return UNUSUAL
    key = data[key_at : key_at + key_size] if key_size > 0 else b""
    if kinds & PARTITION_KEY and not key.isascii():
        return UNUSUAL
    _put_single(out, heads, kinds, (key_size, value_size, time_ms, sequence_id), key)
    if value_size > 0:
        out += data[value_at : value_at + value_size]
    return end


def _put_single(
    out: bytearray, heads: bytearray, kinds: i64, numbers: tuple[i64, i64, i64, i64], key: bytes
) -> None:
    """Append the metadata of one message of a batch. `numbers`: sizes of key and value (-1: null),
    time, sequence id.
    """
    key_size, value_size, time_ms, sequence_id = numbers
    payload_size: i64 = value_size if value_size > 0 else 0
    size: i64 = len(heads) + 2 + width(payload_size) + width(sequence_id)
    if kinds & _EVENT_TIME:
        size += 1 + width(time_ms)
    if kinds & PARTITION_KEY:
        size += 1 + width(key_size) + key_size
    if kinds & ORDERING_KEY:
        size += 1 + width(key_size) + key_size
    if value_size < 0:
        size += 2
    if size < 256:
        out += _SIZES[size]
    else:
        out += int(size).to_bytes(4, "big")
    if len(heads):
        out += heads
    if kinds & PARTITION_KEY:
        out.append(0x12)
        put(out, key_size)
        out += key
    out.append(0x18)
    put(out, payload_size)
    if kinds & _EVENT_TIME:
        out.append(0x28)
        put(out, time_ms)
    if kinds & ORDERING_KEY:
        out.append(0x3A)
        put(out, key_size)
        out += key
    out.append(0x40)
    put(out, sequence_id)
    if value_size < 0:
        out += b"\x48\x01"


def to_single(
    data: bytes, at: i64, delta: i64, base_ms: i64, sequence_id: i64, is_pulsars: bool
) -> tuple[i64, bytes, bytes]:
    """The record at `at` as a message by itself: the place after it, its metadata, its payload.

    The place is UNUSUAL if the record is.
    """
    try:
        opened = _open(data, at, delta)
        end, attributes, delta_ms, key_at, key_size, value_at, value_size, at = opened
        time_ms = base_ms + delta_ms
        kinds = _kinds(attributes, time_ms, key_size, is_pulsars)
        if end == UNUSUAL or kinds == UNUSUAL or base_ms < 0:
            return UNUSUAL, b"", b""
        meta = bytearray(b"\x0a\x00\x10")
        put(meta, sequence_id)
        meta.append(0x18)
        put(meta, base_ms if is_pulsars and kinds & _EVENT_TIME else time_ms)
        if not _put_properties(data, at, end, is_pulsars, meta, 0x22):
            return UNUSUAL, b"", b""
    except IndexError:
        return UNUSUAL, b"", b""
    key = data[key_at : key_at + key_size] if key_size > 0 else b""
    if kinds & PARTITION_KEY:
        if not key.isascii():
            return UNUSUAL, b"", b""
        meta.append(0x32)
        put(meta, key_size)
        meta += key
    if kinds & _EVENT_TIME:
        meta.append(0x60)
        put(meta, time_ms)
    if kinds & ORDERING_KEY:
        meta += b"\x92\x01"
        put(meta, key_size)
        meta += key
    if value_size < 0:
        meta += b"\xc8\x01\x01"
    return end, bytes(meta), data[value_at : value_at + value_size] if value_size > 0 else b""


def _open(data: bytes, at: i64, delta: i64) -> tuple[i64, i64, i64, i64, i64, i64, i64, i64]:
    """A record: its end (or UNUSUAL), attributes, time delta, place and size of key and of value,
    and the place of its headers. It must have the offset delta `delta`.
    """
    raw: i64 = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = longer(data, at, raw)
    end = at + (raw >> 1)
    if raw & 1 or end > len(data):
        return UNUSUAL, 0, 0, 0, 0, 0, 0, 0
    attributes: i64 = data[at]
    at += 1
    raw = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = longer(data, at, raw)
    delta_ms = (raw >> 1) ^ -(raw & 1)
    raw = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = longer(data, at, raw)
    if raw != delta << 1:
        return UNUSUAL, 0, 0, 0, 0, 0, 0, 0
    key_size, at = _length(data, at)
    key_at = at
    if key_size > 0:
        at += key_size
    value_size, at = _length(data, at)
    value_at = at
    if value_size > 0:
        at += value_size
    if at >= end:
        return UNUSUAL, 0, 0, 0, 0, 0, 0, 0
    return end, attributes, delta_ms, key_at, key_size, value_at, value_size, at


def _kinds(attributes: i64, time_ms: i64, key_size: i64, is_pulsars: bool) -> i64:
    """Which of event time, ordering key and partition key a message has; or UNUSUAL."""
    if time_ms < 0 or time_ms > 1 << 61:
        return UNUSUAL
    if is_pulsars:
        if attributes > 7:
            return UNUSUAL
        return attributes if key_size >= 0 else attributes & _EVENT_TIME
    kinds: i64 = 0
    if time_ms > 0:
        kinds = _EVENT_TIME
    if key_size >= 0:
        kinds |= ORDERING_KEY | PARTITION_KEY
    return kinds


def _put_properties(
    data: bytes, at: i64, end: i64, is_pulsars: bool, meta: bytearray, tag: i64
) -> bool:
    """Append the headers of a record as properties; False if they are not usual."""
    headers: i64 = data[at]
    at += 1
    if headers > 0x7E or headers & 1:
        return False
    headers >>= 1
    while headers > 0:
        meta.append(tag)
        at = _put_property(data, at, end, is_pulsars, meta)
        if at == UNUSUAL:
            return False
        headers -= 1
    return at == end


def _put_property(data: bytes, at: i64, end: i64, is_pulsars: bool, meta: bytearray) -> i64:
    name_size, at = _length(data, at)
    if name_size < 0 or at + name_size > end:
        return UNUSUAL
    name = data[at : at + name_size]
    at += name_size
    size, at = _length(data, at)
    if at + size > end or not name.isascii():
        return UNUSUAL
    if is_pulsars and name.startswith(b"pulsar."):
        return UNUSUAL
    text = data[at : at + size] if size > 0 else b""
    if not text.isascii():
        return UNUSUAL
    if size < 0:
        size = 0
    put(meta, 2 + width(name_size) + name_size + width(size) + size)
    meta.append(0x0A)
    put(meta, name_size)
    meta += name
    meta.append(0x12)
    put(meta, size)
    meta += text
    return at + size


def _length(data: bytes, at: i64) -> tuple[i64, i64]:
    """A length, -1 for null, and the place after it."""
    raw: i64 = data[at]
    at += 1
    if raw > 0x7F:
        raw, at = longer(data, at, raw)
    if raw == _NULL:
        return -1, at
    if raw & 1 or raw < 0:
        raise IndexError
    return raw >> 1, at


def longer(data: bytes, at: i64, raw: i64) -> tuple[i64, i64]:
    """A number of several bytes whose first one was `raw`, and the place after it."""
    raw &= 0x7F
    shift: i64 = 7
    while shift <= 56:
        byte: i64 = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return raw, at
        shift += 7
    raise IndexError  # no usual number has so many bytes


def width(raw: i64) -> i64:
    """How many bytes a number takes, zigzag already."""
    width: i64 = 1
    while raw > 0x7F:
        raw >>= 7
        width += 1
    return width


def put(out: bytearray, raw: i64) -> None:
    """Append a number, zigzag already."""
    if raw <= 0x7F:
        out.append(raw)
        return
    word: i64 = 0
    at: i64 = 0
    while raw > 0x7F and at < 48:
        word |= (raw & 0x7F | 0x80) << at
        raw >>= 7
        at += 8
    if raw <= 0x7F:
        out += int(word | raw << at).to_bytes((at >> 3) + 1, "little")
        return
    out += int(word).to_bytes(6, "little")
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
