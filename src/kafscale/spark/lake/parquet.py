"""Parquet files without a table format: a log of commits says which of them count.

Here: `_kafscale_log/{version:020d}.json`, one immutable object per commit, created only if it is
absent, each naming the files it adds and how far the table is; every fiftieth, and each that
removes files, repeats all files.
Also here, for readers: which files count, as paths or as an Arrow dataset.
Next door: tables with a format of their own (delta.py, iceberg.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from kafscale.log.protocol.commits import LostRace
from kafscale.model.errors import CorruptObject, InvalidRequest, ObjectExists
from kafscale.spark.lake import schemas, table
from kafscale.spark.lake.table import DEAD_LETTERS, NO_CHANGE, TableChange, TableFile, TableState
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.writer import DataFile
from kafscale.spark.values import ddl
from kafscale.system import SystemClock, SystemDice

LOG: Final = "_kafscale_log"
WHOLE_EVERY: Final = 50
ATTEMPTS: Final = 100


class TableCommit(msgspec.Struct, frozen=True, kw_only=True):
    """One object of the log."""

    format: int = 1
    version: int
    commit_id: str
    committed_ms: int
    partition_by: str
    columns: str  # as SQL writes them
    next: dict[str, int]  # all progress, not only this commit's
    added: list[DataFile] = []
    whole: list[DataFile] | None = None  # all files up to and with this commit
    cut: str = ""  # the moment that tables of a group have in common


class TableHead(NamedTuple):
    """The newest commit, and what it says about columns."""

    commit: TableCommit
    columns: pa.Schema


class ParquetTable:
    """Bare Parquet files and their log."""

    folder = "data/"

    def __init__(self, place: TableFolder) -> None:
        self.place = place
        self.partition_by = ""
        self._clock = SystemClock()
        self._dice = SystemDice()

    def dead_letters(self) -> "ParquetTable":
        """The table beside this one."""
        return ParquetTable(self.place.beside(DEAD_LETTERS))

    def prepare(self, columns: pa.Schema, partition_by: str | None) -> None:
        """Write a first commit without files, or one that adds columns."""
        while True:
            head = self.head()
            if head is None:
                self.partition_by = partition_by or "day"
                if self._append(None, self.partition_by, columns, {}, []):
                    return
                continue
            commit = head.commit
            self.partition_by = table.agreed_partitioning(commit.partition_by, partition_by)
            missing = schemas.additions(head.columns, columns)
            if not missing:
                return
            grown = pa.schema([*head.columns, *missing])
            if self._append(commit, self.partition_by, grown, dict(commit.next), []):
                return

    def columns(self) -> pa.Schema | None:
        """What the newest commit says."""
        head = self.head()
        return None if head is None else head.columns

    def progress(self, names: Iterable[str]) -> dict[str, int]:
        """What the newest commit says."""
        head = self.head()
        known = {} if head is None else head.commit.next
        return {name: known[name] for name in names if name in known}

    def state(self, names: Iterable[str]) -> TableState | None:
        """Both of one commit; a later one that is written meanwhile is not looked at."""
        versions = self._versions()
        if not versions:
            return None
        known = self._read(versions[-1]).next
        files = [
            TableFile(
                file.path,
                file.size,
                file.rows,
                file.partition,
                file.times_us and file.times_us[1],
                file.times_us and file.times_us[0],
            )
            for file in self._files_of(versions)
        ]
        progress = {name: known[name] for name in names if name in known}
        return TableState(files, progress, str(versions[-1]))

    def commit(
        self,
        files: Sequence[DataFile],
        before: Mapping[str, int],
        after: Mapping[str, int],
        change: TableChange = NO_CHANGE,
    ) -> str:
        """Write the next commit; one that came between is no harm if it was about others."""
        for _ in range(ATTEMPTS):
            head = self.head()
            if head is None:
                raise LostRace(f"{self.place.url} is gone")
            old = head.commit
            table.check_progress(old.next, before)
            progress = {**old.next, **after}
            if self._append(old, old.partition_by, head.columns, progress, files, change):
                return str(old.version + 1)
        raise LostRace(f"{self.place.url} is being written by too many others")

    def expire(self, kept_ms: int) -> int:
        """Delete files that no commit of this time names, and the commits before."""
        versions = self._versions()
        if not versions:
            return 0
        rows = {row.key.rpartition("/")[2]: row for row in self.place.find(LOG)}
        oldest_ms = self.place.now_ms() - kept_ms
        young = [v for v in versions if rows[_name(v).rpartition("/")[2]].modified_ms >= oldest_ms]
        kept = [v for v in versions if v >= min([*young, versions[-1]])]
        wholes = [v for v in versions if v <= kept[0] and self._read(v).whole is not None]
        start = wholes[-1] if wholes else versions[0]
        named = {
            file.path for v in kept for file in self._files_of([w for w in versions if w <= v])
        }
        doomed = [v for v in versions if v < start]
        gone = {file.path for v in doomed for file in self._read(v).added} - named
        self.place.delete(sorted(gone))
        self.place.delete([_name(v) for v in doomed])
        return len(gone)

    def has_round(self, name: str) -> bool:
        """By the files of now."""
        return any(f"part-{name}-" in file.path for file in self.files())

    def head(self) -> TableHead | None:
        """The newest commit, None where there is no table."""
        versions = self._versions()
        if not versions:
            return None
        commit = self._read(versions[-1])
        return TableHead(commit, ddl.parse(commit.columns))

    def files(self) -> list[DataFile]:
        """All files that count, oldest first."""
        return self._files_of(self._versions())

    def _files_of(self, versions: Sequence[int]) -> list[DataFile]:
        """All files that count as of the last of these versions."""
        rounds: list[list[DataFile]] = []
        for version in reversed(versions):
            commit = self._read(version)
            rounds.append(commit.added if commit.whole is None else commit.whole)
            if commit.whole is not None:
                break
        return [file for files in reversed(rounds) for file in files]

    def _versions(self) -> list[int]:
        names = [row.key.rpartition("/")[2] for row in self.place.find(LOG)]
        return sorted(int(name[:-5]) for name in names if name[:-5].isdecimal())

    def _read(self, version: int) -> TableCommit:
        name = _name(version)
        try:
            commit = _DECODER.decode(self.place.read(name))
        except msgspec.DecodeError as bad:
            raise CorruptObject(f"{self.place.path(name)}: {bad}") from bad
        if commit.format != 1:
            raise CorruptObject(f"{self.place.path(name)}: format {commit.format} is not known")
        return commit

    def _append(
        self,
        old: TableCommit | None,
        partition_by: str,
        columns: pa.Schema,
        after: dict[str, int],
        files: Sequence[DataFile],
        change: TableChange = NO_CHANGE,
    ) -> bool:
        """Create the version after `old`; False if another writer has."""
        version = old.version + 1 if old else 1
        whole: list[DataFile] | None = None
        if change.removed or version % WHOLE_EVERY == 0:
            present = {file.path: file for file in self._files_of(range(1, version))}
            table.check_present(self.place.url, change.removed, present)
            whole = [*(present[p] for p in present if p not in change.removed), *files]
        ours = TableCommit(
            version=version,
            commit_id=self._dice.token(16).hex(),
            committed_ms=self._clock.now_ms(),
            partition_by=partition_by,
            columns=ddl.text(columns),
            next=after,
            added=list(files),
            whole=whole,
            cut=change.cut,
        )
        try:
            self.place.put_new(_name(version), msgspec.json.encode(ours))
        except ObjectExists:
            # Perhaps by an attempt of our own whose answer was lost.
            return self._read(version).commit_id == ours.commit_id
        return True


_DECODER: Final = msgspec.json.Decoder(TableCommit)


def committed_files(url: str) -> list[str]:
    """For any reader of Parquet: the paths of the files that count, and of no others."""
    parquet_table = ParquetTable(TableFolder(url))
    return [parquet_table.place.path(file.path) for file in parquet_table.files()]


def dataset(url: str) -> Any:
    """The table as a pyarrow dataset: all its columns, null where a file is older than one."""
    import pyarrow.dataset as ds

    parquet_table = ParquetTable(TableFolder(url))
    head = parquet_table.head()
    if head is None:
        raise InvalidRequest(f"there is no table at {url}")
    by = head.commit.partition_by
    columns = head.columns
    partitioning = None
    if by != "none":
        field = pa.field(schemas.PARTITION_COLUMNS[by], schemas.PARTITION_TYPES[by])
        columns = columns.append(field)
        partitioning = ds.partitioning(pa.schema([field]), flavor="hive")
    filesystem, root = parquet_table.place.arrow()
    return ds.dataset(
        [f"{root}/{file.path}" for file in parquet_table.files()],
        columns,
        format="parquet",
        filesystem=filesystem,
        partitioning=partitioning,
        partition_base_dir=f"{root}/data",
    )


def _name(version: int) -> str:
    return f"{LOG}/{version:020d}.json"
