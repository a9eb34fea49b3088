"""Delta Lake tables, through `deltalake`.

Here: files as add actions; progress as the table's own application transactions, one per
partition of a topic, whose version is the next offset. They stay in the table's state when its
log is cleaned up. A commit is tried once and only as the very next version.
Next door: bare files (parquet.py), Iceberg (iceberg.py).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import deltalake
import msgspec
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from kafscale.log.protocol.commits import LostRace
from kafscale.model.errors import StoreUnavailable
from kafscale.model.topics import iso_time
from kafscale.settings import locations
from kafscale.spark.lake import schemas, table
from kafscale.spark.lake.table import DEAD_LETTERS, NO_CHANGE, TableChange, TableFile, TableState
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.writer import DataFile
from kafscale.system import SystemClock

APPLICATION: Final = "kafscale/"
_YEAR_10000_MS: Final = 253_402_300_800_000
ROUNDS: Final = "kafscale.rounds"  # in a commit's own words: the rounds whose files it added


class DeltaTable:
    """A Delta table and the progress in it."""

    folder = ""

    def __init__(self, place: TableFolder) -> None:
        self.place = place
        self.partition_by = ""
        self._clock = SystemClock()
        self._options = storage_options() if place.where.kind == "s3" else None

    def dead_letters(self) -> "DeltaTable":
        """The table beside this one."""
        return DeltaTable(self.place.beside(DEAD_LETTERS))

    def prepare(self, columns: pa.Schema, partition_by: str | None) -> None:
        """Create it, or add columns; a writer that does the same at once counts as done."""
        table.repeat(lambda: self._is_prepared(columns, partition_by), self.place.url)

    def _is_prepared(self, columns: pa.Schema, partition_by: str | None) -> bool:
        """Whether nothing is missing any more; else take one step."""
        try:
            loaded = self._load()
            if loaded is None:
                self._create(columns, partition_by or "day")
                return False
            self.partition_by = table.agreed_partitioning(_partitioning(loaded), partition_by)
            missing = schemas.additions(pa.schema(loaded.schema()), columns)
            if missing:
                loaded.alter.add_columns(deltalake.Schema.from_arrow(pa.schema(missing)).fields)
            return not missing
        except (CommitFailedError, DeltaError) as failed:
            if not _is_race(failed):
                raise StoreUnavailable(f"{self.place.url}: {failed}") from failed
            return False

    def columns(self) -> pa.Schema | None:
        """What the newest version says."""
        loaded = self._load()
        return None if loaded is None else pa.schema(loaded.schema())

    def progress(self, names: Iterable[str]) -> dict[str, int]:
        """The versions of the application transactions."""
        loaded = self._load()
        return {} if loaded is None else _versions(loaded, names)

    def state(self, names: Iterable[str]) -> TableState | None:
        """Both of one version."""
        loaded = self._load()
        if loaded is None:
            return None
        return TableState(_files(loaded), _versions(loaded, names), str(loaded.version()))

    def commit(
        self,
        files: Sequence[DataFile],
        before: Mapping[str, int],
        after: Mapping[str, int],
        change: TableChange = NO_CHANGE,
    ) -> str:
        """Write the next version, never a later one: what came between must be looked at."""
        for _ in range(table.ATTEMPTS):
            loaded = self._load()
            if loaded is None:
                raise LostRace(f"{self.place.url} is gone")
            table.check_progress(_versions(loaded, before), before)
            try:
                self._write_version(loaded, files, after, change)
                return str(loaded.version() + 1)
            except CommitFailedError:
                continue
            except DeltaError as failed:
                raise StoreUnavailable(f"{self.place.url}: {failed}") from failed
        raise LostRace(f"{self.place.url} is being written by too many others")

    def _write_version(
        self,
        loaded: deltalake.DeltaTable,
        files: Sequence[DataFile],
        after: Mapping[str, int],
        change: TableChange,
    ) -> None:
        marks = [
            deltalake.Transaction(app_id=APPLICATION + name, version=offset)
            for name, offset in after.items()
        ]
        rounds = {file.path.rpartition("/")[2].split("-")[1] for file in files}
        words = {ROUNDS: " ".join(sorted(rounds))}
        if change.cut:
            words[table.CUT] = change.cut
        properties = CommitProperties(
            custom_metadata=words, max_commit_retries=0, app_transactions=marks
        )
        column = schemas.PARTITION_COLUMNS.get(_partitioning(loaded))
        data_change = not change.same_rows
        loaded.create_write_transaction(
            [
                *(self._action(file, column, data_change) for file in files),
                *self._removals(loaded, change, column),
            ],
            "append",
            loaded.schema(),
            [column] if column else None,
            commit_properties=properties,
        )

    def _removals(
        self, loaded: deltalake.DeltaTable, change: TableChange, column: str | None
    ) -> list[RemoveAction]:
        if not change.removed:
            return []
        there = {file.path: file for file in _files(loaded)}
        table.check_present(self.place.url, change.removed, there)
        now_ms = self._clock.now_ms()
        return [
            RemoveAction(
                path,
                not change.same_rows,
                now_ms,
                there[path].size,
                {column: there[path].partition} if column else {},
            )
            for path in change.removed
        ]

    def expire(self, kept_ms: int) -> int:
        """Delete files that left the table so long ago; old entries of the log go with them."""
        loaded = self._load()
        if loaded is None:
            return 0
        hours = max(1, kept_ms // 3_600_000)
        try:
            gone = loaded.vacuum(hours, dry_run=False, enforce_retention_duration=False)
            loaded.cleanup_metadata()
        except (CommitFailedError, DeltaError) as failed:
            if not _is_race(failed):
                raise StoreUnavailable(f"{self.place.url}: {failed}") from failed
            return 0
        return len(gone)

    def has_round(self, name: str) -> bool:
        """By the files of now, and by what earlier commits say of themselves."""
        loaded = self._load()
        if loaded is None:
            return False
        is_current = any(f"part-{name}-" in uri for uri in loaded.file_uris())
        return is_current or any(name in str(row.get(ROUNDS, "")) for row in loaded.history())

    def _load(self) -> deltalake.DeltaTable | None:
        try:
            return deltalake.DeltaTable(self.place.url, storage_options=self._options)
        except TableNotFoundError:
            return None

    def _create(self, columns: pa.Schema, partition_by: str) -> None:
        column = schemas.PARTITION_COLUMNS.get(partition_by)
        if column is not None:
            columns = columns.append(pa.field(column, schemas.PARTITION_TYPES[partition_by]))
        if self.place.where.kind == "file":
            os.makedirs(self.place.url, exist_ok=True)
        deltalake.DeltaTable.create(
            self.place.url,
            schema=columns,
            mode="error",
            partition_by=[column] if column else None,
            storage_options=self._options,
        )

    def _action(self, file: DataFile, column: str | None, data_change: bool) -> AddAction:
        least: dict[str, Any] = {"_partition": file.partitions[0], "_offset": file.offsets[0]}
        greatest: dict[str, Any] = {"_partition": file.partitions[1], "_offset": file.offsets[1]}
        if file.times_us is not None and (times := _times(file.times_us)):
            least["_timestamp"], greatest["_timestamp"] = times
        stats = {
            "numRecords": file.rows,
            "minValues": least,
            "maxValues": greatest,
            "nullCount": {"_partition": 0, "_offset": 0},
        }
        return AddAction(
            path=file.path,
            size=file.size,
            partition_values={column: file.partition} if column else {},
            modification_time=self._clock.now_ms(),
            data_change=data_change,
            stats=msgspec.json.encode(stats).decode(),
        )


def _files(loaded: deltalake.DeltaTable) -> list[TableFile]:
    """The files of the version that was loaded."""
    actions = pa.table(loaded.get_add_actions(flatten=True))
    columns = {name: actions.column(name).to_pylist() for name in actions.schema.names}
    nothing = [None] * actions.num_rows
    by = schemas.PARTITION_COLUMNS.get(_partitioning(loaded))
    labels = columns.get(f"partition.{by}", nothing)
    newest = columns.get("max._timestamp", nothing)
    oldest = columns.get("min._timestamp", nothing)
    rows = zip(
        columns["path"],
        columns["size_bytes"],
        columns["num_records"],
        labels,
        newest,
        oldest,
        strict=True,
    )
    return [
        TableFile(
            path,
            size,
            count or 0,
            None if label is None else str(label),
            _microseconds(last),
            _microseconds(first),
        )
        for path, size, count, label, last, first in rows
    ]


def _microseconds(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000_000)


def _times(bounds: tuple[int, int]) -> tuple[str, str] | None:
    """Bounds of times as Delta's statistics have them, to the millisecond; None: no calendar's."""
    first_ms, last_ms = bounds[0] // 1000, -(-bounds[1] // 1000)
    if not 0 <= first_ms <= last_ms < _YEAR_10000_MS:
        return None
    return iso_time(first_ms), iso_time(last_ms)


def _versions(loaded: deltalake.DeltaTable, names: Iterable[str]) -> dict[str, int]:
    versions = {name: loaded.transaction_version(APPLICATION + name) for name in names}
    return {name: version for name, version in versions.items() if version is not None}


def _partitioning(loaded: deltalake.DeltaTable) -> str:
    names = loaded.metadata().partition_columns
    return next(
        (by for by, column in schemas.PARTITION_COLUMNS.items() if [column] == names), "none"
    )


def _is_race(failed: Exception) -> bool:
    return isinstance(failed, CommitFailedError) or "already exists" in str(failed)


def storage_options(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What `deltalake` is told about a bucket: the same as the pipeline's own store."""
    settings = locations.s3_settings("", environment)
    options = {
        "AWS_REGION": settings.region,
        "AWS_ENDPOINT_URL": settings.endpoint,
        "AWS_ACCESS_KEY_ID": settings.access_key.reveal(),
        "AWS_SECRET_ACCESS_KEY": settings.secret_key.reveal(),
        "AWS_SESSION_TOKEN": settings.session_token.reveal(),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "" if settings.path_style else "true",
        "AWS_ALLOW_HTTP": "true" if settings.endpoint.startswith("http://") else "",
        "conditional_put": "etag",  # a version is created only if it is absent
    }
    return {name: value for name, value in options.items() if value}
