"""Apache Iceberg tables, through `pyiceberg`.

Here: ready-made Parquet files added in one snapshot whose properties say how far the table is;
the same goes into the table's own properties, for when old snapshots have been expired.
The library's own retry of a commit is off: it would append again after a commit it has not read.
Next door: bare files (parquet.py), Delta (delta.py).

A table is named by its path, with a SQLite catalog beside it, or by its name in a catalog:
a URI of SQLAlchemy or of a REST catalog, or one that pyiceberg's configuration names.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import Table as Found
from pyiceberg.table import Transaction
from pyiceberg.types import TimestamptzType

from kafscale.log.protocol.commits import LostRace
from kafscale.model.errors import InvalidRequest
from kafscale.settings import locations
from kafscale.spark.lake import schemas, table
from kafscale.spark.lake.bucket_catalog import PROPERTIES, BucketCatalog
from kafscale.spark.lake.table import (
    BUCKET_CATALOG,
    DEAD_LETTERS,
    NO_CHANGE,
    TableChange,
    TableFile,
    TableState,
)
from kafscale.spark.lake.table_folder import TableFolder
from kafscale.spark.lake.writer import DataFile, label_of

try:
    from sqlalchemy.exc import IntegrityError, OperationalError

    # How a SQL catalog says that another has just created the same.
    _RACES: tuple[type[Exception], ...] = (IntegrityError, OperationalError)
except ImportError:  # a REST catalog needs none
    _RACES = ()

_AGAIN: Final[tuple[type[Exception], ...]] = (
    CommitFailedException,
    TableAlreadyExistsError,
    *_RACES,
)
OFFSETS: Final = "kafscale.offsets"
_SEQUENCE: Final = "kafscale.sequence-number"  # of the last snapshot of an export
NAMESPACE: Final = "kafscale"
CATALOG_FILE: Final = "iceberg-catalog.sqlite"
_RETRIES: Final = "commit.retry.num-retries"

# It would remark on every column without statistics, of every file: keys and values have none.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)


class IcebergTable:
    """An Iceberg table and the progress in it."""

    folder = "data/"

    def __init__(
        self, catalog: Callable[[bool], Catalog], name: tuple[str, ...], location: str
    ) -> None:
        """Read nothing yet. Without a location the catalog chooses one."""
        self._open = catalog
        self._name = name
        self._location = location
        self._is_own_catalog = False  # its folder is its catalog, and that of no other table
        self.partition_by = ""

    @staticmethod
    def open(url: str, catalog: str = "") -> "IcebergTable":
        """A table by its path, or by its name in a catalog."""
        if catalog and "://" not in url and not url.startswith((".", "/")):
            return IcebergTable(partial(_catalog, catalog, ""), tuple(url.split(".")), "")
        place = TableFolder(url)
        name = (NAMESPACE, place.name.replace(".", "_"))
        location = place.url if place.where.kind == "s3" else f"file://{place.url}"
        if catalog == BUCKET_CATALOG:
            made = IcebergTable(partial(_folder_catalog, place, location), name, location)
            made._is_own_catalog = True
            return made
        if not catalog:
            if place.where.kind == "s3":
                raise InvalidRequest("a table in a bucket needs --catalog: who else could commit?")
            catalog = f"sqlite:///{Path(place.url).parent / CATALOG_FILE}"
        return IcebergTable(partial(_catalog, catalog, location.rpartition("/")[0]), name, location)

    @cached_property
    def _catalog(self) -> Catalog:
        return self._open(False)

    @property
    def place(self) -> TableFolder:
        """Where its files go."""
        if not self._location:
            loaded = self._load()
            if loaded is None:
                raise InvalidRequest(f"there is no table {'.'.join(self._name)}")
            self._location = loaded.location()
        return TableFolder(self._location)

    def dead_letters(self) -> "IcebergTable":
        """The table beside this one."""
        if self._is_own_catalog:
            return IcebergTable.open(self._url() + DEAD_LETTERS, BUCKET_CATALOG)
        name = (*self._name[:-1], self._name[-1] + DEAD_LETTERS)
        return IcebergTable(self._open, name, self._url() + DEAD_LETTERS)

    def prepare(self, columns: pa.Schema, partition_by: str | None) -> None:
        """Create it, or add columns; a writer that does the same at once counts as done."""
        table.repeat(lambda: self._is_prepared(columns, partition_by), ".".join(self._name))

    def _is_prepared(self, columns: pa.Schema, partition_by: str | None) -> bool:
        """Whether nothing is missing any more; else take one step."""
        try:
            loaded = self._load()
            if loaded is None:
                self._create(columns, partition_by or "day")
                return False
            self.partition_by = table.agreed_partitioning(_partitioning(loaded), partition_by)
            missing = schemas.additions(loaded.schema().as_arrow(), columns)
            if missing:
                with loaded.update_schema() as change:
                    change.union_by_name(pa.schema([*loaded.schema().as_arrow(), *missing]))
            return not missing
        except _AGAIN:
            return False

    def columns(self) -> pa.Schema | None:
        """The current schema."""
        loaded = self._load()
        return None if loaded is None else loaded.schema().as_arrow()

    def progress(self, names: Iterable[str]) -> dict[str, int]:
        """What the newest snapshot that speaks of it says."""
        loaded = self._load()
        known = {} if loaded is None else _offsets(loaded)
        return {name: known[name] for name in names if name in known}

    def state(self, names: Iterable[str]) -> TableState | None:
        """Both of one snapshot."""
        loaded = self._load()
        if loaded is None:
            return None
        known = _offsets(loaded)
        progress = {name: known[name] for name in names if name in known}
        snapshot = loaded.current_snapshot()
        version = "" if snapshot is None else str(snapshot.snapshot_id)
        return TableState(self._files(loaded), progress, version)

    def commit(
        self,
        files: Sequence[DataFile],
        before: Mapping[str, int],
        after: Mapping[str, int],
        change: TableChange = NO_CHANGE,
    ) -> str:
        """Add the files in one snapshot on top of the one that was read, or none."""
        for _ in range(table.ATTEMPTS):
            loaded = self._load()
            if loaded is None:
                raise LostRace(f"{'.'.join(self._name)} is gone")
            known = _offsets(loaded)
            table.check_progress(known, before)
            text = msgspec.json.encode({**known, **after}).decode()
            words = {OFFSETS: text, **({table.CUT: change.cut} if change.cut else {})}
            loaded.metadata.properties[_RETRIES] = "0"  # of this copy, not of the table
            try:
                with loaded.transaction() as transaction:
                    number = getattr(loaded.metadata, "last_sequence_number", 0) + 1
                    transaction.set_properties({OFFSETS: text, _SEQUENCE: str(number)})
                    self._take(transaction, files, words, change)
                snapshot = loaded.current_snapshot()
                return "" if snapshot is None else str(snapshot.snapshot_id)
            except CommitFailedException:
                continue
            except ValidationException as missing:
                raise LostRace(f"{'.'.join(self._name)}: {missing}") from missing
        raise LostRace(f"{'.'.join(self._name)} is being written by too many others")

    def _take(
        self,
        transaction: Transaction,
        files: Sequence[DataFile],
        words: dict[str, str],
        change: TableChange,
    ) -> None:
        """Add files, and remove others, in one snapshot."""
        paths = [f"{self._url()}/{file.path}" for file in files]
        if not change.removed:
            transaction.add_files(paths, words, check_duplicate_files=False)
            return
        going = {f"{self._url()}/{path}" for path in change.removed}
        loaded = transaction._table
        there = [task.file for task in loaded.scan().plan_files() if task.file.file_path in going]
        table.check_present(self._url(), going, (file.file_path for file in there))
        metadata = transaction.table_metadata
        with transaction.update_snapshot(snapshot_properties=words).overwrite() as snapshot:
            for path in paths:
                snapshot.append_data_file(parquet_file_to_data_file(loaded.io, metadata, path))
            for file in there:
                snapshot.delete_data_file(file)

    def expire(self, kept_ms: int) -> int:
        """Expire snapshots, and delete the data files that none is left to name."""
        loaded = self._load()
        if loaded is None:
            return 0
        oldest_ms = self.place.now_ms() - kept_ms
        old = [row for row in loaded.snapshots() if row.timestamp_ms < oldest_ms]
        if not old:
            return 0
        before = set(loaded.inspect.all_data_files()["file_path"].to_pylist())
        oldest = datetime.fromtimestamp(oldest_ms / 1000, UTC).replace(tzinfo=None)
        try:
            loaded.maintenance.expire_snapshots().older_than(oldest).commit()
        except CommitFailedException:
            return 0  # another commit came first: the next upkeep tries again
        left = self._load()
        after = (
            set() if left is None else set(left.inspect.all_data_files()["file_path"].to_pylist())
        )
        cut = len(self._url()) + 1
        gone = sorted(path[cut:] for path in before - after)
        self.place.delete(gone)
        return len(gone)

    def _files(self, loaded: Found) -> list[TableFile]:
        by = _partitioning(loaded)
        time = loaded.schema().find_field("_timestamp")
        cut = len(self._url()) + 1
        rows = []
        for task in loaded.scan().plan_files():
            file = task.file
            unit = file.partition[0] if by != "none" else None
            bounds = file.upper_bounds, file.lower_bounds
            last, first = ((some or {}).get(time.field_id) for some in bounds)
            rows.append(
                TableFile(
                    file.file_path[cut:],
                    file.file_size_in_bytes,
                    file.record_count,
                    None if unit is None else label_of(unit, by),
                    *(
                        None if bound is None else int(from_bytes(TimestamptzType(), bound))
                        for bound in (last, first)
                    ),
                )
            )
        return rows

    def has_round(self, name: str) -> bool:
        """By the files of all snapshots there are."""
        loaded = self._load()
        if loaded is None:
            return False
        paths = loaded.inspect.all_data_files()["file_path"].to_pylist()
        return any(f"part-{name}-" in path for path in paths)

    def _url(self) -> str:
        place = self.place
        return place.url if place.where.kind == "s3" else f"file://{place.url}"

    def _load(self) -> Found | None:
        try:
            return self._catalog.load_table(self._name)
        except (NoSuchTableError, _NoCatalog):
            return None

    def _create(self, columns: pa.Schema, partition_by: str) -> None:
        from pyiceberg.transforms import DayTransform, HourTransform

        self._catalog = self._open(True)
        try:
            self._catalog.create_namespace(self._name[:-1])
        except NamespaceAlreadyExistsError:
            pass
        made = self._catalog.create_table_transaction(
            self._name, columns, location=self._location or None, properties=PROPERTIES
        )
        with made as change:
            if partition_by != "none":
                transform: Any = DayTransform() if partition_by == "day" else HourTransform()
                with change.update_spec() as spec:
                    column = schemas.PARTITION_COLUMNS[partition_by]
                    spec.add_field("_timestamp", transform, column)


def _offsets(loaded: Found) -> dict[str, int]:
    """By the newest snapshot of an export among the current one's ancestors.

    A table rolled back to an older snapshot is as far as that one says. Where none is left because
    snapshots were expired, the table's properties have the last word; unless the current snapshot
    is older than what they speak of: then the table was rolled back to before all exports.
    """
    current = snapshot = loaded.current_snapshot()
    while snapshot is not None:
        if snapshot.summary is not None and (text := snapshot.summary.get(OFFSETS)):
            return msgspec.json.decode(text, type=dict[str, int])
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else loaded.snapshot_by_id(parent)
    last = int(loaded.properties.get(_SEQUENCE, "0"))
    if current is None or (current.sequence_number or last) < last:
        return {}
    return msgspec.json.decode(loaded.properties.get(OFFSETS, "{}"), type=dict[str, int])


def _partitioning(loaded: Found) -> str:
    names = [field.name for field in loaded.spec().fields]
    return next((by for by, name in schemas.PARTITION_COLUMNS.items() if [name] == names), "none")


def _catalog(named: str, warehouse: str, create: bool) -> Catalog:
    """Open a catalog; a file that is not there is created only on demand."""
    if "://" not in named:
        return load_catalog(named)
    file = Path(named.removeprefix("sqlite:///")) if named.startswith("sqlite:///") else None
    if file is not None and not file.exists():
        if not create:
            raise _NoCatalog
        file.parent.mkdir(parents=True, exist_ok=True)
    kind = "rest" if named.startswith(("http://", "https://")) else "sql"
    given = file_facts() | ({"warehouse": warehouse} if warehouse else {})
    try:
        return load_catalog("kafscale", type=kind, uri=named, **given)
    except _RACES:
        # Another was creating the catalog's own tables just now.
        return load_catalog("kafscale", type=kind, uri=named, **given)


def _folder_catalog(place: TableFolder, location: str, _create: bool) -> Catalog:
    """The table's own folder as its catalog."""
    return BucketCatalog(place, location, **file_facts())


def file_facts() -> dict[str, str]:
    """How pyiceberg reaches files in a bucket: as the pipeline's own store does."""
    settings = locations.s3_settings("")
    facts = {
        "s3.endpoint": settings.endpoint,
        "s3.region": settings.region,
        "s3.access-key-id": settings.access_key.reveal(),
        "s3.secret-access-key": settings.secret_key.reveal(),
        "s3.session-token": settings.session_token.reveal(),
    }
    return {name: value for name, value in facts.items() if value}


class _NoCatalog(Exception):
    """The catalog's file is not there yet."""
