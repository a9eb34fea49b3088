"""Records of parts of objects, read without a broker.

Here: batch after batch, a few megabytes at a time, without those that an aborted transaction
wrote. Next door: what an object holds (object_view.py), which part of which object holds what
(log/protocol/survey.py).
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kafscale.log.formats import index, keys
from kafscale.model.errors import CorruptObject, KafscaleError
from kafscale.records import batch
from kafscale.records.batch import BatchHeader
from kafscale.records.record import Record, open_batch

_PIECE: Final = 4 << 20
_LARGEST_BATCH: Final = 100 << 20  # unpacked
ReadBytes = Callable[[str, int, int], memoryview]  # a key, where to begin, how many


class StoredPart(NamedTuple):
    """One lane's batches in one object: offsets first to last, bytes from start on."""

    key: str
    lane: int
    first: int
    last: int
    start: int
    length: int
    max_timestamp_ms: int
    has_index: bool
    aborted: tuple[tuple[int, int, int], ...]  # producer, first offset, offset of the marker


class DecodedBatch(NamedTuple):
    """The records of a batch, and whether a broker set their times."""

    records: list[Record]
    is_append_time: bool


def read_batches(read: ReadBytes, part: StoredPart, first: int, end: int) -> Iterator[DecodedBatch]:
    """Give the records of a part from one offset up to before another."""
    stop = part.start + part.length
    at = _begin(read, part, first)
    held = memoryview(b"")
    while at < stop:
        piece = read(part.key, at, min(_PIECE, stop - at))
        if not piece:
            raise CorruptObject(f"{part.key} ends at byte {at}, before its last batch")
        at += len(piece)
        held = memoryview(bytes(held) + bytes(piece)) if held else piece
        used = 0
        for position, header in batch.walk(held):
            used = position + header.size
            if header.base_offset >= end:
                return
            if header.next_offset > first and not _is_left_out(header, part):
                found = open_batch(held[position:used], _LARGEST_BATCH)
                rows = [record for record in found if first <= record.offset < end]
                yield DecodedBatch(rows, header.log_append_time)
        held = held[used:]


def _is_left_out(header: BatchHeader, part: StoredPart) -> bool:
    if header.is_control:
        return True
    return header.is_transactional and any(
        header.producer_id == producer and begun <= header.base_offset <= marker
        for producer, begun, marker in part.aborted
    )


def _begin(read: ReadBytes, part: StoredPart, first: int) -> int:
    """Where to begin to read: an index may tell a later place than the part's first byte."""
    if not part.has_index or part.length <= _PIECE or first <= part.first:
        return part.start
    try:
        known = index.decode(read(keys.index_of(part.key), 0, 1 << 30))
        found = known.find(part.lane, first)
        if found is None or not part.start <= found[1] < part.start + part.length:
            return part.start
        header = batch.read_header(read(part.key, found[1], batch.HEADER_SIZE))
    except KafscaleError:  # an index is a hint: it may be missing, or be of another attempt
        return part.start
    return found[1] if header.base_offset == found[0] else part.start
