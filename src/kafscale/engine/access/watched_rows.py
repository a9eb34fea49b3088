"""All rows below one prefix of the metadata store, kept in memory and up to date.

Here: loading, watching and changing them. Every broker holds all rows, so that a decision waits
for nothing. While the metadata store is away, the rows are those last known: they never become
fewer because the store does not answer.
Next door: what the rows mean (acls.py and its neighbours), key names (metadata/keys.py).
Never here: rows that are written often or that are too many for memory.
"""

import contextlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import structlog

from kafscale.metadata.store import (
    Change,
    Compare,
    Entry,
    Listing,
    MetadataStore,
    Put,
    Remove,
    pages,
)
from kafscale.model.errors import CorruptObject, MetadataConflict

logger = structlog.get_logger()

_ATTEMPTS: Final = 16

_Row = TypeVar("_Row")

# Told the name of a row, what it was and what it is; None: it was or is not there.
RowListener = Callable[[str, _Row | None, _Row | None], None]


class WatchedRows(Generic[_Row]):
    """The rows of one prefix, by name. The name of a row is its key without the prefix.

    Names are made by the caller of path segments (`metadata.keys.segment`).
    """

    def __init__(
        self,
        metadata: MetadataStore,
        prefix: str,
        decode: Callable[[bytes], _Row],
        encode: Callable[[_Row], bytes],
    ) -> None:
        """`decode` raises CorruptObject for what it cannot read."""
        self._metadata = metadata
        self._prefix = prefix
        self._decode = decode
        self._encode = encode
        self._rows: dict[str, _Row] = {}
        self._versions: dict[str, int] = {}  # of the rows, and of rows that this broker removed
        self._removed: list[str] = []  # by this broker, and the watch has not told of it yet
        self._seen = 0  # the version up to which the watch has told
        self._listeners: list[RowListener[_Row]] = []
        self.rows: Mapping[str, _Row] = MappingProxyType(self._rows)
        self.revision = 0  # rises with every change: what is built from rows can be cached
        self.unreadable: set[str] = set()  # names of rows whose newest value cannot be decoded

    def listen(self, listener: RowListener[_Row]) -> None:
        """Tell of every row that comes, changes or goes from now on, also of those loaded."""
        self._listeners.append(listener)

    # -- keeping up --------------------------------------------------------------------------

    async def load(self) -> None:
        """Read all rows. A broker that cannot do this does not start."""
        for entry in await self._metadata.find(self._prefix):
            self._apply(entry)

    async def run(self) -> None:
        """Follow what all brokers write; runs until it is cancelled, over any loss of the store."""
        async with contextlib.aclosing(self._metadata.watch(self._prefix)) as watch:
            async for news in watch:
                self._take(news)

    def _take(self, news: Listing | Change) -> None:
        if isinstance(news, Listing):
            written = news.entries
            listed = {self._name(entry.key) for entry in written}
            gone = [name for name in self._rows.keys() | self.unreadable if name not in listed]
        else:
            written = news.written
            gone = [self._name(key) for key in news.removed]
        for name in gone:
            if news.version > self._versions.get(name, 0):
                self._versions.pop(name, None)
                self._forget(name)
        for entry in written:
            self._apply(entry)
        self._seen = news.version
        self._forget_removals()

    def _forget_removals(self) -> None:
        late = [name for name in self._removed if self._versions.get(name, 0) > self._seen]
        for name in self._removed:
            if name not in self._rows and self._versions.get(name, 0) <= self._seen:
                self._versions.pop(name, None)
        self._removed = late

    def _name(self, key: str) -> str:
        return key.removeprefix(self._prefix)

    def _apply(self, entry: Entry) -> None:
        """Take a row over, unless this broker knows a newer one."""
        name = self._name(entry.key)
        if entry.version <= self._versions.get(name, 0):
            return
        try:
            row = self._decode(entry.value)
        except CorruptObject as problem:
            # The row that was known before stays: a damaged rule must not open what it closed.
            self.unreadable.add(name)
            logger.error("row_unreadable", key=entry.key, error=str(problem))
            return
        self._versions[name] = entry.version
        self._set(name, row)

    def _set(self, name: str, row: _Row) -> None:
        self.unreadable.discard(name)
        old = self._rows.get(name)
        if old != row:
            self._rows[name] = row
            self._tell(name, old, row)

    def _forget(self, name: str) -> None:
        self.unreadable.discard(name)
        old = self._rows.pop(name, None)
        if old is not None:
            self._tell(name, old, None)

    def _tell(self, name: str, old: _Row | None, new: _Row | None) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener(name, old, new)

    # -- changing ----------------------------------------------------------------------------

    async def write(self, rows: Mapping[str, _Row | None]) -> None:
        """Write rows, whatever was there; None removes one. This broker knows them at once.

        Very many rows take several commits. A failure may leave the first of them written.
        """
        names = list(rows)
        writes = [self._write_of(name, row) for name, row in rows.items()]
        for page in pages(writes):
            version = await self._metadata.commit(writes[page])
            for name in names[page]:
                self._know(name, rows[name], version)

    async def change(self, name: str, change: Callable[[_Row | None], _Row | None]) -> _Row | None:
        """Give a row the value that `change` makes of its present one; gives that value.

        None is no row, before and after. `change` is called again where another broker has
        written meanwhile. MetadataConflict if that happens again and again.
        """
        key = self._prefix + name
        for attempt in range(_ATTEMPTS):
            entry = await self._metadata.get(key)
            old = self._decode(entry.value) if entry is not None else None
            new = change(old)
            if new == old:
                return new
            guard = Compare(key, entry.version if entry is not None else 0)
            try:
                version = await self._metadata.commit([self._write_of(name, new)], [guard])
            except MetadataConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            self._know(name, new, version)
            return new
        raise AssertionError("every attempt returns or raises")

    def _write_of(self, name: str, row: _Row | None) -> Put | Remove:
        key = self._prefix + name
        return Remove(key) if row is None else Put(key, self._encode(row))

    def _know(self, name: str, row: _Row | None, version: int) -> None:
        """This broker has written a row; the watch may have told of it, and of newer ones."""
        if version <= max(self._seen, self._versions.get(name, 0)):
            return
        self._versions[name] = version
        if row is None:
            self._removed.append(name)
            self._forget(name)
        else:
            self._set(name, row)
