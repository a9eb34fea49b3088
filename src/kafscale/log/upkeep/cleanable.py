"""When a log is due for key compaction, and which part of it: by its manifest and its settings.

Here: pure rules, for the owner of a log and for the pipeline alike, and the marks that a finished
compaction leaves in the manifest (decision 17).
Next door: the owner's compaction (compaction.py), the pipeline's (spark/jobs/compaction), which
records survive (records/compacted.py).

Never due: the tail, and segments with records younger than min.compaction.lag.ms. A tombstone goes
delete.retention.ms after the first complete compaction that covered it: by then every older record
of its key has gone, and readers of the log had that long to see it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple

import msgspec

from kafscale.log.formats.manifest import LaneMark, Manifest, SegmentEntry
from kafscale.log.formats.segment import Span
from kafscale.model.topics import TopicSettings

_MARKS: Final = 16  # compactions remembered within delete.retention.ms


class CompactedLanes(NamedTuple):
    """The lanes of a log that belong to one topic with cleanup.policy=compact."""

    settings: TopicSettings
    lanes: Sequence[int]


class Cleanable(NamedTuple):
    """The part of a log that is due."""

    reach: Mapping[int, int]  # the lanes it is about, and before which offset
    scope: tuple[SegmentEntry, ...]  # what may be rewritten
    dirty: tuple[SegmentEntry, ...]  # what keys are learnt from
    dirty_bytes: int
    retention_ms: Mapping[int, int]  # how long tombstones are kept, by lane
    is_overdue: bool  # a record is older than max.compaction.lag.ms


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """What a broker may spend on key compaction."""

    log_bytes: int  # a log with more to rewrite is left to the pipeline; 0: every log is
    memory_bytes: int  # half of it for keys, half for objects
    cpu_share: float  # of one core


def find_cleanable(
    past: Manifest,
    topics: Iterable[CompactedLanes],
    now_ms: int,
    dirty_ratio: float | None = None,
    *,
    only_new: bool = False,
) -> Cleanable | None:
    """Which part of a log is due, if any is; in a log that topics share, by topic.

    `dirty_ratio` counts instead of min.cleanable.dirty.ratio. With a ratio of 0, a log is also due
    because some of its tombstones may go; `only_new`: no, only if something of it is new.
    """
    spans: dict[int, list[Span]] = {}
    for entry in past.segments:
        for span in entry.spans():
            spans.setdefault(span.lane, []).append(span)
    reach: dict[int, int] = {}
    retention_ms: dict[int, int] = {}
    is_overdue = False
    for settings, lanes in topics:
        old_enough = {lane: _old_enough(settings, spans.get(lane, []), now_ms) for lane in lanes}
        late = _is_overdue(settings, past, old_enough, now_ms)
        ratio = settings.min_cleanable_dirty_ratio if dirty_ratio is None else dirty_ratio
        aged = ratio == 0 and not only_new and _has_aged(settings, past, lanes, now_ms)
        if late or aged or _is_dirtier(past, old_enough, ratio):
            reach |= {lane: rows[-1].last + 1 for lane, rows in old_enough.items() if rows}
            retention_ms |= dict.fromkeys(lanes, settings.delete_retention_ms)
            is_overdue = is_overdue or late
    scope = [
        entry for entry in past.segments if any(is_within(span, reach) for span in entry.spans())
    ]
    if not scope:
        return None
    dirty = [entry for entry in scope if any(_dirty_spans(entry, past, reach))]
    size = sum(span.length for entry in dirty for span in _dirty_spans(entry, past, reach))
    return Cleanable(reach, tuple(scope), tuple(dirty), size, retention_ms, is_overdue)


def is_too_large(part: Cleanable, limits: CompactionLimits) -> bool:
    """Whether what is due of a log is for the pipeline."""
    largest = max(entry.size for entry in part.scope)
    return (
        sum(entry.size for entry in part.scope) > limits.log_bytes
        or largest > limits.memory_bytes // 2
    )


def is_within(span: Span, reach: Mapping[int, int]) -> bool:
    """Whether a lane's part of an object is what the compaction is about."""
    return span.last < reach.get(span.lane, 0)


def _old_enough(settings: TopicSettings, spans: Sequence[Span], now_ms: int) -> list[Span]:
    """A lane's spans up to the first with a record younger than min.compaction.lag.ms."""
    lag_ms = settings.min_compaction_lag_ms
    if not lag_ms:
        return list(spans)
    return list(takewhile(lambda span: span.max_timestamp_ms <= now_ms - lag_ms, spans))


def _is_overdue(
    settings: TopicSettings, past: Manifest, lanes: Mapping[int, Sequence[Span]], now_ms: int
) -> bool:
    """Whether a record that no compaction has looked at is older than max.compaction.lag.ms."""
    before_ms = now_ms - settings.max_compaction_lag_ms
    return any(
        span.min_timestamp_ms < before_ms and _is_dirty(span, past)
        for rows in lanes.values()
        for span in rows
    )


def _is_dirtier(past: Manifest, lanes: Mapping[int, Sequence[Span]], ratio: float) -> bool:
    """Whether some of a topic's lanes is new, and that share of their bytes."""
    every = [span for rows in lanes.values() for span in rows]
    dirty = [span for span in every if _is_dirty(span, past)]
    return bool(dirty) and sum(s.length for s in dirty) >= ratio * sum(s.length for s in every)


def _has_aged(settings: TopicSettings, past: Manifest, lanes: Iterable[int], now_ms: int) -> bool:
    """Whether some tombstones of a topic may go."""
    return any(
        _horizon(past.lanes[lane], now_ms, settings.delete_retention_ms)
        for lane in lanes
        if lane in past.lanes
    )


def _is_dirty(span: Span, past: Manifest) -> bool:
    """Whether it has records that no compaction has looked at."""
    return span.last >= clean_to(past.lanes.get(span.lane, LaneMark(0, 0)))


def _dirty_spans(entry: SegmentEntry, past: Manifest, reach: Mapping[int, int]) -> list[Span]:
    return [span for span in entry.spans() if is_within(span, reach) and _is_dirty(span, past)]


def clean_to(mark: LaneMark) -> int:
    """The offset that the last key compaction of a lane reached."""
    return mark.cleaned[-1][0] if mark.cleaned else 0


def horizons(past: Manifest, now_ms: int, retention_ms: Mapping[int, int]) -> dict[int, int]:
    """Per lane: the offset below which tombstones have been kept for long enough."""
    return {
        lane: _horizon(past.lanes[lane], now_ms, kept_ms)
        for lane, kept_ms in retention_ms.items()
        if lane in past.lanes
    }


def _horizon(mark: LaneMark, now_ms: int, retention_ms: int) -> int:
    return max((to for to, at_ms in mark.cleaned if at_ms <= now_ms - retention_ms), default=0)


def group_entries(scope: Sequence[SegmentEntry], target: int) -> list[tuple[SegmentEntry, ...]]:
    """Neighbours that together hold at most `target` bytes: each group becomes one object."""
    groups: list[list[SegmentEntry]] = []
    size = 0
    for entry in scope:
        if not groups or size + entry.size > target or groups[-1][-1].end != entry.base:
            groups.append([])
            size = 0
        groups[-1].append(entry)
        size += entry.size
    return [tuple(group) for group in groups]


# -- the marks of a finished compaction ----------------------------------------------------------


def mark_cleaned(
    old: Manifest, reached: Mapping[int, int], now_ms: int, retention_ms: Mapping[int, int]
) -> Manifest:
    """Write into the manifest how far the lanes are compacted."""
    lanes = dict(old.lanes)
    for lane, to in reached.items():
        if lane in lanes:
            cleaned = marks_with(lanes[lane].cleaned, to, now_ms, retention_ms[lane])
            lanes[lane] = msgspec.structs.replace(lanes[lane], cleaned=cleaned)
    return msgspec.structs.replace(old, lanes=lanes)


def is_marked(newer: Manifest, reached: Mapping[int, int]) -> bool:
    """Whether a manifest says that the lanes are compacted that far."""
    return all(
        lane not in newer.lanes or clean_to(newer.lanes[lane]) >= to for lane, to in reached.items()
    )


def marks_with(
    marks: Sequence[tuple[int, int]], to: int, now_ms: int, retention_ms: int
) -> list[tuple[int, int]]:
    """Add a mark: keep the highest that is old enough, and of the younger ones some.

    It is always safe to leave a mark out: tombstones then wait for a later one.
    """
    if marks and to <= marks[-1][0]:
        return list(marks)
    aged = [mark for mark in marks if mark[1] <= now_ms - retention_ms]
    young = [mark for mark in marks if mark[1] > now_ms - retention_ms]
    if len(young) > 1 and young[-1][1] - young[-2][1] < retention_ms // _MARKS:
        young.pop()
    return [*aged[-1:], *young, (to, now_ms)]
