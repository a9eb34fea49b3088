"""A wrapper that reports how long each operation took and how many requests it needed.

Next door: the users of the reports (health.py, engine/metrics/series.py).
"""

from collections.abc import Callable, Sequence
from typing import Final

from kafscale.model.buffers import Buffer
from kafscale.model.clock import Clock
from kafscale.model.errors import ObjectExists, ObjectMissing, StoreError
from kafscale.objects.health import HealthWindow
from kafscale.objects.store import PAGE, CountsRequests, ObjectStore, OnRequest, StoredObject

# operation (put, get, list, delete, time), key or folder, seconds, body bytes, ok: whether the
# operation counts as a success for the health window
ObserveRequest = Callable[[str, str, float, int, bool], None]

CLOCK_KEY = ""  # reading the store's clock is about no key
_LARGE: Final = 8 << 20  # a healthy store may need long for a body of this size


class InstrumentedStore:
    """Passes every call on. A taken or missing key is an answer, not a failure.

    Cancelled operations are not reported: they say nothing about the store. A store that knows its
    requests reports them itself; for the others this wrapper counts what a bucket would need.
    `window` gets the same reports. It also learns which operations are in flight, except those that
    may take long on a healthy store: listings of many pages, deletions of many keys, large bodies.
    """

    def __init__(
        self,
        inner: ObjectStore,
        observe: ObserveRequest,
        on_request: OnRequest,
        clock: Clock,
        window: HealthWindow | None = None,
    ) -> None:
        self._inner = inner
        self._window = window
        self._observe = observe
        self._clock = clock
        self._on_request = on_request
        if isinstance(inner, CountsRequests):
            inner.on_request = on_request
            self._on_request = lambda _request, _key, _count: None

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """Report as put, with the bytes that were sent."""
        size = sum(map(len, body))
        is_watched = size < _LARGE
        began_s = self._begin(is_watched)
        self._on_request("put", key, 1)
        try:
            await self._inner.put_new(key, body)
        except StoreError as failed:
            self._report("put", key, began_s, 0, failed)
            raise
        else:
            self._report("put", key, began_s, size)
        finally:
            self._end(is_watched)

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Report as get, with the bytes that came."""
        is_watched = (length or 0) < _LARGE
        began_s = self._begin(is_watched)
        self._on_request("get", key, 1)
        try:
            data = await self._inner.read(key, start, length)
        except StoreError as failed:
            self._report("get", key, began_s, 0, failed)
            raise
        else:
            self._report("get", key, began_s, len(data))
            return data
        finally:
            self._end(is_watched)

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        """Report as list."""
        began_s = self._clock.elapsed_s()
        try:
            found = await self._inner.find(folder, after, before, limit)
        except StoreError as failed:
            self._on_request("list", folder, 1)
            self._report("list", folder, began_s, 0, failed)
            raise
        self._on_request("list", folder, _pages(found))
        self._report("list", folder, began_s, 0)
        return found

    async def folders(self, folder: str) -> list[str]:
        """Report as list."""
        began_s = self._clock.elapsed_s()
        try:
            found = await self._inner.folders(folder)
        except StoreError as failed:
            self._on_request("list", folder, 1)
            self._report("list", folder, began_s, 0, failed)
            raise
        self._on_request("list", folder, _pages(found))
        self._report("list", folder, began_s, 0)
        return found

    async def delete(self, keys: Sequence[str]) -> None:
        """Report as delete; the keys of one call belong together."""
        began_s = self._clock.elapsed_s()
        first = keys[0] if keys else ""
        if keys:
            self._on_request("delete", first, _pages(keys))
        try:
            await self._inner.delete(keys)
        except StoreError as failed:
            self._report("delete", first, began_s, 0, failed)
            raise
        self._report("delete", first, began_s, 0)

    async def now_ms(self) -> int:
        """Report as time: the store writes an object and reads its time."""
        began_s = self._begin(True)
        self._on_request("put", CLOCK_KEY, 1)
        self._on_request("head", CLOCK_KEY, 1)
        try:
            now_ms = await self._inner.now_ms()
        except StoreError as failed:
            self._report("time", CLOCK_KEY, began_s, 0, failed)
            raise
        else:
            self._report("time", CLOCK_KEY, began_s, 0)
            return now_ms
        finally:
            self._end(True)

    async def aclose(self) -> None:
        """Close the store inside."""
        await self._inner.aclose()

    def _begin(self, is_watched: bool) -> float:
        """When an operation begins; the window watches it until `_end`."""
        now_s = self._clock.elapsed_s()
        if is_watched and self._window is not None:
            self._window.begin(now_s)
        return now_s

    def _end(self, is_watched: bool) -> None:
        if is_watched and self._window is not None:
            self._window.end(self._clock.elapsed_s())

    def _report(
        self, operation: str, key: str, began_s: float, size: int, failed: StoreError | None = None
    ) -> None:
        ok = failed is None or isinstance(failed, ObjectExists | ObjectMissing)
        now_s = self._clock.elapsed_s()
        if self._window is not None:
            self._window.report(now_s, now_s - began_s, ok)
            if operation == "put":
                self._window.report_write(now_s, "" if ok else str(failed) or "unknown")
        self._observe(operation, key, now_s - began_s, size, ok)


def _pages(rows: Sequence[object]) -> int:
    return max(1, -(-len(rows) // PAGE))
