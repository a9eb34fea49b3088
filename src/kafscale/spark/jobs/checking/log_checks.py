"""A log as a whole: what its objects say about each other, and its manifest about them.

Here: findings that need no segment to be opened, and the chain of predecessors. Next door: single
objects (checks.py).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from kafscale.log.formats import keys
from kafscale.log.formats.manifest import LaneMark
from kafscale.log.formats.segment import ContentId, Span
from kafscale.log.protocol.survey import LogSurvey
from kafscale.spark.jobs.checking.checks import Checked
from kafscale.spark.jobs.checking.contents import AuditFinding

# What survey says of things that need not be wrong: a flush may appear while one looks.
_HARMLESS: Final = ("not reached by the chain", "gone since it was listed")


def check_log(view: LogSurvey, sizes: Mapping[str, int]) -> Iterator[AuditFinding]:
    """The manifest against the listing, neighbours and lanes against each other."""
    for text in view.problems:
        key, _, words = text.partition(": ")
        harmless = any(phrase in text for phrase in _HARMLESS)
        yield AuditFinding(key, "tail", "warning" if harmless else "error", words)
    yield from _check_listing(view, sizes)
    yield from _check_positions(view)
    yield from _check_lanes(view)
    leftovers = [row for row in view.leftovers if keys.parse_pin(row.key) is None]
    if leftovers:
        size = sum(row.size for row in leftovers)
        text = f"{len(leftovers)} replaced objects ({size} bytes) wait to be deleted"
        yield AuditFinding(view.folder, "leftovers", "info", text)


def _check_listing(view: LogSurvey, sizes: Mapping[str, int]) -> Iterator[AuditFinding]:
    for piece in view.pieces:
        if piece.key not in sizes:
            yield AuditFinding(
                piece.key, "missing", "error", "the manifest names it, it is not there"
            )
        elif sizes[piece.key] != piece.size:
            text = f"{sizes[piece.key]} bytes, the manifest says {piece.size}"
            yield AuditFinding(piece.key, "size", "error", text)
    named = view.manifest.names()
    for row in view.manifest.dropped:
        if row.name in named:
            yield AuditFinding(
                f"{view.folder}/{row.name}", "manifest", "error", "named and dropped"
            )


def _check_positions(view: LogSurvey) -> Iterator[AuditFinding]:
    for before, after in pairwise(view.pieces):
        if after.base < before.end:
            text = f"begins at {after.base}, the one before ends at {before.end}"
            yield AuditFinding(after.key, "overlap", "error", text)
    past = view.manifest
    if past.segments and past.segments[-1].end > past.end:
        text = f"manifest {past.generation} ends at {past.end}, before its last segment"
        yield AuditFinding(view.folder, "manifest", "error", text)


def _check_lanes(view: LogSurvey) -> Iterator[AuditFinding]:
    """From its log start on a lane has every offset, up to where the manifest says it ends."""
    past = view.manifest
    # A lane that was only looked at is one that begins in the tail, at any offset.
    marks = {number: mark for number, mark in past.lanes.items() if mark != LaneMark(0, 0)}
    lanes: dict[int, list[tuple[str, Span]]] = {}
    for piece in view.pieces:
        for span in piece.spans:
            mark = marks.get(span.lane)
            if mark is None or span.last >= mark.start:
                lanes.setdefault(span.lane, []).append((piece.key, span))
    for number, mark in marks.items():
        if not 0 <= mark.start <= mark.next:
            text = f"lane {number} starts at {mark.start}, beyond its end {mark.next}"
            yield AuditFinding(view.folder, "manifest", "error", text)
        first = lanes[number][0] if number in lanes else None
        if first is None and mark.start < mark.next:
            text = f"lane {number} has no segment for offsets {mark.start} to {mark.next - 1}"
            yield AuditFinding(view.folder, "gap", "error", text)
        elif first is not None and first[1].first > mark.start:
            text = f"lane {number} begins at offset {first[1].first}, its log start is {mark.start}"
            yield AuditFinding(first[0], "gap", "error", text)
    for number, rows in lanes.items():
        for (_, before), (key, after) in pairwise(rows):
            if after.first != before.last + 1:
                text = f"lane {number} goes on at {after.first}, after {before.last}"
                yield AuditFinding(key, "gap", "error", text)
        mark = marks.get(number)
        # If nothing of the past is left, the tail begins where it ended.
        ends = {span.last + 1 for _, span in rows} | {rows[0][1].first}
        if mark is not None and mark.next not in ends:
            text = (
                f"lane {number} does not end at {mark.next}, where manifest {past.generation} does"
            )
            yield AuditFinding(view.folder, "manifest", "error", text)


def check_chain(view: LogSurvey, checked: Mapping[str, Checked]) -> Iterator[AuditFinding]:
    """Each flush names the one before it, where its format has room for that (rule 5)."""
    before = ContentId._make(view.manifest.end_id)
    for piece in view.pieces:
        if piece.kind != "flush":
            continue
        result = checked.get(piece.key)
        named = result.predecessor if result is not None else None
        if named is not None and named != before:
            text = "was not written after the segment that precedes it"
            yield AuditFinding(piece.key, "chain", "error", text)
        before = piece.content_id
