"""The sparse index beside a segment: address to byte position.

Here: its bytes and its look-up. An index is a hint: it may be missing or come from another
attempt. So the reader checks the batch it finds, and rebuilds the index if it is wrong.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kafscale.log.formats.segment import Span
from kafscale.model.buffers import Buffer
from kafscale.model.errors import CorruptObject
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.virtual.arithmetic import DEFAULT_RANGE

MAGIC: Final = b"IDX\0"
VERSION: Final = 1

# Addresses of one lane: lane * RANGE .. lane * RANGE + RANGE - 1. Reaching it is refused.
RANGE: Final = DEFAULT_RANGE

HEADER: Final = struct.Struct(
    ">"
    "4s"  #  0 magic
    "H"  #  4 version
    "I"  #  6 entry_count
    "I"  # 10 interval        the configured bytes between entries
    "H"  # 14 reserved
)
assert HEADER.size == 16

ENTRY: Final = struct.Struct(
    ">"
    "q"  # 0 address          lane * RANGE + offset of a batch's first record
    "i"  # 8 position         of that batch, from the start of the segment object
)
assert ENTRY.size == 12


class Index(NamedTuple):
    """Addresses in rising order and where their batches begin."""

    addresses: list[int]
    positions: list[int]
    interval: int

    def find(self, lane: int, offset: int) -> tuple[int, int] | None:
        """The last indexed batch of the lane at or before `offset`: its first offset, its place."""
        at = bisect_right(self.addresses, address(lane, offset)) - 1
        if at < 0 or self.addresses[at] < lane * RANGE:
            return None
        return self.addresses[at] - lane * RANGE, self.positions[at]


def address(lane: int, offset: int) -> int:
    """The lane's offset as a number that no other lane shares."""
    if not 0 <= offset < RANGE or lane < 0:
        raise ValueError(f"offset {offset} of lane {lane} lies outside 0 … {RANGE - 1}")
    return lane * RANGE + offset


def from_address(value: int) -> tuple[int, int]:
    """Lane and offset of an address."""
    return divmod(value, RANGE)


def collect(
    spans_with_batches: Iterable[tuple[Span, Iterable[tuple[int, BatchHeader]]]], interval: int
) -> Index:
    """Index every lane's first batch, then one batch at least every `interval` bytes."""
    addresses: list[int] = []
    positions: list[int] = []
    for span, batches in spans_with_batches:
        due = span.start
        for position, header in batches:
            if position >= due:
                addresses.append(address(span.lane, header.base_offset))
                positions.append(position)
                due = position + interval
    return Index(addresses, positions, interval)


def of_pieces(spans: Iterable[Span], pieces: Iterable[Iterable[Buffer]], interval: int) -> Index:
    """Index batches that lie at the spans; each piece is one batch or a run of them."""
    batches = ((span, _walk(span.start, piece)) for span, piece in zip(spans, pieces, strict=True))
    return collect(batches, interval)


def _walk(start: int, pieces: Iterable[Buffer]) -> Iterator[tuple[int, BatchHeader]]:
    for piece in pieces:
        for at, header in batch.walk(piece):
            yield start + at, header
        start += len(piece)


def encode(index: Index) -> bytes:
    """Write the index's bytes."""
    head = HEADER.pack(MAGIC, VERSION, len(index.addresses), index.interval, 0)
    return head + b"".join(map(ENTRY.pack, index.addresses, index.positions))


def decode(data: memoryview) -> Index:
    """Read an index, refusing what does not add up."""
    if len(data) < HEADER.size:
        raise CorruptObject("too short to be an index")
    magic, version, count, interval, _ = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise CorruptObject("not an index of a known version")
    if len(data) != HEADER.size + count * ENTRY.size:
        raise CorruptObject(f"an index of {count} entries does not have {len(data)} bytes")
    entries = list(ENTRY.iter_unpack(data[HEADER.size :]))
    addresses = [entry[0] for entry in entries]
    if any(a >= b for a, b in pairwise(addresses)):
        raise CorruptObject("the index's addresses do not rise")
    return Index(addresses, [entry[1] for entry in entries], interval)
