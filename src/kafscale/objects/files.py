"""Objects as files below one folder.

Here: a file is written under a hidden temporary name and then hard-linked to its key. link(2)
refuses a name that is taken and shows whole files only, so it is our create-if-absent. Symbolic
links below the folder are refused: what lies behind one is not the broker's to read or delete.
Next door: the path-safe key check (names.py), the same port on a bucket (s3.py).

Small bodies without fsync are written in the event loop itself: for 1 KiB the way through a
thread costs six times the CPU of the write (22 against 128 us), for 64 KiB still 1.6 times.
What the page cache holds is read in the event loop, too, where the kernel can tell (Linux, most
file systems): 256 KiB take 33 us there, and 99 by a thread.
"""

import asyncio
import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from kafscale.model.buffers import Buffer
from kafscale.model.errors import (
    ObjectExists,
    ObjectMissing,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from kafscale.objects.names import check_folder, check_key, inside
from kafscale.objects.store import StoredObject

INLINE_BYTES: Final = 64 * 1024  # up to this size the event loop does the work itself
CACHED_BYTES: Final = 320 * 1024  # up to this size the event loop reads what the page cache holds
LEFTOVER_AGE_S: Final = 600  # a temporary file this old was left by a process that died
_BUFFERS_PER_WRITE: Final = 1024  # IOV_MAX
_MOST_FOLDERS_KNOWN: Final = 100_000
_NAMESPACE_ATTEMPTS: Final = 5  # delete() removes empty folders, perhaps just before our link
# Definite refusals of link(2); anything else may have happened on a network file system.
_REFUSED: Final = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
        errno.EXDEV,
        errno.ENOENT,
    }
)
_T = TypeVar("_T")


class FileObjectStore:
    """One folder, shared safely by any number of processes on this machine.

    With `fsync` an object is on the disk when put_new returns; without, it survives the death
    of the process but perhaps not of the machine. It is whole or absent either way, as far as
    the file system keeps the order of data and names.
    """

    def __init__(self, root: Path, fsync: bool = False) -> None:
        self._root = os.path.abspath(root)
        self._fsync = fsync
        self._temp = os.path.join(self._root, ".tmp")
        self._temp_name = f"{self._temp}/{_token()}"
        self._numbers = count()
        self._clock_file = f"{self._temp}/clock"
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="kafscale-files")
        self._real_folders = {self._root}  # known to be no symbolic links
        self._can_tell_cached = True  # until the file system says that it cannot
        try:
            if os.path.islink(self._temp):
                raise _link_refused(self._temp)
            self._make_clock()
            self._remove_leftovers()
        except OSError as failed:
            raise StoreRefused(f"cannot use {self._root} for objects: {failed}") from failed

    def _make_clock(self) -> None:
        os.makedirs(self._temp, exist_ok=True)
        os.close(os.open(self._clock_file, os.O_WRONLY | os.O_CREAT, 0o644))

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """Write beside, then link."""
        path = self._path(key)
        if not self._fsync and sum(map(len, body)) <= INLINE_BYTES:
            self._put(path, body)
        else:
            await self._in_thread(self._put, path, body)

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Read a range; in a thread if it takes long, so that the loop goes on meanwhile."""
        path = self._path(key)
        data = _read(path, start, length, self._read_at_once)
        if data is not None:
            return data
        return await self._in_thread(_read, path, start, length, _read_range)

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        """Scan directories, never asking for the size of a file that is not wanted."""
        check_folder(folder)
        return await self._in_thread(self._find, inside(folder), after, before, limit)

    async def folders(self, folder: str) -> list[str]:
        """One directory's directories. An empty one is on its way out and of no interest."""
        check_folder(folder)
        return await self._in_thread(self._folders, inside(folder))

    async def delete(self, keys: Sequence[str]) -> None:
        """Unlink, and drop the folders that became empty."""
        await self._in_thread(self._delete, [self._path(key) for key in keys])

    async def now_ms(self) -> int:
        """Touch a file and look: the very clock that stamps objects, even over a network."""
        try:
            try:
                os.utime(self._clock_file)
            except FileNotFoundError:  # the folder was emptied meanwhile
                self._make_clock()
            return os.stat(self._clock_file).st_mtime_ns // 1_000_000
        except OSError as failed:
            raise StoreUnavailable(f"cannot touch {self._clock_file}: {failed}") from failed

    async def aclose(self) -> None:
        """Let the work in flight finish and end the threads."""
        await asyncio.to_thread(self._threads.shutdown)

    def _path(self, key: str) -> str:
        path = f"{self._root}/{check_key(key)}"
        self._refuse_links_to(path.rpartition("/")[0])
        return path

    def _refuse_links_to(self, folder: str) -> None:
        """Refuse a folder that is, or lies behind, a symbolic link. Each is looked at once."""
        if folder in self._real_folders or len(folder) <= len(self._root):
            return
        self._refuse_links_to(folder.rpartition("/")[0])
        try:
            facts = os.lstat(folder)
        except (FileNotFoundError, NotADirectoryError):
            return  # looked at again when it is there
        except OSError as failed:
            _fail("look at", folder, failed)
        if stat.S_ISLNK(facts.st_mode):
            raise _link_refused(folder)
        if len(self._real_folders) >= _MOST_FOLDERS_KNOWN:
            self._real_folders = {self._root}
        self._real_folders.add(folder)

    def _read_at_once(self, source: int, start: int, length: int) -> memoryview | None:
        """A range that takes no waiting; None if a thread should read it."""
        if length > CACHED_BYTES:
            return None
        if self._can_tell_cached:
            try:
                return _read_cached(source, start, length)
            except OSError as failed:
                if failed.errno != errno.EOPNOTSUPP:
                    raise
            self._can_tell_cached = False
        return _read_range(source, start, length) if length <= INLINE_BYTES else None

    async def _in_thread(self, work: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _put(self, path: str, body: Sequence[Buffer]) -> None:
        temp = f"{self._temp_name}-{next(self._numbers)}"
        try:
            try:
                _write(temp, body, self._fsync)
                os.utime(temp)  # deletion goes by ages: that of an object begins with its name
            except OSError as failed:
                raise StoreRefused(f"cannot write {path}: {failed}") from failed
            self._link(temp, path)
        finally:
            # What stays behind is removed by a later start; the object itself is decided.
            with suppress(OSError):
                os.unlink(temp)
        self._sync_folder_of(path)

    def _sync_folder_of(self, path: str) -> None:
        if self._fsync:
            try:
                _sync_folder(os.path.dirname(path))
            except OSError as failed:
                raise StoreUnavailable(f"cannot sync the folder of {path}: {failed}") from failed

    def _link(self, temp: str, path: str) -> None:
        for attempt in range(_NAMESPACE_ATTEMPTS):
            try:
                os.link(temp, path)
                return
            except FileExistsError:
                # An earlier attempt of this writer may have linked it and failed after that.
                # Readers that find the object rely on it.
                self._sync_folder_of(path)
                raise ObjectExists(path) from None
            except FileNotFoundError as failed:
                if attempt == _NAMESPACE_ATTEMPTS - 1:
                    _fail("create", path, failed)
                self._make_folder(os.path.dirname(path))
            except OSError as failed:
                _fail("create", path, failed)

    def _make_folder(self, folder: str) -> None:
        parent = os.path.dirname(folder)
        try:
            if not os.path.isdir(parent):
                self._make_folder(parent)
            with suppress(FileExistsError):
                os.mkdir(folder)
            if self._fsync:
                _sync_folder(parent)
        except FileNotFoundError:
            return  # a delete() removed the parent just now: the next attempt makes it again
        except OSError as failed:
            raise StoreRefused(f"cannot create folder {folder}: {failed}") from failed

    def _find(self, prefix: str, after: str, before: str, limit: int) -> list[StoredObject]:
        self._refuse_links_to(f"{self._root}/{prefix}".rstrip("/"))
        names: list[str] = []
        self._scan(prefix, after, before, names)
        names.sort()
        found: list[StoredObject] = []
        for key in names:
            if limit and len(found) == limit:
                break
            try:
                facts = os.lstat(f"{self._root}/{key}")
            except (FileNotFoundError, NotADirectoryError):  # deleted while we looked
                continue
            except OSError as failed:
                _fail("list", f"{self._root}/{key}", failed)
            found.append(StoredObject(key, facts.st_size, facts.st_mtime_ns // 1_000_000))
        return found

    def _scan(self, prefix: str, after: str, before: str, found: list[str]) -> None:
        try:
            with os.scandir(f"{self._root}/{prefix}") as entries:
                for entry in entries:
                    key = prefix + entry.name
                    if entry.is_symlink():
                        raise _link_refused(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        if _may_hold(key + "/", after, before) and not key.startswith("."):
                            self._scan(key + "/", after, before, found)
                    elif key > after and (not before or key < before):
                        found.append(key)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as failed:
            _fail("list", f"{self._root}/{prefix}", failed)

    def _folders(self, prefix: str) -> list[str]:
        self._refuse_links_to(f"{self._root}/{prefix}".rstrip("/"))
        names = []
        try:
            with os.scandir(f"{self._root}/{prefix}") as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise _link_refused(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        names.append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as failed:
            _fail("list", f"{self._root}/{prefix}", failed)
        return sorted(name for name in names if prefix or not name.startswith("."))

    def _delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as failed:
                _fail("delete", path, failed)
        for folder in {os.path.dirname(path) for path in paths}:
            self._drop_empty(folder)

    def _drop_empty(self, folder: str) -> None:
        with suppress(OSError):  # not empty, or gone already
            while folder != self._root:
                os.rmdir(folder)
                self._real_folders.discard(folder)
                folder = os.path.dirname(folder)

    def _remove_leftovers(self) -> None:
        os.utime(self._clock_file)
        oldest = os.stat(self._clock_file).st_mtime - LEFTOVER_AGE_S
        with os.scandir(self._temp) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process cleans, too
                    if entry.stat().st_mtime < oldest:
                        os.unlink(entry.path)


def _token() -> str:
    # Tells temporary files of processes apart, also of containers that are all process 1.
    return os.urandom(6).hex()


def _link_refused(path: str) -> StoreRefused:
    return StoreRefused(
        f"{path} is a symbolic link, and the data folder must hold none; move or mount there what "
        "it leads to"
    )


def _fail(verb: str, path: str, failed: OSError) -> NoReturn:
    error: type[StoreError] = StoreRefused if failed.errno in _REFUSED else StoreUnavailable
    raise error(f"cannot {verb} {path}: {failed}") from failed


def _may_hold(prefix: str, after: str, before: str) -> bool:
    """Whether a folder can hold keys of the range."""
    return (prefix > after or after.startswith(prefix)) and (not before or prefix < before)


def _write(path: str, body: Sequence[Buffer], fsync: bool) -> None:
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        left = [memoryview(buffer) for buffer in body]
        while left:
            written = os.writev(target, left[:_BUFFERS_PER_WRITE])
            left = _unwritten(left, written)
        if fsync:
            os.fsync(target)
    finally:
        os.close(target)


def _unwritten(buffers: list[memoryview], written: int) -> list[memoryview]:
    for index, buffer in enumerate(buffers):
        if written < len(buffer):
            return [buffer[written:], *buffers[index + 1 :]]
        written -= len(buffer)
    return []


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(
    path: str,
    start: int,
    length: int | None,
    read_range: Callable[[int, int, int], _T],
) -> _T:
    """What `read_range` makes of the open file, and of the part of the range that there is."""
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        raise ObjectMissing(path) from None
    except OSError as failed:
        if failed.errno == errno.ELOOP:
            raise _link_refused(path) from None
        _fail("read", path, failed)
    try:
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode):
            raise ObjectMissing(path)
        rest = max(facts.st_size - start, 0)
        return read_range(source, start, rest if length is None else min(length, rest))
    except OSError as failed:
        _fail("read", path, failed)
    finally:
        os.close(source)


def _read_cached(source: int, start: int, length: int) -> memoryview | None:
    """A range of which the page cache holds all; None if it does not."""
    if sys.platform != "linux":
        raise OSError(errno.EOPNOTSUPP, "only Linux can tell")
    data = bytearray(length)
    try:
        got = os.preadv(source, [data], start, os.RWF_NOWAIT)
    except BlockingIOError:
        return None
    return memoryview(data).toreadonly() if got == length else None


def _read_range(source: int, start: int, length: int) -> memoryview:
    data = os.pread(source, length, start)
    if len(data) == length:
        return memoryview(data)
    # One call gives at most 2 GiB; the object itself never shrinks.
    pieces = [data]
    got = len(data)
    while got < length and (data := os.pread(source, length - got, start + got)):
        pieces.append(data)
        got += len(data)
    return memoryview(b"".join(pieces))
