"""The manifest: the objects that are the past of a log, one immutable object per generation.

Here: its contents, its JSON, and the changes that upkeep makes to it, as pure functions that can be
applied again to a newer generation. Next door: committing one (protocol/commits.py).
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kafscale.log.formats import keys, segment
from kafscale.log.formats.producers import ProducerSnapshot
from kafscale.log.formats.segment import Built, ContentId, Segment, Span
from kafscale.log.formats.transactions import TransactionMarks
from kafscale.model.errors import CorruptObject


class SegmentEntry(msgspec.Struct, array_like=True, frozen=True):
    """One segment of the past. With no spans listed: lane 0, offsets equal positions."""

    name: str
    base: int
    end: int
    size: int
    records: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    token: int
    crc: int
    has_index: bool
    lanes: list[Span] = []

    @property
    def content_id(self) -> ContentId:
        """What the object's own bytes must say."""
        return ContentId(self.token, self.size, self.crc)

    def spans(self) -> list[Span]:
        """The lanes in the segment, in lane order."""
        return self.lanes or [
            Span(
                0,
                self.base,
                self.end - 1,
                segment.HEADER.size,
                self.size - segment.SMALLEST,
                self.min_timestamp_ms,
                self.max_timestamp_ms,
                self.records,
            )
        ]


def entry_of(
    name: str,
    base: int,
    end: int,
    content_id: ContentId,
    spans: Sequence[Span],
    *,
    has_index: bool,
) -> SegmentEntry:
    """Describe a segment that has just been written or read."""
    # With a table of transactions, the batches end before the footer.
    is_whole = sum(span.length for span in spans) == content_id.size - segment.SMALLEST
    if is_whole and segment.is_ordinary(base, end, spans):
        lanes, (only,) = [], spans
        records, earliest, latest = only.records, only.min_timestamp_ms, only.max_timestamp_ms
    else:
        lanes = list(spans)
        records = sum(span.records for span in spans)
        earliest = min(span.min_timestamp_ms for span in spans)
        latest = max(span.max_timestamp_ms for span in spans)
    return SegmentEntry(
        name,
        base,
        end,
        content_id.size,
        records,
        earliest,
        latest,
        content_id.token,
        content_id.crc,
        has_index,
        lanes,
    )


def flush_entry(flush: Built | Segment, index_from_bytes: int) -> SegmentEntry:
    """Describe a flush under its own name; whether it has an index goes by its size."""
    return entry_of(
        keys.segment_name(flush.base),
        flush.base,
        flush.end,
        flush.content_id,
        flush.spans,
        has_index=flush.content_id.size >= index_from_bytes,
    )


class Dropped(msgspec.Struct, array_like=True, frozen=True):
    """An object no generation from this one on names; deleted a grace period later."""

    name: str
    generation: int


class LaneMark(msgspec.Struct, array_like=True, frozen=True):
    """A lane at the manifest's end: log start, next offset, and its leader epochs."""

    start: int
    next: int
    epochs: list[tuple[int, int]] = []
    producers: list[ProducerSnapshot] = []
    cleaned: list[tuple[int, int]] = []  # key compactions: (offset they reached, when)
    transactions: TransactionMarks | None = None  # only from format 2 on


_WITH_TRANSACTIONS: Final = 2


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything before `end`. The chain of flushes goes on from there."""

    format: int = 1
    generation: int
    commit_id: str
    created_ms: int
    author: str
    end: int
    end_id: tuple[int, int, int] = (0, 0, 0)  # content id of the flush that ends at `end`
    segments: list[SegmentEntry] = []
    dropped: list[Dropped] = []
    lanes: dict[int, LaneMark] = {}

    def names(self) -> set[str]:
        """The objects this generation needs."""
        return {entry.name for entry in self.segments}


def encode(manifest: Manifest) -> bytes:
    """Write it as JSON.

    A manifest that knows of transactions has format 2: older programs, which would drop them,
    refuse it.
    """
    if any(mark.transactions is not None for mark in manifest.lanes.values()):
        manifest = msgspec.structs.replace(manifest, format=_WITH_TRANSACTIONS)
    return msgspec.json.encode(manifest)


def decode(data: memoryview | bytes) -> Manifest:
    """Read one, refusing what is not a manifest of a known format."""
    try:
        manifest = _DECODER.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise CorruptObject(f"not a manifest: {problem}") from problem
    if manifest.format not in (1, _WITH_TRANSACTIONS):
        raise CorruptObject(f"manifest format {manifest.format} is not known here")
    return manifest


_DECODER = msgspec.json.Decoder(Manifest)


def append_history(
    old: Manifest,
    entries: Sequence[SegmentEntry],
    end: int,
    end_id: ContentId,
    lanes: dict[int, LaneMark],
) -> Manifest:
    """Roll-up: the tail up to `end` becomes past. Lane starts only move up."""
    merged = {
        lane: LaneMark(
            max(mark.start, old.lanes[lane].start if lane in old.lanes else 0),
            mark.next,
            mark.epochs,
            mark.producers,
            # What key compaction has done is known to the manifest alone.
            old.lanes[lane].cleaned if lane in old.lanes else [],
            mark.transactions,
        )
        for lane, mark in lanes.items()
    }
    return msgspec.structs.replace(
        old,
        segments=[*old.segments, *entries],
        end=end,
        end_id=tuple(end_id),
        lanes={**old.lanes, **merged},
    )


def raise_starts(old: Manifest, starts: dict[int, int]) -> Manifest:
    """Retention: move lane starts up and drop the segments that lie wholly below them."""
    lanes = dict(old.lanes)
    for lane, start in starts.items():
        mark = lanes.get(lane)
        if mark is not None and start > mark.start:
            start = min(start, mark.next)
            known = mark.transactions and mark.transactions.since(start)
            lanes[lane] = msgspec.structs.replace(mark, start=start, transactions=known)
    kept: list[SegmentEntry] = []
    gone: list[SegmentEntry] = []
    for entry in old.segments:
        alive = any(
            span.lane not in lanes or span.last >= lanes[span.lane].start for span in entry.spans()
        )
        (kept if alive else gone).append(entry)
    generation = old.generation + 1
    return msgspec.structs.replace(
        old,
        lanes=lanes,
        segments=kept,
        dropped=[*old.dropped, *(Dropped(entry.name, generation) for entry in gone)],
    )


def forget_lanes(old: Manifest, lanes: Iterable[int]) -> Manifest:
    """Remove lanes that have ended, unless a segment still lists them."""
    gone = set(lanes) - {span.lane for entry in old.segments for span in entry.spans()}
    kept = {
        lane: mark for lane, mark in old.lanes.items() if lane not in gone or mark.start < mark.next
    }
    return msgspec.structs.replace(old, lanes=kept)


class Replacement(msgspec.Struct, frozen=True):
    """Neighbouring segments, and the segments that hold their positions from now on."""

    inputs: tuple[SegmentEntry, ...]
    outputs: tuple[SegmentEntry, ...]


def replaces(old: Manifest, wanted: Replacement) -> bool:
    """Whether this generation still lists the inputs, side by side and as they were."""
    names = [entry.name for entry in old.segments]
    try:
        at = names.index(wanted.inputs[0].name)
    except ValueError:
        return False
    return tuple(old.segments[at : at + len(wanted.inputs)]) == wanted.inputs


def replace(old: Manifest, wanted: Sequence[Replacement]) -> Manifest:
    """Compaction: list the outputs in the place of their inputs, all of which `replaces` found."""
    places = {replacement.inputs[0].name: replacement.outputs for replacement in wanted}
    gone = {entry.name for replacement in wanted for entry in replacement.inputs}
    kept: list[SegmentEntry] = []
    for entry in old.segments:
        if entry.name in gone:
            kept += places.get(entry.name, ())
        else:
            kept.append(entry)
    return drop(
        msgspec.structs.replace(old, segments=kept),
        [Dropped(name, old.generation + 1) for name in sorted(gone)],
    )


def drop(old: Manifest, condemned: Iterable[Dropped]) -> Manifest:
    """Put objects on the dropped list; this generation must not name them."""
    return msgspec.structs.replace(old, dropped=[*old.dropped, *condemned])


def forget_dropped(old: Manifest, deleted: Iterable[str]) -> Manifest:
    """Remove objects from the dropped list that the store no longer has."""
    gone = set(deleted)
    return msgspec.structs.replace(
        old, dropped=[entry for entry in old.dropped if entry.name not in gone]
    )
