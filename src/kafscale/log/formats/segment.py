"""The segment: one object that holds what one flush (or one rewriting) committed.

Here: building and reading its bytes. Next door: the index (index.py), names (keys.py).
Never here: storage, clocks, lanes' live state.

A segment of an ordinary topic is header, batches, footer, and nothing else. A segment with
several lanes (flag bit 0) has its batches sorted by lane and carries a lane table between
batches and footer, so that nothing needed to find a record lives in a second object. Where
transactions begin or end in it (flag bit 1), a table before the lane table says which.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from kafscale.log.formats.transactions import TransactionTable, decode_table
from kafscale.model.buffers import Buffer
from kafscale.model.errors import CorruptBatch, CorruptObject
from kafscale.records import batch

MAGIC: Final = 0x4B414653  # "KAFS"
END_MAGIC: Final = 0x454E4421  # "END!"
VERSION: Final = 1
FLAG_LANES: Final = 1
FLAG_TRANSACTIONS: Final = 2  # only together with FLAG_LANES
_FLAGS: Final = FLAG_LANES | FLAG_TRANSACTIONS

HEADER: Final = struct.Struct(
    ">"
    "I"  #  0 magic
    "H"  #  4 version
    "H"  #  6 flags            bit 0: a lane table, bit 1: a transaction table before it
    "q"  #  8 base             first position; with one lane, first offset
    "i"  # 16 record_count
    "q"  # 20 created_ms
    "I"  # 28 token            random, part of the content id
)
assert HEADER.size == 32

FOOTER: Final = struct.Struct(
    ">"
    "I"  #  0 crc              crc32c of all batches
    "q"  #  4 last             last position; with one lane, last offset
    "I"  # 12 magic
)
assert FOOTER.size == 16

LANE_ENTRY: Final = struct.Struct(
    ">"
    "i"  #  0 lane
    "q"  #  4 first_offset
    "q"  # 12 last_offset
    "I"  # 20 start            byte position of the lane's first batch in the object
    "I"  # 24 length           bytes of the lane's batches
    "q"  # 28 min_timestamp_ms
    "q"  # 36 max_timestamp_ms
    "I"  # 44 record_count
)
assert LANE_ENTRY.size == 48

LANE_TAIL: Final = struct.Struct(
    ">"
    "I"  #  0 predecessor_token
    "q"  #  4 predecessor_size   0: the log begins here
    "I"  # 12 predecessor_crc
    "I"  # 16 entry_count
    "I"  # 20 table_crc          crc32c of the entries and the fields above
)
assert LANE_TAIL.size == 24

TRANSACTION_TAIL: Final = struct.Struct(
    ">"
    "I"  #  0 length             bytes of the JSON before this
    "I"  #  4 crc                crc32c of the JSON
)

SMALLEST: Final = HEADER.size + FOOTER.size
THE_END: Final = (
    b"the log ends here\n"  # stands where a log would go on: see protocol/end_of_log.py
)
assert len(THE_END) < SMALLEST


class ContentId(NamedTuple):
    """Tells our own object from another writer's: equal ids, equal bytes."""

    token: int
    size: int
    crc: int


NOTHING_BEFORE: Final = ContentId(0, 0, 0)


class Span(NamedTuple):
    """One lane's part of a segment."""

    lane: int
    first: int
    last: int
    start: int
    length: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    records: int


class LaneBatches(NamedTuple):
    """One lane's stamped batches, ready to be laid into a segment."""

    lane: int
    first: int
    last: int
    records: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    batches: Sequence[Buffer]


class Built(NamedTuple):
    """A segment about to be written: its buffers in order, never joined."""

    body: list[Buffer]
    base: int
    end: int
    records: int
    content_id: ContentId
    spans: tuple[Span, ...]


class Segment(NamedTuple):
    """A segment read back and checked."""

    base: int
    end: int
    records: int
    created_ms: int
    content_id: ContentId
    spans: tuple[Span, ...]
    predecessor: ContentId | None  # None where the format has no field for it
    body_start: int
    body_end: int
    transactions: TransactionTable | None = None


def is_ordinary(base: int, end: int, lanes: Sequence[Span | LaneBatches]) -> bool:
    """Whether lane 0 alone fills the positions: then offsets are positions, no table is needed."""
    return len(lanes) == 1 and (lanes[0].lane, lanes[0].first, lanes[0].last) == (0, base, end - 1)


def build(
    base: int,
    end: int,
    lanes: Sequence[LaneBatches],
    *,
    created_ms: int,
    token: int,
    predecessor: ContentId,
    transactions: bytes = b"",
) -> Built:
    """Lay the lanes' batches, given in lane order, between header and footer.

    `end - base` is the stretch of positions covered; key compaction can leave fewer records.
    `transactions`: the encoded table of those that begin or end here.
    """
    ordinary = is_ordinary(base, end, lanes) and not transactions
    records = sum(lane.records for lane in lanes)
    flags = 0 if ordinary else FLAG_LANES | (FLAG_TRANSACTIONS if transactions else 0)
    header = HEADER.pack(MAGIC, VERSION, flags, base, records, created_ms, token)
    body: list[Buffer] = [header]
    spans = []
    crc = 0
    position = HEADER.size
    for lane in lanes:
        start = position
        for data in lane.batches:
            crc = crc32c(data, crc)
            position += len(data)
        body.extend(lane.batches)
        spans.append(
            Span(
                lane.lane,
                lane.first,
                lane.last,
                start,
                position - start,
                lane.min_timestamp_ms,
                lane.max_timestamp_ms,
                lane.records,
            )
        )
    if transactions:
        transactions += TRANSACTION_TAIL.pack(len(transactions), crc32c(transactions))
        body.append(transactions)
        position += len(transactions)
    if not ordinary:
        table = _lane_table(spans, predecessor)
        body.append(table)
        position += len(table)
    body.append(FOOTER.pack(crc, end - 1, END_MAGIC))
    size = position + FOOTER.size
    return Built(body, base, end, records, ContentId(token, size, crc), tuple(spans))


def _lane_table(spans: Sequence[Span], predecessor: ContentId) -> bytes:
    table = b"".join(LANE_ENTRY.pack(*span) for span in spans)
    unsigned = table + LANE_TAIL.pack(*predecessor, len(spans), 0)[:-4]
    return unsigned + struct.pack(">I", crc32c(unsigned))


def parse(data: memoryview) -> Segment:
    """Read a whole segment, checking everything it says about itself."""
    if len(data) < SMALLEST:
        raise CorruptObject(f"a segment has at least {SMALLEST} bytes, this one {len(data)}")
    magic, version, flags, base, records, created_ms, token = HEADER.unpack_from(data)
    crc, last, end_magic = FOOTER.unpack_from(data, len(data) - FOOTER.size)
    if magic != MAGIC or end_magic != END_MAGIC:
        raise CorruptObject("not a whole segment: its first or last magic number is wrong")
    _check_flags(version, flags)
    body_end = len(data) - FOOTER.size
    predecessor, table = None, None
    spans: tuple[Span, ...] = ()
    if flags & FLAG_LANES:
        spans, predecessor, body_end = _read_lane_table(data, body_end)
    if flags & FLAG_TRANSACTIONS:
        table, body_end = _read_transactions(data, body_end)
    if crc32c(data[HEADER.size : body_end]) != crc:
        raise CorruptObject("the checksum over the segment's batches does not match")
    if not flags & FLAG_LANES:
        spans = (_sole_span(data, base, last, body_end),)
    if last < base or sum(span.records for span in spans) != records:
        raise CorruptObject("the segment's header, footer and batches disagree on its records")
    content_id = ContentId(token, len(data), crc)
    return Segment(
        base,
        last + 1,
        records,
        created_ms,
        content_id,
        spans,
        predecessor,
        HEADER.size,
        body_end,
        table,
    )


def _check_flags(version: int, flags: int) -> None:
    if version != VERSION or flags & ~_FLAGS or flags == FLAG_TRANSACTIONS:
        raise CorruptObject(f"segment version {version} with flags {flags:#x} is not known here")


def _read_transactions(data: memoryview, end: int, before: int = 0) -> tuple[TransactionTable, int]:
    """Read the table that ends at `end` of `data`, which begins at byte `before` of the object.

    Also gives where it begins. Raises ShortFoot where `data` does not have all of it.
    """
    if end < TRANSACTION_TAIL.size:
        raise ShortFoot(len(data) - end + TRANSACTION_TAIL.size)
    length, crc = TRANSACTION_TAIL.unpack_from(data, end - TRANSACTION_TAIL.size)
    start = end - TRANSACTION_TAIL.size - length
    if start + before < HEADER.size:
        raise CorruptObject("the segment has no room for the transaction table it announces")
    if start < 0:
        raise ShortFoot(len(data) - start)
    table = data[start : start + length]
    if crc32c(table) != crc:
        raise CorruptObject("the transaction table's checksum does not match")
    return decode_table(table), start


class Outline(NamedTuple):
    """A segment read by its header and footer alone; its batches are not checked."""

    base: int
    end: int
    records: int
    created_ms: int
    content_id: ContentId
    spans: tuple[Span, ...]
    transactions: TransactionTable | None = None


# Times that only the batches themselves could tell. A search by time must not skip such a span.
ANY_TIME: Final = (-1 << 63, (1 << 63) - 1)


def outline(head: memoryview, foot: memoryview, size: int) -> Outline:
    """Read a segment of `size` bytes by its first 32 and its last bytes, lane table included.

    Raises ShortFoot where the table is longer than `foot`.
    """
    if len(head) < HEADER.size or len(foot) < FOOTER.size:
        raise CorruptObject("too short to be a segment")
    magic, version, flags, base, records, created_ms, token = HEADER.unpack_from(head)
    crc, last, end_magic = FOOTER.unpack_from(foot, len(foot) - FOOTER.size)
    if (magic, end_magic) != (MAGIC, END_MAGIC) or last < base:
        raise CorruptObject("not a whole segment")
    _check_flags(version, flags)
    content_id = ContentId(token, size, crc)
    table: TransactionTable | None = None
    if flags & FLAG_LANES:
        spans, start = _outline_lanes(foot, size)
        if flags & FLAG_TRANSACTIONS:
            table, _ = _read_transactions(foot, start, before=size - len(foot))
    else:
        spans = (Span(0, base, last, HEADER.size, size - SMALLEST, *ANY_TIME, records),)
    return Outline(base, last + 1, records, created_ms, content_id, spans, table)


class ShortFoot(Exception):
    """More of the object's end is needed."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} bytes of the object's end are needed")
        self.needed = needed


def _outline_lanes(foot: memoryview, size: int) -> tuple[tuple[Span, ...], int]:
    """The lanes, and where in `foot` their table begins."""
    end = len(foot) - FOOTER.size
    if end < LANE_TAIL.size:
        raise ShortFoot(min(size, FOOTER.size + LANE_TAIL.size))
    count = LANE_TAIL.unpack_from(foot, end - LANE_TAIL.size)[3]
    needed = FOOTER.size + LANE_TAIL.size + count * LANE_ENTRY.size
    if needed > size - HEADER.size:
        raise CorruptObject("the segment has no room for the lane table it announces")
    if needed > len(foot):
        raise ShortFoot(needed)
    spans, _, start = _read_lane_table(foot, end, before=size - len(foot))
    return spans, start


def read_content_id(header: memoryview, footer: memoryview, size: int) -> ContentId:
    """Identify an object by its first 32 and last 16 bytes alone."""
    if len(header) < HEADER.size or len(footer) < FOOTER.size:
        raise CorruptObject("too short to be a segment")
    return ContentId(HEADER.unpack_from(header)[6], size, FOOTER.unpack_from(footer)[0])


def _read_lane_table(
    data: memoryview, end: int, before: int = 0
) -> tuple[tuple[Span, ...], ContentId, int]:
    """Read the table that ends at `end` of `data`, which begins at byte `before` of the object."""
    if end + before < HEADER.size + LANE_TAIL.size:
        raise CorruptObject("the segment has no room for the lane table it announces")
    *predecessor, count, table_crc = LANE_TAIL.unpack_from(data, end - LANE_TAIL.size)
    start = end - LANE_TAIL.size - count * LANE_ENTRY.size
    if start + before < HEADER.size or crc32c(data[start : end - 4]) != table_crc:
        raise CorruptObject("the lane table's checksum does not match")
    spans = tuple(
        Span._make(entry) for entry in LANE_ENTRY.iter_unpack(data[start : end - LANE_TAIL.size])
    )
    if any(span.start + span.length > start + before for span in spans):
        raise CorruptObject("the lane table points outside the batches")
    return spans, ContentId._make(predecessor), start


def _sole_span(data: memoryview, base: int, last: int, body_end: int) -> Span:
    summary = summarize(data, HEADER.size, body_end)
    if summary.first != base or summary.last != last:
        raise CorruptObject("the batches do not begin and end where the segment says")
    return Span(
        0,
        base,
        last,
        HEADER.size,
        body_end - HEADER.size,
        summary.min_timestamp_ms,
        summary.max_timestamp_ms,
        summary.records,
    )


class Summary(NamedTuple):
    """What a run of batches adds up to."""

    first: int
    last: int
    records: int
    min_timestamp_ms: int
    max_timestamp_ms: int


def summarize(data: memoryview, start: int, end: int) -> Summary:
    """Add up a run of batches of one lane by their headers."""
    try:
        headers = [header for _, header in batch.walk(data, start, end)]
    except CorruptBatch as problem:
        raise CorruptObject(f"the segment's batches do not add up: {problem}") from problem
    if not headers or sum(header.size for header in headers) != end - start:
        raise CorruptObject("a segment holds whole batches, at least one")
    return Summary(
        headers[0].base_offset,
        headers[-1].last_offset,
        sum(header.record_count for header in headers),
        min(header.base_timestamp_ms for header in headers),
        max(header.max_timestamp_ms for header in headers),
    )
