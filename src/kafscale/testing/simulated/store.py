"""A simulated bucket: linearizable, slow, and as faulty as the test asks.

Here: the bucket, and one handle on it per process.
Next door: what goes wrong on the way (remote.py), the port (objects/store.py), scripted faults
for unit tests (testing/faulty_store.py).
"""

from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from typing import Any, TypeVar

from kafscale.model.buffers import Buffer
from kafscale.model.errors import StoreUnavailable
from kafscale.objects.memory import MemoryObjectStore
from kafscale.objects.store import ObjectStore, StoredObject
from kafscale.testing.simulated.remote import Line, Remote, RemoteFaults

_T = TypeVar("_T")


class SimulatedBucket(Remote):
    """The objects."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        seed: int = 0,
        faults: RemoteFaults | None = None,
        context: Context | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Keep objects by the store's own clock."""
        super().__init__("store", seed, faults, context, note)
        self.objects: ObjectStore = MemoryObjectStore(now_ms)
        self.on_created: Callable[[str, str, bytes], None] = lambda _who, _key, _body: None
        self.on_deleted: Callable[[str, str], None] = lambda _who, _key: None


class SimulatedObjectStore(Line):
    """One process's connection to the bucket; implements objects.store.ObjectStore."""

    def __init__(self, bucket: SimulatedBucket, who: str = "") -> None:
        """Reach `bucket`; what is created and deleted is noted under `who`."""
        super().__init__(bucket, StoreUnavailable)
        self._bucket = bucket
        self._who = who

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        """put_new, some time from now."""
        whole = b"".join(body)  # the caller may use its buffers again

        async def put() -> None:
            await self._bucket.objects.put_new(key, [whole])
            self._bucket.on_created(self._who, key, whole)

        await self._ask(f"put_new {key}", put)

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Read, some time from now."""
        return await self._ask(f"read {key}", lambda: self._bucket.objects.read(key, start, length))

    async def find(
        self, folder: str, after: str = "", before: str = "", limit: int = 0
    ) -> list[StoredObject]:
        """Find, some time from now."""
        return await self._ask(
            f"find {folder}", lambda: self._bucket.objects.find(folder, after, before, limit)
        )

    async def folders(self, folder: str) -> list[str]:
        """Folders, some time from now."""
        return await self._ask(f"folders {folder}", lambda: self._bucket.objects.folders(folder))

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete, some time from now."""
        doomed = tuple(keys)

        async def delete() -> None:
            for key in doomed:
                self._bucket.on_deleted(self._who, key)
            await self._bucket.objects.delete(doomed)

        await self._ask(f"delete {doomed}", delete)

    async def now_ms(self) -> int:
        """Ask for the store's time."""
        return await self._ask("now_ms", lambda: self._bucket.objects.now_ms())

    async def aclose(self) -> None:
        """Nothing to release."""

    async def _ask(self, what: str, deed: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        return await self.ask(what, lambda: finish_at_once(deed()))


def finish_at_once(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    work.close()
    raise RuntimeError("a deed of the simulated store waited for something")
