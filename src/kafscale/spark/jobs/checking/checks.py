"""One segment against everything it claims: format, checksums, offsets, times, records, index.

Here: findings about one object, from bytes read through a window. Next door: which objects
(jobs/audit.py), what they say about each other (log_checks.py), the batches in them (contents.py).
Never here: changing anything.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c

from kafscale.log.formats import index, keys, segment
from kafscale.log.formats.index import Index
from kafscale.log.formats.segment import ContentId, Span
from kafscale.model.errors import CorruptObject
from kafscale.spark.jobs.checking.contents import AuditFinding, LaneContents
from kafscale.spark.kernels import scan
from kafscale.spark.kernels.arrays import LongArray
from kafscale.spark.kernels.positions import PositionFinder

Read = Callable[[int, int], memoryview]  # of the object: from where, how much

WINDOW_BYTES: Final = 4 << 20
_LARGEST_BATCH: Final = 512 << 20
_FOOT: Final = 4 << 10


class AuditedObject(NamedTuple):
    """An object and what others say about it."""

    key: str
    size: int  # by the listing
    base: int
    end: int
    content_id: ContentId
    spans: tuple[Span, ...] | None  # by the manifest; None: the object's own word is all there is
    is_flush: bool  # a member of the chain: no offset is missing
    wants_index: bool
    has_index: bool
    interval: int


class Checked(NamedTuple):
    """What was found out about an object."""

    key: str
    records: int
    size: int
    findings: list[AuditFinding]
    predecessor: ContentId | None = None
    rebuilt: Index | None = None  # what the index should be, where it is not and the data is sound


class _Window:
    """An object's bytes, read a few megabytes at a time, some of them again."""

    def __init__(self, read: Read, size: int) -> None:
        self._read = read
        self._size = size
        self._start = 0
        self._data = memoryview(b"")

    def get(self, start: int, length: int, ahead: int = WINDOW_BYTES) -> memoryview:
        """At least `length` bytes, where there are so many."""
        at = start - self._start
        if at < 0 or at + length > len(self._data):
            wanted = min(max(length, ahead), max(0, self._size - start))
            self._data = self._read(start, wanted)
            self._start, at = start, 0
        return self._data[at:]


def check(
    target: AuditedObject, read: Read, read_index: Callable[[], memoryview], finder: PositionFinder
) -> Checked:
    """Read the object once from end to end and compare."""
    window = _Window(read, target.size)
    try:
        outline, predecessor = _outline(target, window)
    except CorruptObject as bad:
        return Checked(
            target.key, 0, target.size, [AuditFinding(target.key, "format", "error", str(bad))]
        )
    findings = list(_claims(target, outline))
    crc = 0
    lanes: list[LaneContents] = []
    at = segment.HEADER.size
    for span in _spans(target, outline):
        if span.start != at:
            text = f"lane {span.lane} begins at byte {span.start}, expected {at}"
            findings.append(AuditFinding(target.key, "lanes", "error", text))
        lane = LaneContents(target.key, span, target.is_flush, finder)
        crc = _read_lane(window, span, lane, crc)
        findings += lane.findings
        lanes.append(lane)
        at = span.start + span.length
    if crc != outline.content_id.crc:
        text = "the checksum over the segment's batches does not match"
        findings.append(AuditFinding(target.key, "segment_crc", "error", text))
    records = sum(lane.records for lane in lanes)
    if records != outline.records:
        text = f"{records} records, its header says {outline.records}"
        findings.append(AuditFinding(target.key, "records", "error", text))
    sound = not any(finding.severity == "error" for finding in findings)
    rebuilt = None
    for finding in _check_index(target, lanes, read_index):
        findings.append(finding)
        rebuilt = _index_of(lanes, target.interval) if sound else None
    return Checked(target.key, records, target.size, findings, predecessor, rebuilt)


def _outline(target: AuditedObject, window: _Window) -> tuple[segment.Outline, ContentId | None]:
    needed = min(_FOOT, target.size)
    while True:
        small = target.size <= WINDOW_BYTES
        head = window.get(0, target.size if small else segment.HEADER.size, ahead=0)
        head = memoryview(bytes(head[: segment.HEADER.size]))
        foot = window.get(target.size - needed, needed, ahead=0)[:needed]
        try:
            outline = segment.outline(head, foot, target.size)
        except segment.ShortFoot as short:
            needed = short.needed
            continue
        return outline, _predecessor(head, foot)


def _predecessor(head: memoryview, foot: memoryview) -> ContentId | None:
    if not segment.HEADER.unpack_from(head)[2] & segment.FLAG_LANES:
        return None
    at = len(foot) - segment.FOOTER.size - segment.LANE_TAIL.size
    return ContentId._make(segment.LANE_TAIL.unpack_from(foot, at)[:3])


def _claims(target: AuditedObject, outline: segment.Outline) -> Iterator[AuditFinding]:
    """What the object says of itself against what its name and its manifest say."""
    named = keys.parse_segment(target.key)
    if named is None or named.base != outline.base:
        yield AuditFinding(target.key, "name", "error", f"says it begins at {outline.base}")
    if (outline.base, outline.end) != (target.base, target.end):
        text = f"holds {outline.base} to {outline.end - 1}, not {target.base} to {target.end - 1}"
        yield AuditFinding(target.key, "manifest", "error", text)
    if outline.content_id != target.content_id:
        text = "not the object that the manifest names: its content id differs"
        yield AuditFinding(target.key, "manifest", "error", text)
    if target.spans is not None and _places(outline.spans) != _places(target.spans):
        yield AuditFinding(
            target.key, "manifest", "error", "its lanes are not those of the manifest"
        )
    if target.spans is None or any(
        span.max_timestamp_ms == segment.ANY_TIME[1] for span in outline.spans
    ):
        return
    if outline.spans != target.spans:
        yield AuditFinding(
            target.key, "timestamps", "error", "its lanes' times are not the manifest's"
        )


def _spans(target: AuditedObject, outline: segment.Outline) -> tuple[Span, ...]:
    """What the lanes should hold: the manifest knows their times, ordinary segments do not."""
    told = target.spans
    return told if told is not None and _places(told) == _places(outline.spans) else outline.spans


def _places(spans: tuple[Span, ...]) -> list[tuple[int, ...]]:
    return [span[:5] for span in spans]


def _read_lane(window: _Window, span: Span, lane: LaneContents, crc: int) -> int:
    """Go through a lane's bytes; gives the checksum of all bytes up to its end."""
    at, end = span.start, span.start + span.length
    wanted = 1
    while at < end:
        data = window.get(at, min(wanted, end - at))[: end - at]
        walked = scan.walk(data, 0, len(data))
        if walked.positions:
            lane.take(data[: walked.stop], at, walked.positions)
        if walked.problem or (not walked.positions and len(data) == end - at):
            lane.lost(at + walked.stop, walked.problem or "a batch that sticks out of its lane")
            return _crc_of_rest(window, at, end, crc)
        if walked.positions:
            crc = crc32c(data[: walked.stop], crc)
            at += walked.stop
            wanted = 1
        elif len(data) >= _LARGEST_BATCH:
            lane.lost(at, "a batch larger than any may be")
            return _crc_of_rest(window, at, end, crc)
        else:
            wanted = 4 * len(data)
    lane.finish()
    return crc


def _crc_of_rest(window: _Window, at: int, end: int, crc: int) -> int:
    while at < end:
        data = window.get(at, 1)[: end - at]
        crc = crc32c(data, crc)
        at += len(data)
    return crc


def _index_of(lanes: list[LaneContents], interval: int) -> Index:
    """The index as it should be."""
    addresses: list[int] = []
    positions: list[int] = []
    for lane in lanes:
        due = lane.span.start
        for position, base in zip(lane.all_positions(), lane.all_bases(), strict=True):
            if position >= due:
                addresses.append(index.address(lane.span.lane, base))
                positions.append(position)
                due = position + interval
    return Index(addresses, positions, interval)


def _check_index(
    target: AuditedObject, lanes: list[LaneContents], read_index: Callable[[], memoryview]
) -> Iterator[AuditFinding]:
    """At most one finding: the index is as it should be, or it is not."""
    key = keys.index_of(target.key)
    if not target.has_index:
        if target.wants_index:
            yield AuditFinding(
                key, "index_missing", "error", "missing, though the manifest names it"
            )
        return
    try:
        positions = index.decode(read_index())
    except CorruptObject as bad:
        yield AuditFinding(key, "index", "error", str(bad))
        return
    places: LongArray = np.array([at for lane in lanes for at in lane.all_positions()], np.int64)
    known = [index.address(lane.span.lane, base) for lane in lanes for base in lane.all_bases()]
    wanted = np.array(positions.positions, np.int64)
    rows = np.searchsorted(places, wanted)
    for row, position, address in zip(
        rows.tolist(), positions.positions, positions.addresses, strict=True
    ):
        if row >= len(known) or places[row] != position or known[row] != address:
            text = f"no batch of offset {index.from_address(address)[1]} at byte {position}"
            yield AuditFinding(key, "index", "error", text)
            return
    if positions != _index_of(lanes, positions.interval):
        yield AuditFinding(key, "index", "warning", "leaves out batches that it should list")
