"""Figures of a run, one row per nemesis. Pure.

Next door: judging (checker.py). A record belongs to the faults that went on, or had ended less
than `AFTER_S` ago, when it was sent; what belongs to none belongs to "peace".
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.faults.checker import Finding
from tests.faults.history import NOTHING, OK, Fault, History
from tests.faults.places import KIND_OF

AFTER_S = 2.0
PEACE = "peace"
COLUMNS = ("nemesis", "times", "acknowledged", "read", "lost", "duplicates", "longest silence")


@dataclass(slots=True)
class Row:
    """One nemesis. Silence: the longest time a partition went without an acknowledgement."""

    nemesis: str
    times: int = 0
    acknowledged: int = 0
    read: int = 0
    lost: int = 0
    duplicates: int = 0
    silence_s: float = 0.0

    def cells(self) -> list[str]:
        counts = (self.times, self.acknowledged, self.read, self.lost, self.duplicates)
        return [self.nemesis, *map(str, counts), f"{self.silence_s:.1f} s"]


def rows(history: History, findings: Sequence[Finding]) -> list[Row]:
    """In the order the faults first came by, peace first."""
    times = Counter(fault.name for fault in history.faults)
    found = {name: Row(name, count) for name, count in {PEACE: 0, **times}.items()}
    reads = Counter(poll.value for poll in history.polls)
    lost = {one.send.value for one in findings if one.kind == "lost" and one.send}
    doubled = {one.send.value for one in findings if one.kind == "duplicate" and one.send}
    for send in history.sends:
        for name in _names(history.faults, send.begun_s, send.begun_s):
            row = found[name]
            row.acknowledged += send.outcome == OK
            row.read += reads[send.value] > 0
            row.lost += send.value in lost
            row.duplicates += send.value in doubled
    for begun_s, ended_s in _silences(history):
        for name in _names(history.faults, begun_s, ended_s):
            found[name].silence_s = max(found[name].silence_s, ended_s - begun_s)
    return list(found.values())


def _names(faults: Iterable[Fault], begun_s: float, ended_s: float) -> set[str]:
    """Which faults a stretch of time belongs to."""
    during = {
        fault.name
        for fault in faults
        if fault.begun_s <= ended_s and begun_s <= fault.ended_s + AFTER_S
    }
    return during or {PEACE}


def _silences(history: History) -> list[tuple[float, float]]:
    """From one acknowledgement of a partition to the next."""
    ends: dict[int, list[float]] = defaultdict(list)
    for send in history.sends:
        if send.outcome == OK:
            ends[send.partition].append(send.ended_s)
    return [pair for answered in ends.values() for pair in pairwise(sorted(answered))]


def table(found: Sequence[Row]) -> str:
    cells = [list(COLUMNS), *(row.cells() for row in found)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = []
    for line in cells:
        first, *rest = zip(line, widths, strict=True)
        parts = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
        lines.append("| " + " | ".join(parts) + " |")
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def by_kind(history: History) -> str:
    """How many records each kind of topic took, and how many others came and went meanwhile."""
    counted = Counter(KIND_OF[send.partition] for send in history.acknowledged())
    said = ", ".join(f"{kind} {counted[kind]}" for kind in dict.fromkeys(KIND_OF))
    empty = sum(one.value == NOTHING for one in history.found)
    return (
        f"acknowledged by topics that began as: {said}; {history.moves} moves asked for, "
        f"{empty} moves of partitions; {history.lives} neighbours created, used and deleted"
    )


def summary(findings: Sequence[Finding]) -> str:
    """How many of each kind, and the first few."""
    if not findings:
        return "every promise was kept"
    counted = Counter(finding.kind for finding in findings)
    lines = [", ".join(f"{count} x {kind}" for kind, count in counted.most_common())]
    for kind in counted:
        of_kind = [finding for finding in findings if finding.kind == kind]
        lines += [f"  {kind}: {finding.text}" for finding in of_kind[:5]]
    return "\n".join(lines)
