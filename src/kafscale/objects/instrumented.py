"""A store that reports how long everything took.

Next door: what is made of the reports (health.py, engine/probe.py).
"""

from collections.abc import Callable, Sequence

from kafscale.model.clock import Clock
from kafscale.model.errors import ObjectExists, ObjectMissing, StoreError
from kafscale.objects.store import Buffer, ObjectStore, StoredObject

# operation (put, get, list, delete, time), seconds, body bytes, whether the store is to be praised
Observe = Callable[[str, float, int, bool], None]


class InstrumentedStore:
    """Passes everything through. A taken or missing key is an answer, not a failure.

    Cancelled operations are not reported: they say nothing about the store.
    """

    def __init__(self, inner: ObjectStore, observe: Observe, clock: Clock) -> None:
        self._inner = inner
        self._observe = observe
        self._clock = clock

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """Report as put, with the bytes that were sent."""
        began_s = self._clock.elapsed_s()
        try:
            await self._inner.put_new(key, body)
        except StoreError as failed:
            self._report("put", began_s, 0, failed)
            raise
        self._report("put", began_s, sum(map(len, body)))

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Report as get, with the bytes that came."""
        began_s = self._clock.elapsed_s()
        try:
            data = await self._inner.read(key, start, length)
        except StoreError as failed:
            self._report("get", began_s, 0, failed)
            raise
        self._report("get", began_s, len(data))
        return data

    async def find(self, folder: str, after: str = "", before: str = "") -> list[StoredObject]:
        """Report as list."""
        began_s = self._clock.elapsed_s()
        try:
            found = await self._inner.find(folder, after, before)
        except StoreError as failed:
            self._report("list", began_s, 0, failed)
            raise
        self._report("list", began_s, 0)
        return found

    async def folders(self, folder: str) -> list[str]:
        """Report as list."""
        began_s = self._clock.elapsed_s()
        try:
            found = await self._inner.folders(folder)
        except StoreError as failed:
            self._report("list", began_s, 0, failed)
            raise
        self._report("list", began_s, 0)
        return found

    async def delete(self, keys: Sequence[str]) -> None:
        """Report as delete."""
        began_s = self._clock.elapsed_s()
        try:
            await self._inner.delete(keys)
        except StoreError as failed:
            self._report("delete", began_s, 0, failed)
            raise
        self._report("delete", began_s, 0)

    async def now_ms(self) -> int:
        """Report as time."""
        began_s = self._clock.elapsed_s()
        try:
            now_ms = await self._inner.now_ms()
        except StoreError as failed:
            self._report("time", began_s, 0, failed)
            raise
        self._report("time", began_s, 0)
        return now_ms

    async def aclose(self) -> None:
        """Close the store inside."""
        await self._inner.aclose()

    def _report(
        self, operation: str, began_s: float, size: int, failed: StoreError | None = None
    ) -> None:
        ok = failed is None or isinstance(failed, ObjectExists | ObjectMissing)
        self._observe(operation, self._clock.elapsed_s() - began_s, size, ok)
