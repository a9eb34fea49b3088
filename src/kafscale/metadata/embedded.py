"""Metadata in a SQLite file beside one broker.

Here: the tables, the transaction, and the lock that keeps a second process out.
Next door: the port (store.py), the key names (keys.py), leases (lease.py), watchers (feed.py).

A lease lives with the process: what was written under one is removed when the next process opens
the file.

Reading takes 4 us and is done where it is asked for, on a connection of its own that sees only
what was committed. Writing goes through one thread: the file may be synced at any commit.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from kafscale.metadata.feed import Feed
from kafscale.metadata.lease import Lease, LeaseId
from kafscale.metadata.store import (
    BEYOND,
    Change,
    Compare,
    Entry,
    Listing,
    Put,
    Remove,
    Watch,
    check_commit,
)
from kafscale.model.clock import Clock, moment
from kafscale.model.errors import MetadataConflict, MetadataUnavailable

SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")
_SCHEMA: Final = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS entry (
        key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL
    ) WITHOUT ROWID;
    -- One row: the version of the last commit. Removing entries must not let it fall.
    CREATE TABLE IF NOT EXISTS revision (only INTEGER PRIMARY KEY, version INTEGER NOT NULL);
    INSERT OR IGNORE INTO revision VALUES (0, 0);
    CREATE TABLE IF NOT EXISTS leased (key TEXT PRIMARY KEY, lease INTEGER NOT NULL) WITHOUT ROWID;
"""
_PUT: Final = (
    "INSERT INTO entry VALUES (?, ?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version"
)
_FIND: Final = (
    "SELECT key, value, version FROM entry"
    " WHERE key >= ? AND key < ? AND key > ? ORDER BY key LIMIT ?"
)


class EmbeddedMetadataStore:
    """One file, one process.

    `synchronous` is SQLite's: NORMAL keeps every commit when the process dies and may lose the
    last ones when the machine does; FULL keeps them then, too. `clock` is for leases.
    """

    def __init__(self, path: Path, synchronous: str = "NORMAL", clock: Clock | None = None) -> None:
        if synchronous not in SYNCHRONOUS:  # SQLite itself would pass over a misspelt one
            raise ValueError(f"synchronous is one of {', '.join(SYNCHRONOUS)}, not {synchronous!r}")
        self._path = path
        self._synchronous = synchronous
        self._clock = clock
        self._feed = Feed()
        self._leases: dict[LeaseId, Lease] = {}
        self._leases_given = 0
        self._lock = _lock(path)
        try:
            self._writer = _connect(path)
            self._writer.execute(f"PRAGMA synchronous = {synchronous}")
            self._writer.executescript(_SCHEMA)
            self._reader = _connect(path)
            self._reader.execute("PRAGMA query_only = 1")
            # The process that held these leases is gone: this one has the lock.
            self._commit([Remove(key) for key in self._leased("")])
        except (sqlite3.Error, MetadataUnavailable) as failed:
            os.close(self._lock)
            raise MetadataUnavailable(f"cannot open {path}: {failed}") from failed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafscale-metadata")

    async def get(self, key: str) -> Entry | None:
        """Read one key."""
        rows = self._read("SELECT key, value, version FROM entry WHERE key = ?", key)
        return rows[0] if rows else None

    async def find(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        """Read a range of keys, or a page of it."""
        begin = max(prefix, after)  # one bound is enough for the index to begin there
        return self._read(_FIND, begin, prefix + BEYOND, after, -1 if limit is None else limit)

    async def commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare] = ()) -> int:
        """Compare and write in one transaction."""
        check_commit(writes, guards)
        for write in writes:
            if isinstance(write, Put) and write.lease is not None:
                self._check_lease(write.lease)
        return await self._in_thread(self._commit, tuple(writes), tuple(guards))

    async def lease(self, ttl_s: float) -> Lease:
        """Grant a lease, which holds as long as this process renews it in time."""
        if self._clock is None:
            raise ValueError("a store without a clock has no leases")
        self._leases_given += 1
        lease = Lease(LeaseId(self._leases_given), ttl_s, self._clock, moment(self._clock))
        self._leases[lease.id] = lease

        async def renew() -> bool:
            return lease.id in self._leases

        async def revoke() -> None:
            # From here on no commit can use the lease; what was written under it is removed next.
            del self._leases[lease.id]
            await self._in_thread(self._remove_leased, lease.id)

        lease.keep(renew, revoke)
        return lease

    def watch(self, prefix: str) -> Watch:
        """Follow the commits of this process: no other process can write."""
        return self._feed.watch(prefix, lambda: self._list(prefix))

    async def aclose(self) -> None:
        """Finish what was begun, close the file and release the lock."""
        for lease in list(self._leases.values()):
            await lease.revoke()
        await asyncio.to_thread(self._thread.shutdown)
        self._reader.close()
        self._writer.close()
        os.close(self._lock)

    def _check_lease(self, lease_id: LeaseId) -> None:
        lease = self._leases.get(lease_id)
        if lease is None or lease.remaining_s() <= 0:
            raise MetadataConflict(f"lease {lease_id} is lost")

    async def _in_thread(self, work: Callable[..., Change], *arguments: object) -> int:
        loop = asyncio.get_running_loop()

        def work_and_publish() -> int:
            # Published from here: the caller may have been cancelled meanwhile.
            change = work(*arguments)
            loop.call_soon_threadsafe(self._feed.publish, change)
            return change.version

        return await loop.run_in_executor(self._thread, work_and_publish)

    def _read(self, query: str, *arguments: str | int) -> list[Entry]:
        try:
            return [Entry(*row) for row in self._reader.execute(query, arguments)]
        except sqlite3.Error as failed:
            raise MetadataUnavailable(f"cannot read {self._path}: {failed}") from failed

    def _list(self, prefix: str) -> Listing:
        self._read("BEGIN")  # version and entries are of the same moment
        try:
            entries = self._read(_FIND, prefix, prefix + BEYOND, "", -1)
            return Listing(_version(self._reader), entries)
        finally:
            self._read("COMMIT")

    def _commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare] = ()) -> Change:
        database = self._writer
        synced = any(isinstance(write, Put) and write.synced for write in writes)
        try:
            if synced:
                database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE")
            try:
                self._compare(guards)
                change = self._write(writes)
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
        except sqlite3.Error as failed:
            raise MetadataUnavailable(f"cannot write {self._path}: {failed}") from failed
        finally:
            if synced:
                database.execute(f"PRAGMA synchronous = {self._synchronous}")
        return change

    def _compare(self, guards: Sequence[Compare]) -> None:
        for guard in guards:
            row = self._writer.execute(
                "SELECT version FROM entry WHERE key = ?", (guard.key,)
            ).fetchone()
            version = row[0] if row else 0
            if version != guard.version:
                raise MetadataConflict(
                    f"{guard.key} is at version {version}, not at {guard.version}"
                )

    def _write(self, writes: Sequence[Put | Remove]) -> Change:
        database = self._writer
        change = Change(_version(database) + (1 if writes else 0), [], [])
        for write in writes:
            database.execute("DELETE FROM leased WHERE key = ?", (write.key,))
            match write:
                case Put(key=key, value=value, lease=lease):
                    database.execute(_PUT, (key, value, change.version))
                    change.written.append(Entry(key, value, change.version))
                    if lease is not None:
                        database.execute("INSERT INTO leased VALUES (?, ?)", (key, lease))
                case Remove(key):
                    if database.execute("DELETE FROM entry WHERE key = ?", (key,)).rowcount:
                        change.removed.append(key)
        database.execute("UPDATE revision SET version = ?", (change.version,))
        return change

    def _remove_leased(self, lease_id: LeaseId) -> Change:
        return self._commit([Remove(key) for key in self._leased("WHERE lease = ?", lease_id)])

    def _leased(self, which: str, *arguments: int) -> list[str]:
        try:
            rows = self._writer.execute(f"SELECT key FROM leased {which}", arguments)
            return [row[0] for row in rows]
        except sqlite3.Error as failed:
            raise MetadataUnavailable(f"cannot read {self._path}: {failed}") from failed


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("SELECT version FROM revision").fetchone()[0])


def _connect(path: Path) -> sqlite3.Connection:
    # Transactions are begun and ended by hand; each connection is used by one thread at a time.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def _lock(path: Path) -> int:
    """Hold the file for this process. The kernel lets go when the process dies, however it dies."""
    name = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as failed:
        raise MetadataUnavailable(f"cannot open {name}: {failed}") from failed
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"%d\n" % os.getpid(), 0)
    except BlockingIOError:
        owner = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(handle)
        raise MetadataUnavailable(f"{path} is already in use by process {owner}") from None
    except OSError as failed:
        os.close(handle)
        raise MetadataUnavailable(f"cannot lock {name}: {failed}") from failed
    return handle


def peek(path: Path, prefix: str) -> list[Entry]:
    """Read a range of keys beside the process that has the file, changing nothing."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            query = "SELECT key, value, version FROM entry WHERE key >= ? AND key < ? ORDER BY key"
            return [Entry(*row) for row in database.execute(query, (prefix, prefix + BEYOND))]
        finally:
            database.close()
    except sqlite3.Error as failed:
        raise MetadataUnavailable(f"cannot read {path}: {failed}") from failed
