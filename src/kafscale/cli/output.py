"""What commands print: columns for people and pipes, progress for people alone."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec


def print_columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns, numbers to the right; never wrapped, so that grep and cut work."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    right = [
        bool(rows) and all(isinstance(row[at], int) or row[at] is None for row in rows)
        for at in range(len(headings))
    ]
    for line in ([*headings], *cells):
        fields = (
            text.rjust(width) if to_the_right else text.ljust(width)
            for text, width, to_the_right in zip(line, widths, right, strict=True)
        )
        print("  ".join(fields).rstrip())


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def print_json(value: object) -> None:
    """Print one value as one line of JSON."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def human_bytes(size: int) -> str:
    """Write a size with at most three digits and a binary unit."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 999.5 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.95 else f"{amount:.3g} {unit}"


class Counter(Protocol):
    """Told how far a long command has come."""

    def __call__(self, done: int) -> None:
        """Say how much is done now."""
        ...


@contextmanager
def counting(what: str, total: int | None, shown: bool) -> Iterator[Counter]:
    """Show a line on stderr while records pass by, if somebody is there to see it."""
    if not (shown and sys.stderr.isatty()):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), what, MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
