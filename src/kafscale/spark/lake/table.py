"""What the kinds of tables have in common.

Here: the port. A table says how far it is. One commit of its own adds files and moves its progress;
a second export that comes with the same records is refused.
Next door: the kinds (parquet.py, delta.py, iceberg.py), the choice of one (tables.py), making files
(writer.py).

Progress is kept under names such as `{topic id}/{partition}`: a topic that was deleted and
created again has another id and begins at the start.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from kafscale.log.protocol.commits import LostRace
from kafscale.model.errors import InvalidRequest
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.writer import DataFile

KINDS: Final = ("parquet", "delta", "iceberg")
BUCKET_CATALOG: Final = "bucket"  # of Iceberg: no catalog but the table's own folder
DEAD_LETTERS: Final = "_dead_letters"
CUT: Final = "kafscale.cut"  # in a commit's own words: the moment that a group's tables share
ATTEMPTS: Final = 20  # of a change that other writers of the same table may disturb


class TableFile(NamedTuple):
    """A file that is part of a table now."""

    path: str  # below the table's place
    size: int
    rows: int
    partition: str | None = None  # 2026-11-15, 2026-11-15-23
    newest_us: int | None = None  # the latest _timestamp in it, if that is known
    oldest_us: int | None = None  # and the earliest


class TableState(NamedTuple):
    """A table at one moment: its files and its progress belong together."""

    files: list[TableFile]
    progress: dict[str, int]
    version: str  # the table's own name for this moment


class TableChange(NamedTuple):
    """What a commit does besides adding files."""

    removed: tuple[str, ...] = ()  # files that are no longer part of the table
    same_rows: bool = False  # the same rows in other files
    cut: str = ""  # the moment that tables of a group have in common


NO_CHANGE: Final = TableChange()


class Table(Protocol):
    """A table that keeps its own progress."""

    folder: str  # where files go, below the place
    partition_by: str  # day, hour or none; known once prepared

    @property
    def place(self) -> TableFolder:
        """The folder it lies in."""
        ...

    def prepare(self, columns: pa.Schema, partition_by: str | None) -> None:
        """Create the table, or add the columns it lacks. None: as it is, a new one by day."""
        ...

    def columns(self) -> pa.Schema | None:
        """Its columns; None where there is no table."""
        ...

    def progress(self, names: Iterable[str]) -> dict[str, int]:
        """How far it is, for those of the names it knows; an absent table knows none."""
        ...

    def state(self, names: Iterable[str]) -> TableState | None:
        """Its files, and how far it is for those of the names it knows; None: no table."""
        ...

    def commit(
        self,
        files: Sequence[DataFile],
        before: Mapping[str, int],
        after: Mapping[str, int],
        change: TableChange = NO_CHANGE,
    ) -> str:
        """Take the files if the table is still where `before` says (0: knows nothing of it).

        Raises LostRace otherwise, or if a file that is to go is gone; then nothing has changed.
        Gives the table's own name for the version that this makes.
        """
        ...

    def expire(self, kept_ms: int) -> int:
        """Forget versions older than that, and delete what only they had; gives files deleted."""
        ...

    def has_round(self, name: str) -> bool:
        """Whether files of a round were ever committed; asked of rounds that died long ago."""
        ...

    def dead_letters(self) -> "Table":
        """The table beside this one for what could not be read."""
        ...


def repeat(attempt: Callable[[], bool], title: str) -> None:
    """Repeat an attempt until it says that the table is as it should be; LostRace at last."""
    for _ in range(ATTEMPTS):
        if attempt():
            return
    raise LostRace(f"{title} is being changed by too many others")


def check_progress(progress: Mapping[str, int], before: Mapping[str, int]) -> None:
    """Raise LostRace unless the table is where its exporter believes."""
    for name, offset in before.items():
        if progress.get(name, 0) != offset:
            raise LostRace(f"{name} is at {progress.get(name, 0)} in the table, not at {offset}")


def check_present(title: str, removed: Iterable[str], present: Iterable[str]) -> None:
    """Raise LostRace unless all files that are to go are part of the table."""
    if gone := set(removed) - set(present):
        raise LostRace(f"{title}: {min(gone)} is no longer part of the table")


def agreed_partitioning(there: str, wanted: str | None) -> str:
    """A table's partitioning is chosen once."""
    if wanted is not None and wanted != there:
        raise InvalidRequest(f"the table is partitioned by {there}, not by {wanted}")
    return there
