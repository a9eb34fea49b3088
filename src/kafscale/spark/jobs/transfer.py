"""Moving objects to and from a worker: many small reads at once, writes under names of our own.

Here: patience with a store that stumbles, and no more than that: a task that fails is repeated by
Spark. Next door: what the bytes are (assembly.py), the store itself (spark/bucket.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeVar

from kafscale.log import survey
from kafscale.model.errors import ObjectExists, StoreUnavailable
from kafscale.objects.store import Buffer, ObjectStore
from kafscale.spark.bucket import Bucket

CHUNK_BYTES: Final = 4 << 20  # of a size that memory is given out again for, without page faults
_ATTEMPTS: Final = 5
_FIRST_PAUSE_S: Final = 0.2
_T = TypeVar("_T")


async def patiently(work: Callable[[], Awaitable[_T]]) -> _T:
    """Ask again a few times where the store did not answer."""
    for attempt in range(_ATTEMPTS - 1):
        try:
            return await work()
        except StoreUnavailable:
            await asyncio.sleep(_FIRST_PAUSE_S * 2**attempt)
    return await work()


def read_all(bucket: Bucket, keys: Sequence[str]) -> list[memoryview]:
    """Whole objects, side by side, in order."""

    async def look(store: ObjectStore) -> list[memoryview]:
        return await survey.gathered(patiently(lambda key=key: store.read(key)) for key in keys)  # type: ignore[misc]

    return bucket.run(look)


def chunks(bucket: Bucket, key: str, size: int) -> Iterator[memoryview]:
    """One object from its beginning to `size`, a few megabytes at a time."""
    for at in range(0, size, CHUNK_BYTES):
        length = min(CHUNK_BYTES, size - at)
        yield bucket.run(
            lambda store, at=at, length=length: patiently(lambda: store.read(key, at, length))  # type: ignore[misc]
        )


def put_own(bucket: Bucket, key: str, body: Sequence[Buffer]) -> None:
    """Create an object under a name that nobody else can have: if it is taken, it is ours."""

    async def write(store: ObjectStore) -> None:
        try:
            await patiently(lambda: store.put_new(key, body))
        except ObjectExists:
            return

    bucket.run(write)
