"""Objects in a dictionary: for tests, and for a broker that may forget.

Next door: files.py, s3.py. Never here: files, sockets.
"""

import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence

from kafscale.model.buffers import Buffer
from kafscale.model.errors import ObjectExists, ObjectMissing
from kafscale.objects.names import check_folder, check_key, inside
from kafscale.objects.store import StoredObject


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryObjectStore:
    """Everything happens between two awaits, so create-if-absent needs no lock."""

    def __init__(self, now_ms: Callable[[], int] = _wall_ms) -> None:
        self._now_ms = now_ms
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._keys: list[str] = []  # sorted, so that a listing costs what it shows

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """Keep a copy of the bytes: the caller's buffers may be reused."""
        if check_key(key) in self._objects:
            raise ObjectExists(key)
        self._objects[key] = (b"".join(body), self._now_ms())
        insort(self._keys, key)

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Give a view into the stored bytes."""
        try:
            body, _ = self._objects[check_key(key)]
        except KeyError:
            raise ObjectMissing(key) from None
        return memoryview(body)[start : None if length is None else start + length]

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        """List by bisecting the sorted keys."""
        prefix = inside(check_folder(folder))
        first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        end = bisect_left(self._keys, prefix + "\x7f")  # keys are ASCII without control characters
        last = min(end, bisect_left(self._keys, before)) if before else end
        if limit:
            last = min(last, first + limit)
        return [
            StoredObject(key, len(self._objects[key][0]), self._objects[key][1])
            for key in self._keys[first:last]
        ]

    async def folders(self, folder: str) -> list[str]:
        """The first path segments of what `find` finds."""
        skip = len(inside(folder))
        names = {row.key[skip:].partition("/") for row in await self.find(folder)}
        return sorted({name for name, slash, _ in names if slash})

    async def delete(self, keys: Sequence[str]) -> None:
        """Forget the keys."""
        for key in map(check_key, keys):
            if self._objects.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    async def now_ms(self) -> int:
        """The clock that stamps new objects."""
        return self._now_ms()

    async def aclose(self) -> None:
        """Nothing to release; the objects stay, so that a test can open them again."""
