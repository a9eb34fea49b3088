"""Taking segments apart into checked runs of batches and laying such runs into a new segment.

Here: pure work on bytes, batches closed. Next door: reading and writing objects
(logs/object_io.py), which segments to join (merge.py), opening the batches (key_compaction.py).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from kafscale.log.formats import index, keys, manifest, segment
from kafscale.log.formats.manifest import SegmentEntry
from kafscale.log.formats.segment import LaneBatches, Span
from kafscale.model.buffers import Buffer
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import CorruptObject
from kafscale.spark.kernels import scan


class Run(NamedTuple):
    """One lane's batches, side by side; the span says what they are, not where."""

    span: Span
    data: Buffer
    positions: list[int]
    bases: list[int]  # first offsets of the batches


class Output(NamedTuple):
    """A segment about to be written, with its index."""

    entry: SegmentEntry
    body: list[Buffer]
    hint: bytes  # the index


def take_apart(entry: SegmentEntry, data: memoryview) -> list[Run]:
    """Check that these bytes are the segment of the manifest, and every batch in them."""
    outline = segment.outline(data, data, len(data))
    spans = entry.spans()
    if outline.content_id != entry.content_id or (outline.base, outline.end) != (
        entry.base,
        entry.end,
    ):
        raise CorruptObject("not the object that the manifest names")
    if [span[:5] for span in outline.spans] != [span[:5] for span in spans]:
        raise CorruptObject("its lanes are not those that the manifest names")
    body_end = max(span.start + span.length for span in spans)
    if crc32c(data[segment.HEADER.size : body_end]) != entry.crc:
        raise CorruptObject("the checksum over the segment's batches does not match")
    return [_run(span, data[span.start : span.start + span.length]) for span in spans]


def _run(span: Span, data: memoryview) -> Run:
    walked = scan.walk(data, 0, len(data))
    if walked.problem or walked.stop != len(data) or not walked.positions:
        raise CorruptObject(f"lane {span.lane} does not consist of whole batches")
    headers = scan.read_headers(np.frombuffer(data, np.uint8), walked.positions)
    rows = zip(
        walked.positions, headers.sizes.tolist(), headers.column("crc").tolist(), strict=True
    )
    for position, size, crc in rows:
        if not scan.crc_is_right(data, position, size, crc):
            raise CorruptObject(f"the batch at byte {span.start + position} fails its checksum")
    bases, lasts = headers.column("base_offset"), headers.last_offsets
    if bases[0] < span.first or lasts[-1] != span.last or bool((bases[1:] <= lasts[:-1]).any()):
        raise CorruptObject(f"lane {span.lane} does not hold offsets {span.first} to {span.last}")
    return Run(span, data, walked.positions, bases.tolist())


def put_together(
    base: int,
    end: int,
    lanes: Mapping[int, Sequence[Run]],
    *,
    generation: int,
    interval: int,
    clock: Clock,
    dice: Dice,
) -> Output:
    """Lay each lane's runs one after the other, lanes in order, under a name never used before."""
    token = int.from_bytes(dice.token(4), "big")
    order = sorted(lanes)
    built = segment.build(
        base,
        end,
        [_lane(number, lanes[number]) for number in order],
        created_ms=clock.now_ms(),
        token=token,
        predecessor=segment.NOTHING_BEFORE,
    )
    name = keys.rewritten_name(base, generation, token)
    entry = manifest.entry_of(name, base, end, built.content_id, built.spans, has_index=True)
    rows = [lanes[number] for number in order]
    return Output(entry, built.body, index.encode(_index(built.spans, rows, interval)))


def _lane(number: int, runs: Sequence[Run]) -> LaneBatches:
    spans = [run.span for run in runs]
    return LaneBatches(
        number,
        spans[0].first,
        spans[-1].last,
        sum(span.records for span in spans),
        min(span.min_timestamp_ms for span in spans),
        max(span.max_timestamp_ms for span in spans),
        [run.data for run in runs],
    )


def _index(spans: Sequence[Span], lanes: Sequence[Sequence[Run]], interval: int) -> index.Index:
    addresses: list[int] = []
    positions: list[int] = []
    for span, runs in zip(spans, lanes, strict=True):
        start = due = span.start
        for run in runs:
            for position, base in zip(run.positions, run.bases, strict=True):
                if start + position >= due:
                    addresses.append(index.address(span.lane, base))
                    positions.append(start + position)
                    due = start + position + interval
            start += len(run.data)
    return index.Index(addresses, positions, interval)
