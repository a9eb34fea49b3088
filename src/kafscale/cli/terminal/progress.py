"""A progress bar on stderr for a long job; nothing where stderr is no terminal."""

import sys

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class ProgressLine:
    """A bar with rate and remaining time, one at a time."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._what = ""

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def update(self, what: str, done: int, total: int, unit: str) -> None:
        """Tell that `done` of `total` is done; another `what` begins another bar."""
        if not self._shown:
            return
        if self._bar is None or what != self._what:
            self._end()
            columns = (
                (DownloadColumn(), TransferSpeedColumn())
                if unit == "B"
                else (MofNCompleteColumn(),)
            )
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                *columns,
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task(what, total=total)
            self._what = what
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=total)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
