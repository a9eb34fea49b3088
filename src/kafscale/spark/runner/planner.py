"""What is due, in which order, and which runner does it: pure functions.

Here: from the topics of a bucket to work that comes again and again; from what was done before to
what is due now. Time is an argument. Next door: the shell that looks, starts and waits (runner.py).

Work that keeps a promise (exports, by `table.freshness.ms`) goes before work that has no deadline
(compaction, retention, table upkeep, audits). Among exports the higher `table.priority` goes first,
then the one whose promise breaks first. Work that failed waits longer each time, and never holds up
other topics.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings

EXPORT: Final = "export"
COMPACT: Final = "compact"
COMPACT_BY_KEY: Final = "compact-by-key"
RETAIN: Final = "retain"
TABLE_UPKEEP: Final = "table-upkeep"
AUDIT: Final = "audit"
KINDS: Final = (EXPORT, COMPACT, COMPACT_BY_KEY, RETAIN, TABLE_UPKEEP, AUDIT)

SHARED: Final = "@shared"  # the subject of work on logs that topics share

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_LONGEST_PAUSE_MS: Final = _HOUR_MS  # after failures


@dataclass(frozen=True)
class Rhythm:
    """How often work without a deadline comes again, in milliseconds; 0: never."""

    every_ms: Mapping[str, int] = field(
        default_factory=lambda: {
            COMPACT: 6 * _HOUR_MS,
            COMPACT_BY_KEY: _HOUR_MS,
            RETAIN: _HOUR_MS,
            TABLE_UPKEEP: _HOUR_MS,
            AUDIT: 24 * _HOUR_MS,
        }
    )


class PlannedWork(NamedTuple):
    """Work that comes again and again."""

    kind: str
    subject: str  # a topic, a group of tables, or the shared logs
    topics: tuple[str, ...]
    every_ms: int  # of an export: the promised freshness
    priority: int = 0

    @property
    def key(self) -> "WorkKey":
        """By which its past is known."""
        return self.kind, self.subject


WorkKey = tuple[str, str]


class Past(NamedTuple):
    """What is known of earlier runs of some work."""

    covered_ms: int  # everything before this moment was taken care of
    tried_ms: int = 0  # when it was begun last
    took_ms: int = 0  # how long the last success took
    failures: int = 0  # since the last success


class DueWork(NamedTuple):
    """Work that should begin now."""

    work: PlannedWork
    deadline_ms: int  # when its promise breaks


def works_of(topics: Sequence[TopicDescriptor], rhythm: Rhythm) -> list[PlannedWork]:
    """Everything that the topics of a bucket ask for."""
    works = _exports(topics)
    shared = tuple(topic.name for topic in topics if topic.layout == "shared")
    subjects: list[tuple[str, tuple[str, ...], bool]] = [
        (topic.name, (topic.name,), TopicSettings.of(topic.configs, TopicDefaults()).compacted)
        for topic in topics
        if topic.layout != "shared"
    ]
    if shared:
        compacted = any(
            TopicSettings.of(topic.configs, TopicDefaults()).compacted
            for topic in topics
            if topic.layout == "shared"
        )
        subjects.append((SHARED, shared, compacted))
    for name, members, is_compacted in subjects:
        kinds = [COMPACT, RETAIN, AUDIT]
        if is_compacted:
            kinds.append(COMPACT_BY_KEY)
        works += [
            PlannedWork(kind, name, members, every_ms)
            for kind in kinds
            if (every_ms := rhythm.every_ms.get(kind, 0))
        ]
    if every_ms := rhythm.every_ms.get(TABLE_UPKEEP, 0):
        works += [
            PlannedWork(TABLE_UPKEEP, topic.name, (topic.name,), every_ms)
            for topic in topics
            if topic.table is not None
        ]
    return works


def _exports(topics: Iterable[TopicDescriptor]) -> list[PlannedWork]:
    """One export per table; tables of a group are exported together."""
    alone: list[PlannedWork] = []
    groups: dict[str, list[TopicDescriptor]] = {}
    for topic in topics:
        table = topic.table
        if table is None:
            continue
        if table.group:
            groups.setdefault(table.group, []).append(topic)
        else:
            alone.append(
                PlannedWork(EXPORT, topic.name, (topic.name,), table.freshness_ms, table.priority)
            )
    together = []
    for name, members in groups.items():
        tables = [table for topic in members if (table := topic.table) is not None]
        together.append(
            PlannedWork(
                EXPORT,
                f"@{name}",
                tuple(sorted(topic.name for topic in members)),
                min(table.freshness_ms for table in tables),
                max(table.priority for table in tables),
            )
        )
    return alone + together


def due_work(
    works: Iterable[PlannedWork],
    past: Mapping[WorkKey, Past],
    running: Set[WorkKey],
    now_ms: int,
    since_ms: int = 0,
) -> list[DueWork]:
    """What should begin now, the most urgent first. `since_ms`: when this runner began."""
    found = [
        DueWork(work, deadline_of(work, past, since_ms))
        for work in works
        if work.key not in running and begin_of(work, past, since_ms) <= now_ms
    ]
    return sorted(found, key=_urgency)


def next_begin_ms(
    works: Iterable[PlannedWork],
    past: Mapping[WorkKey, Past],
    running: Set[WorkKey],
    since_ms: int = 0,
) -> int | None:
    """When work begins next; None: there is none."""
    begins = [begin_of(work, past, since_ms) for work in works if work.key not in running]
    return min(begins, default=None)


def _urgency(due: DueWork) -> tuple[int, int, int, str]:
    work = due.work
    return work.kind != EXPORT, -work.priority, due.deadline_ms, work.subject


def deadline_of(work: PlannedWork, past: Mapping[WorkKey, Past], since_ms: int) -> int:
    """When the promise breaks: records may be so old that are no rows."""
    return _past_of(work, past, since_ms).covered_ms + work.every_ms


def begin_of(work: PlannedWork, past: Mapping[WorkKey, Past], since_ms: int) -> int:
    """When to begin, so that the promise is kept and each run has as much to do as possible."""
    known = _past_of(work, past, since_ms)
    if known.failures:
        return known.tried_ms + pause_ms(work, known.failures)
    if work.kind != EXPORT:
        return known.covered_ms + work.every_ms
    # A quarter to spare, and twice what the last run took: the next may find more to do.
    lead_ms = max(work.every_ms // 4, 2 * known.took_ms)
    return known.covered_ms + max(work.every_ms - lead_ms, work.every_ms // 10)


def pause_ms(work: PlannedWork, failures: int) -> int:
    """How long to wait after so many failures in a row."""
    first_ms = min(work.every_ms, _MINUTE_MS)
    return int(min(first_ms * 2 ** min(failures - 1, 12), _LONGEST_PAUSE_MS))


def _past_of(work: PlannedWork, past: Mapping[WorkKey, Past], since_ms: int) -> Past:
    """What is known of it. Exports never done are due at once; other work is spread out."""
    known = past.get(work.key)
    if known is not None:
        return known
    if work.kind == EXPORT:
        return Past(since_ms - work.every_ms)
    share = _hash(work.kind, work.subject) / (1 << 64)
    return Past(since_ms - int(work.every_ms * share))


def mine(works: Iterable[PlannedWork], runner: str, runners: Sequence[str]) -> list[PlannedWork]:
    """The share of one runner: each subject belongs to one runner of those alive.

    When a runner comes or goes, only its own share moves. Two runners that disagree for a while
    about who is alive do some work twice; the tables and logs take it once.
    """
    others = [name for name in runners if name != runner]
    return [work for work in works if _is_owner(work.subject, runner, others)]


def _is_owner(subject: str, runner: str, others: Sequence[str]) -> bool:
    own = _hash(runner, subject), runner
    return all((_hash(other, subject), other) < own for other in others)


def _hash(*parts: str) -> int:
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")
