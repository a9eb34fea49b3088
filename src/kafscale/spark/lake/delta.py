"""Delta Lake tables, through `deltalake`.

Here: files as add actions; progress as the table's own application transactions, one per
partition of a topic, whose version is the next offset. They stay in the table's state when its
log is cleaned up. A commit is tried once and only as the very next version.
Next door: bare files (parquet.py), Iceberg (iceberg.py).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import deltalake
import msgspec
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties

from kafscale.log.protocol.commits import LostRace
from kafscale.model.errors import StoreUnavailable
from kafscale.settings import locations
from kafscale.spark.lake import schemas, table
from kafscale.spark.lake.table import DEAD_LETTERS
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.writer import DataFile
from kafscale.system import SystemClock

APPLICATION: Final = "kafscale/"
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

    def commit(
        self, files: Sequence[DataFile], before: Mapping[str, int], after: Mapping[str, int]
    ) -> None:
        """Write the next version, never a later one: what came between must be looked at."""
        for _ in range(table.ATTEMPTS):
            loaded = self._load()
            if loaded is None:
                raise LostRace(f"{self.place.url} is gone")
            table.check_progress(_versions(loaded, before), before)
            marks = [
                deltalake.Transaction(app_id=APPLICATION + name, version=offset)
                for name, offset in after.items()
            ]
            rounds = {file.path.rpartition("/")[2].split("-")[1] for file in files}
            properties = CommitProperties(
                custom_metadata={ROUNDS: " ".join(sorted(rounds))},
                max_commit_retries=0,
                app_transactions=marks,
            )
            column = schemas.PARTITION_COLUMNS.get(_partitioning(loaded))
            try:
                loaded.create_write_transaction(
                    [self._action(file, column) for file in files],
                    "append",
                    loaded.schema(),
                    [column] if column else None,
                    commit_properties=properties,
                )
                return
            except CommitFailedError:
                continue
            except DeltaError as failed:
                raise StoreUnavailable(f"{self.place.url}: {failed}") from failed
        raise LostRace(f"{self.place.url} is being written by too many others")

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

    def _action(self, file: DataFile, column: str | None) -> AddAction:
        least: dict[str, Any] = {"_partition": file.partitions[0], "_offset": file.offsets[0]}
        greatest: dict[str, Any] = {"_partition": file.partitions[1], "_offset": file.offsets[1]}
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
            data_change=True,
            stats=msgspec.json.encode(stats).decode(),
        )


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
