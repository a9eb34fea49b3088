"""Medians, spreads, ratios, one table.

Next door: where the figures come from (workloads.py).
Never here: brokers, clients, measuring.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.workloads import Figure

OURS, THEIRS = "kafscale", "apache-kafka"
COLUMNS = (
    *("workload", "unit", "ours", "Kafka", "ratio"),
    *("spread ours", "Kafka"),
    *("CPU-s/GB ours", "Kafka", "ratio", "spread ours", "bare"),
    *("peak MB ours", "Kafka", "client CPU ours", "Kafka"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One workload: medians and spreads of both brokers, None where one did not run."""

    workload: str
    unit: str
    ours: Figure | None
    theirs: Figure | None
    our_spread: str
    their_spread: str
    our_cpu_spread: str


def rows(runs: Sequence[tuple[str, Figure]]) -> list[Row]:
    """In the order the workloads first came by."""
    found = {}
    for workload, unit in dict.fromkeys((f.workload, f.unit) for _, f in runs):
        of = {
            label: [f for who, f in runs if who == label and f.workload == workload]
            for label in (OURS, THEIRS)
        }
        found[workload] = Row(
            workload,
            unit,
            median(of[OURS]),
            median(of[THEIRS]),
            spread((f.value for f in of[OURS]), form_of(unit)),
            spread((f.value for f in of[THEIRS]), form_of(unit)),
            spread((f.cpu_s_per_gb for f in of[OURS]), ".2f"),
        )
    return list(found.values())


def median(figures: Sequence[Figure]) -> Figure | None:
    if not figures:
        return None
    return Figure(
        figures[0].workload,
        figures[0].unit,
        statistics.median(f.value for f in figures),
        _median(f.cpu_s_per_gb for f in figures),
        _median(f.peak_rss_mb for f in figures),
        _median(f.client_cpu_share for f in figures),
        _median(f.limit_cpu_s_per_gb for f in figures),
    )


def spread(numbers: Iterable[float | None], form: str) -> str:
    """The least and the most of several runs; nothing for one."""
    known = sorted(number for number in numbers if number is not None)
    return f"{known[0]:{form}}-{known[-1]:{form}}" if len(known) > 1 else "-"


def form_of(unit: str) -> str:
    """How values of a unit are printed."""
    return ".2f" if unit in ("ms", "s") else ".0f"


def table(found: Sequence[Row]) -> str:
    """Markdown that also reads well as plain text."""
    cells = [list(COLUMNS), *map(_cells, found)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    lines = [_line(cells[0], widths), "|" + "|".join("-" * (w + 2) for w in widths) + "|"]
    return "\n".join([*lines, *(_line(line, widths) for line in cells[1:])])


def _cells(row: Row) -> list[str]:
    def both(name: str, form: str, ratio: bool = True) -> list[str]:
        ours = getattr(row.ours, name) if row.ours else None
        theirs = getattr(row.theirs, name) if row.theirs else None
        shown = ["-" if number is None else format(number, form) for number in (ours, theirs)]
        if not ratio:
            return shown
        return [*shown, f"{ours / theirs:.2f}" if ours is not None and theirs else "-"]

    return [
        row.workload,
        row.unit,
        *both("value", form_of(row.unit)),
        row.our_spread,
        row.their_spread,
        *both("cpu_s_per_gb", ".2f"),
        row.our_cpu_spread,
        both("limit_cpu_s_per_gb", ".2f", ratio=False)[0],
        *both("peak_rss_mb", ".0f", ratio=False),
        *both("client_cpu_share", ".0%", ratio=False),
    ]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    aligned = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
    return "| " + " | ".join(aligned) + " |"


def _median(numbers: Iterable[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return statistics.median(known) if known else None
