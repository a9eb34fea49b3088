"""Messages that producers send one by one, and their receipts, as plain loops over bytes.

Here: the loops, for what is usual; the rest is left to the slower functions next door. A whole run
of frames is read, checked and written as records in one call.
`make setup` compiles this file to machine code where there is a C compiler (setup.py).
Next door: records (splice.py), which producer (producing/producers.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crc32c import crc32c

from kafscale.gateways.pulsar.messages.splice import (
    NO_HEADS,
    ORDERING_KEY,
    PARTITION_KEY,
    UNUSUAL,
    longer,
    put,
    put_header,
    put_record,
    width,
)

if TYPE_CHECKING:
    from mypy_extensions import i64


def take_sends(
    frames: list[bytes], producer_id: i64, run: tuple[i64, i64, i64, i64], most: i64, out: bytearray
) -> tuple[i64, i64, i64, i64, i64]:
    """Append messages that came one by one to `out` as records, up to `most` bytes.

    `run`: the first one's number in the batch, its sequence id, the batch's time (-1: the first
    one's), and the latest of all times. Gives how many frames were taken, and the run after them.
    The first that is not a usual message of this producer, or not the next one, is not taken.
    """
    index, sequence_id, base_ms, latest_ms = run
    taken: i64 = 0
    try:
        for frame in frames:
            if len(out) + len(frame) > most:
                break
            time_ms = _take_send(frame, producer_id, sequence_id, index, base_ms, out)
            if time_ms == UNUSUAL:
                break
            if base_ms < 0:
                base_ms = time_ms
            if time_ms > latest_ms:
                latest_ms = time_ms
            taken += 1
            index += 1
            sequence_id += 1
    except IndexError:  # the frame is cut off; nothing of it was appended
        pass
    return taken, index, sequence_id, base_ms, latest_ms


def sender_of(frame: bytes) -> tuple[i64, i64]:
    """The producer and sequence id of the beginning of a SEND; UNUSUAL if it is not a plain one."""
    try:
        if frame[4] != 0x08 or frame[5] != 0x06 or frame[6] != 0x32 or frame[8] != 0x08:
            return UNUSUAL, 0
        producer_id: i64 = frame[9]
        at: i64 = 10
        if producer_id > 0x7F:
            producer_id, at = longer(frame, at, producer_id)
        if frame[at] != 0x10:
            return UNUSUAL, 0
        sequence_id: i64 = frame[at + 1]
        at += 2
        if sequence_id > 0x7F:
            sequence_id, at = longer(frame, at, sequence_id)
        if at < len(frame) - 1 and frame[at] == 0x18 and frame[at + 1] != 1:  # a batch
            return UNUSUAL, 0
    except IndexError:
        return UNUSUAL, 0
    return producer_id, sequence_id


def _take_send(
    data: bytes, producer_id: i64, sequence_id: i64, index: i64, base_ms: i64, out: bytearray
) -> i64:
    """Append the message of a SEND as a record; gives its time, or UNUSUAL."""
    sender, number = sender_of(data)
    if sender != producer_id or number != sequence_id:
        return UNUSUAL
    end: i64 = 8 + data[7]
    if data[7] > 0x7F or _number_at(data, 0) != end - 4:
        return UNUSUAL
    at: i64 = 8 + 2 + width(producer_id) - 1 + 1 + width(sequence_id)
    while at < end:
        tag: i64 = data[at]
        value: i64 = data[at + 1]
        at += 2
        # One message, no highest sequence id, no chunk.
        if not (tag == 0x18 and value == 1) and not ((tag == 0x30 or tag == 0x38) and value == 0):
            return UNUSUAL
    if at != end or data[at] != 0x0E or data[at + 1] != 0x01:
        return UNUSUAL
    if crc32c(data[at + 6 :]) != _number_at(data, at + 2):
        return UNUSUAL
    return _take_message(data, at + 10, _number_at(data, at + 6), number, index, base_ms, out)


def _number_at(data: bytes, at: i64) -> i64:
    """Four bytes."""
    first: i64 = data[at]
    second: i64 = data[at + 1]
    third: i64 = data[at + 2]
    fourth: i64 = data[at + 3]
    return first << 24 | second << 16 | third << 8 | fourth


def _take_message(
    data: bytes, at: i64, size: i64, sequence_id: i64, index: i64, base_ms: i64, out: bytearray
) -> i64:
    """Append a message by itself, whose metadata lies at `at`; gives its time, or UNUSUAL."""
    end = at + size
    if end > len(data):
        return UNUSUAL
    heads = NO_HEADS
    key_at: i64 = 0
    key_size: i64 = -1
    properties: i64 = 0
    found: i64 = 0  # which of the fields that every message has
    kind: i64 = 0
    time_ms: i64 = -1
    is_null = False
    while at < end:
        tag, number, at = _field(data, at)
        if tag == 0x10:
            found |= 2 if number == sequence_id else 4
        elif tag == 0x18:
            time_ms = number
        elif tag == 0x01C8:
            is_null = number != 0
        elif tag == 0x48 or (tag == 0x40 and number == 0):  # its size; that it is not packed
            continue
        elif at + number > end:
            return UNUSUAL
        elif tag == 0x0A and data[at : at + number].isascii():  # the producer's name
            found |= 1
            at += number
        elif (tag == 0x32 or tag == 0x0192) and key_size < 0:
            kind = PARTITION_KEY if tag == 0x32 else ORDERING_KEY
            key_at, key_size = at, number
            at += number
        elif tag == 0x22:
            heads = heads if properties else bytearray()
            if not put_header(data, at, at + number, heads):
                return UNUSUAL
            properties += 1
            at += number
        else:
            return UNUSUAL
    key = data[key_at : key_at + key_size] if key_size > 0 else b""
    is_usual = at == end and found == 3 and 0 <= time_ms <= 1 << 61
    if not is_usual or (kind == PARTITION_KEY and not key.isascii()):
        return UNUSUAL
    value_size: i64 = UNUSUAL if is_null else len(data) - end
    front = (kind, 0 if base_ms < 0 else time_ms - base_ms, index, key_size, key)
    put_record(out, front, value_size, properties, heads, data, end)
    return time_ms


def _field(data: bytes, at: i64) -> tuple[i64, i64, i64]:
    """A field's tag, its number or length, and the place after both."""
    tag: i64 = data[at]
    number: i64 = data[at + 1]
    at += 2
    if tag > 0x7F:
        tag |= number << 8
        number = data[at]
        at += 1
    if number > 0x7F:
        number, at = longer(data, at, number)
    return tag, number, at


def receipts(producer_id: i64, sequence_id: i64, count: i64, ledger: i64, entry: i64) -> bytes:
    """SEND_RECEIPT for each of `count` messages that came and were stored one after the other."""
    out = bytearray()
    front = b""
    place_of = b""
    widths: i64 = -1
    for _ in range(count):
        new_widths = width(sequence_id) << 8 | width(entry)
        if new_widths != widths:
            widths = new_widths
            place_size = 2 + width(ledger) + width(entry)
            body = 6 + width(producer_id) + width(sequence_id) + place_size
            made = bytearray()
            _put_number(made, 8 + body)
            _put_number(made, 4 + body)
            made += b"\x08\x07\x3a"
            made.append(body)
            made.append(0x08)
            put(made, producer_id)
            made.append(0x10)
            front = bytes(made)
            made = bytearray(b"\x1a")
            made.append(place_size)
            made.append(0x08)
            put(made, ledger)
            made.append(0x10)
            place_of = bytes(made)
        out += front
        put(out, sequence_id)
        out += place_of
        put(out, entry)
        out += b"\x20\x00"
        sequence_id += 1
        entry += 1
    return bytes(out)


def _put_number(out: bytearray, number: i64) -> None:
    """Append four bytes."""
    out += int(number).to_bytes(4, "big")
