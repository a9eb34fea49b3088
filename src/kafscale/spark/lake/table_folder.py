"""The folder a table lies in, in a bucket or on a disk.

Here: the object store's verbs below one prefix, for drivers and workers; a TableFolder is pickled
as its URL. Next door: which store a URL names (settings/locations.py).
"""

import os
from collections.abc import Sequence
from typing import Any, Final

from kafscale.model.buffers import Buffer
from kafscale.objects.store import ObjectStore, StoredObject
from kafscale.settings import locations
from kafscale.spark.bucket import on_store

_DELETE_AT_ONCE: Final = 1000


class TableFolder:
    """One table's folder. Names are relative to it."""

    def __init__(self, url: str) -> None:
        """Refuse a URL where no table can be; nothing is read yet."""
        self.where = locations.locate_folder(url)
        self.url = (
            f"s3://{self.where.root}/{self.where.namespace}"
            if self.where.kind == "s3"
            else self.where.root
        )

    def __reduce__(self) -> tuple[type["TableFolder"], tuple[str]]:
        return TableFolder, (self.url,)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.url.rstrip("/").rpartition("/")[2]

    def beside(self, suffix: str) -> "TableFolder":
        """A folder next to this one."""
        return TableFolder(self.url + suffix)

    def put_new(self, name: str, body: Buffer) -> None:
        """Create an object, or raise ObjectExists."""
        locations.make_folder(self.where)
        view = memoryview(body).cast("B")  # Arrow's buffers call themselves signed
        on_store(self.where, lambda store: store.put_new(self._key(name), [view]))

    def read(self, name: str) -> bytes:
        """Read an object, or raise ObjectMissing."""
        return bytes(on_store(self.where, lambda store: store.read(self._key(name))))

    def find(self, folder: str) -> list[StoredObject]:
        """List a folder in it; keys are relative to this one."""
        if self.where.kind == "file" and not os.path.isdir(self.where.root):
            return []  # opening the store would create it
        objects = on_store(self.where, lambda store: store.find(self._key(folder).rstrip("/")))
        cut = len(self._key(""))
        return [row._replace(key=row.key[cut:]) for row in objects]

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; those that are gone already are no error."""
        keys = [self._key(name) for name in names]
        for at in range(0, len(keys), _DELETE_AT_ONCE):
            on_store(self.where, _delete, keys[at : at + _DELETE_AT_ONCE])

    def now_ms(self) -> int:
        """The time by the clock that `modified_ms` is written by."""
        locations.make_folder(self.where)
        return on_store(self.where, lambda store: store.now_ms())

    def path(self, name: str) -> str:
        """The address of an object in it."""
        return f"{self.url}/{name}"

    def arrow(self) -> tuple[Any, str]:
        """Arrow's own file system for the place, and the place's name there."""
        from pyarrow import fs

        if self.where.kind == "file":
            return fs.LocalFileSystem(), self.url
        settings = locations.s3_settings(f"s3://{self.where.root}")
        store = fs.S3FileSystem(
            access_key=settings.access_key.reveal() or None,
            secret_key=settings.secret_key.reveal() or None,
            session_token=settings.session_token.reveal() or None,
            region=settings.region,
            endpoint_override=settings.endpoint or None,
            force_virtual_addressing=not settings.path_style,
        )
        return store, self.url.removeprefix("s3://")

    def _key(self, name: str) -> str:
        return f"{self.where.namespace}/{name}" if self.where.namespace else name


async def _delete(store: ObjectStore, keys: Sequence[str]) -> None:
    await store.delete(keys)
