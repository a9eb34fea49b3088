"""An Iceberg catalog that is nothing but the table's own folder.

Here: `metadata/v{number}.metadata.json`, each created only if it is absent: of two writers that
commit on top of the same version, one wins. The highest number counts. This is the layout of tables
that engines open by their path; `version-hint.text` beside them is for those that cannot list.
Next door: tables in other catalogs (iceberg.py), showing these to engines (spark/catalog/).

Old metadata is deleted, so its names could be used again by a writer that was paused meanwhile.
A writer therefore looks again after it has created its version: if the version below is gone, so
many others have passed that its own does not count.
"""

import re
from typing import Any, Final

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from kafscale.model.errors import ObjectExists, StoreError
from kafscale.spark.lake.table_folder import TableFolder

METADATA: Final = "metadata"
HINT: Final = "version-hint.text"
_VERSION: Final = re.compile(r"v(\d+)\.metadata\.json")
# How many versions of the metadata are kept; see above.
PROPERTIES: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}


class BucketCatalog(MetastoreCatalog, NoopCatalog):
    """The catalog of one table: whatever it is called, it is the one in this folder."""

    def __init__(self, place: TableFolder, location: str, **properties: str) -> None:
        super().__init__("kafscale", **properties)
        self._place = place
        self._location = location

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        """The table as of its newest version."""
        number, metadata = newest_metadata(self._place)
        if metadata is None:
            raise NoSuchTableError(f"there is no table at {self._place.url}")
        where = self._where(number)
        return Table(
            identifier=Catalog.identifier_to_tuple(identifier),
            metadata=metadata,
            metadata_location=where,
            io=self._load_file_io(metadata.properties, where),
            catalog=self,
        )

    def create_namespace(self, namespace: Any, properties: Any = None) -> None:
        """A folder has no namespaces: each one is there already."""

    def commit_table(
        self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]
    ) -> CommitTableResponse:
        """Create the next version, or fail with CommitFailedException."""
        number, _ = newest_metadata(self._place)
        current = self.load_table(table.name()) if number else None
        if current is not None:
            number = version_of(current.metadata_location)
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        if current is not None and staged.metadata == current.metadata:
            return _committed(current.metadata, current.metadata_location)
        self._create(number, staged.metadata.model_dump_json().encode())
        if current is not None:
            self._delete_old_metadata(staged.io, current.metadata, staged.metadata)
        return _committed(staged.metadata, self._where(number + 1))

    def _create(self, number: int, body: bytes) -> None:
        """Create the version after `number`; see the sign for what could go wrong."""
        name = f"{METADATA}/v{number + 1}.metadata.json"
        try:
            self._place.put_new(name, body)
        except ObjectExists:
            if self._place.read(name) != body:
                raise CommitFailedException(f"{name} is another writer's") from None
        there = _versions(self._place)
        if number and number not in there:
            raise CommitFailedException(f"version {number} is gone: this commit came too late")
        self._hint(number + 1)

    def _hint(self, number: int) -> None:
        """For readers that cannot list; they may find an older one, or none for a moment."""
        try:
            self._place.delete([f"{METADATA}/{HINT}"])
            self._place.put_new(f"{METADATA}/{HINT}", str(number).encode())
        except StoreError:
            return  # another writer's hint, or none: readers that list need none

    def _where(self, number: int) -> str:
        return f"{self._location}/{METADATA}/v{number}.metadata.json"


def _committed(metadata: TableMetadata, where: str) -> CommitTableResponse:
    facts: dict[str, Any] = {"metadata": metadata, "metadata-location": where}
    return CommitTableResponse(**facts)


def version_of(metadata_location: str) -> int:
    """The number of a version by its place."""
    match = _VERSION.fullmatch(metadata_location.rpartition("/")[2])
    return int(match[1]) if match else 0


def newest_version(place: TableFolder) -> int:
    """The number of the newest version; 0 where there is no table."""
    return max(_versions(place), default=0)


def newest_metadata(place: TableFolder) -> tuple[int, TableMetadata | None]:
    """The newest version and what it says; 0 and None where there is no table."""
    number = newest_version(place)
    if not number:
        return 0, None
    body = place.read(f"{METADATA}/v{number}.metadata.json")
    return number, TableMetadataUtil.parse_raw(body.decode())


def _versions(place: TableFolder) -> set[int]:
    names = (row.key.rpartition("/")[2] for row in place.find(METADATA))
    return {int(match[1]) for name in names if (match := _VERSION.fullmatch(name))}
