"""A file, or a folder of files, whose content is read again when it changes.

Here: noticing changes, and keeping what was read last where the new content cannot be used. A
mounted secret of Kubernetes is a folder of links that are replaced all at once.
Next door: what is read so (password_file.py, signing_keys.py).
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from kafscale.model.clock import Clock

logger = structlog.get_logger()

T = TypeVar("T")

_CHECK_EVERY_S: Final = 1.0
MOST_BYTES: Final = 4 << 20


class RereadFile(Generic[T]):
    """The content of a file in the form that `read` makes of it."""

    def __init__(self, path: Path, read: Callable[[Path], T], clock: Clock) -> None:
        """Read it. `read` raises OSError or ValueError for what cannot be used; so does this."""
        self._path = path
        self._read = read
        self._clock = clock
        self._signature = _sign(path)
        self._content = read(path)
        self._checked_s = clock.elapsed_s()

    async def current(self) -> T:
        """The newest content that could be used. It is at most about a second old."""
        now_s = self._clock.elapsed_s()
        if now_s - self._checked_s >= _CHECK_EVERY_S:
            self._checked_s = now_s
            await asyncio.to_thread(self._reread)
        return self._content

    def _reread(self) -> None:
        signature = _sign(self._path)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._content = self._read(self._path)
        except (OSError, ValueError) as problem:
            logger.error("file_unusable", file=str(self._path), reason=str(problem))
        else:
            logger.info("file_reread", file=str(self._path))


def read_text(path: Path) -> str:
    """The text of a small file. Raises OSError, ValueError."""
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES} bytes")
    return raw.decode("utf-8")


def visible_files(folder: Path) -> list[Path]:
    """The files of a folder whose names begin with no dot."""
    return sorted(one for one in folder.iterdir() if one.name[0] != "." and one.is_file())


def _sign(path: Path) -> object:
    """What changes when the content does."""
    try:
        files = visible_files(path) if path.is_dir() else [path]
        found = [(one.name, one.stat()) for one in files]
    except OSError as problem:
        return problem.errno
    return [(name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in found]
