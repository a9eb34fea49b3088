"""What commands print: columns for people and pipes, progress for people only."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from kafscale.model.printable import printable


def print_columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns, numbers to the right; never wrapped, so that grep and cut work."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    right = [
        bool(rows) and all(isinstance(row[column], int) or row[column] is None for row in rows)
        for column in range(len(headings))
    ]
    for line in ([*headings], *cells):
        fields = (
            text.rjust(width) if to_the_right else text.ljust(width)
            for text, width, to_the_right in zip(line, widths, right, strict=True)
        )
        print("  ".join(fields).rstrip())


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else printable(str(value))


def print_line(text: str) -> None:
    """Print a line that may hold names which others chose."""
    print(printable(text))


def print_json(value: object) -> None:
    """Print one value as one line of JSON."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


ShowProgress = Callable[[int], None]  # is called with how much is done


@contextmanager
def counting(what: str, total: int | None, shown: bool) -> Iterator[ShowProgress]:
    """Show a line on stderr while records pass by, if stderr is a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), escape(printable(what)), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
