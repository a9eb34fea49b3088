"""Stored batches become what Fluvio's consumers read.

Here: which offsets an answer covers, and the batches in it. A client counts the records of a batch
from its base offset on, so that stored batches are cut at holes: at records that key compaction
removed, that the client has already, or that no client sees (control batches). Each batch of an
answer reaches up to the next one, because the client goes on behind the last offset of the last
batch.
Next door: single records (splice.py), the stream that sends this (data/streams.py).
"""

import struct
from collections.abc import Generator, Iterable
from typing import Final, NamedTuple

from crc32c import crc32c

from kafscale.gateways.fluvio.records import splice
from kafscale.model.buffers import Buffer
from kafscale.model.errors import CorruptObject
from kafscale.records.batch import HEADER_SIZE, LENGTH_PREFIX, BatchHeader

_RECORDS_PER_STEP: Final = 2048
_HEAD: Final = struct.Struct(">qiibI")  # up to the checksum
_SIGNED: Final = struct.Struct(">hiqqqhii")  # from there on, with the number of records
_MAGIC: Final = 2
assert _HEAD.size + _SIGNED.size == HEADER_SIZE


class OffsetRun(NamedTuple):
    """Records with offsets in a row."""

    base_offset: int
    record_count: int
    first_ms: int
    max_ms: int
    records: Buffer


class OpenedBatch(NamedTuple):
    """A stored batch whose records are unpacked; none if no client sees them."""

    header: BatchHeader
    data: bytes


def cut(opened: OpenedBatch, start: int) -> Generator[None, None, list[OffsetRun]]:
    """The runs of one stored batch, from offset `start` on."""
    header, data = opened
    keep_times = not header.log_append_time
    first_ms = header.base_timestamp_ms if keep_times else header.max_timestamp_ms
    runs: list[OffsetRun] = []
    at, left = 0, header.record_count if data else 0
    least = 0  # what the next offset delta must be, or more
    while left:
        delta = splice.offset_delta(data, at)
        is_broken = not least <= delta <= header.last_offset_delta
        if not is_broken and header.base_offset + delta < start:
            at, count = splice.after_record(data, at), 1
        elif not is_broken:
            at, count, out = yield from _run(data, at, left, delta, keep_times)
            base = header.base_offset + delta
            runs.append(OffsetRun(base, count, first_ms, header.max_timestamp_ms, out))
            yield
        if is_broken or at == splice.BROKEN:
            raise CorruptObject(f"the batch at {header.base_offset} is broken")
        left, least = left - count, delta + count
    return runs


def _run(
    data: bytes, at: int, left: int, delta: int, keep_times: bool
) -> Generator[None, None, tuple[int, int, bytes]]:
    """The place after a run of records, their number, and the run as Fluvio's records."""
    done = 0
    joined: list[bytes] = []
    while done < left:
        some = min(_RECORDS_PER_STEP, left - done)
        pieces: list[bytes] = []
        at, copied = splice.to_fluvio(data, at, done, some, delta + done, keep_times, pieces)
        done += copied
        joined.append(b"".join(pieces))
        if at == splice.BROKEN or copied < some:
            break
        yield
    return at, done, joined[0] if len(joined) == 1 else b"".join(joined)


def record_set(runs: Iterable[OffsetRun], start: int, end: int) -> list[Buffer]:
    """The batches for offsets `start` to `end`, in pieces to be sent one after the other."""
    filled = list(runs)
    if not filled or filled[0].base_offset > start:
        filled.insert(0, OffsetRun(start, 0, -1, -1, b""))
    ends = [run.base_offset for run in filled[1:]] + [end]
    pieces: list[Buffer] = []
    for run, run_end in zip(filled, ends, strict=True):
        signed = _SIGNED.pack(
            0,
            run_end - run.base_offset - 1,
            run.first_ms,
            run.max_ms,
            -1,
            -1,
            -1,
            run.record_count,
        )
        checksum = crc32c(run.records, crc32c(signed))
        length = HEADER_SIZE - LENGTH_PREFIX + len(run.records)
        pieces.append(_HEAD.pack(run.base_offset, length, -1, _MAGIC, checksum) + signed)
        pieces.append(run.records)
    return pieces
