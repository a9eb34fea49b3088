"""Reading and writing objects in a worker: many small reads at once, writes under unique names.

Here: a few retries where the store does not answer, and no more: Spark repeats a task that fails.
Next door: what the bytes are (compaction/assembly.py), the store itself (spark/bucket.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from kafscale.log.protocol import survey
from kafscale.model.buffers import Buffer
from kafscale.model.errors import ObjectExists, ObjectMissing, StoreUnavailable
from kafscale.objects.store import ObjectStore
from kafscale.retry import Backoff, RetryPolicy
from kafscale.spark.bucket import Bucket

_READ_BYTES: Final = 4 << 20  # more would be fresh memory each time, and page faults cost
_READ_OBJECTS: Final = 64
_ATTEMPTS: Final = 5
_RETRY: Final = RetryPolicy(first_s=0.2, longest_s=1.6)
_T = TypeVar("_T")
_P = ParamSpec("_P")


async def with_retries(work: Callable[_P, Awaitable[_T]], *args: _P.args, **named: _P.kwargs) -> _T:
    """Repeat a request a few times if the store does not answer."""
    backoff = Backoff(_RETRY)
    for _ in range(_ATTEMPTS - 1):
        try:
            return await work(*args, **named)
        except StoreUnavailable:
            await asyncio.sleep(backoff.next_s())
    return await work(*args, **named)


def read_all(bucket: Bucket, keys: Sequence[str]) -> list[memoryview]:
    """Whole objects, side by side, in order."""
    return [_here(found) for found in _read_present(bucket, keys)]


def _read_present(bucket: Bucket, keys: Sequence[str]) -> list[memoryview | ObjectMissing]:
    async def one(store: ObjectStore, key: str) -> memoryview | ObjectMissing:
        try:
            return await with_retries(store.read, key)
        except ObjectMissing as gone:
            return gone

    return bucket.run(lambda store: survey.await_limited(one(store, key) for key in keys))


def _here(found: memoryview | ObjectMissing) -> memoryview:
    if isinstance(found, ObjectMissing):
        raise found
    return found


def bodies(bucket: Bucket, wanted: Sequence[tuple[str, int]]) -> Iterator[memoryview]:
    """Whole objects in order, given with their sizes; ObjectMissing at the first that is gone."""
    return map(_here, present(bucket, wanted))


def present(
    bucket: Bucket, wanted: Sequence[tuple[str, int]]
) -> Iterator[memoryview | ObjectMissing]:
    """Like `bodies`, with the error in the place of an object that is gone.

    Small ones are read many at once, the next are read ahead; no more than two reads are held, so
    that the same memory serves for all of them.
    """
    reads = _reads(wanted)
    with ThreadPoolExecutor(1) as pool:
        ahead = [pool.submit(_read_present, bucket, reads[0])] if reads else []
        for following in (*reads[1:], None):
            if not ahead:
                return
            found = ahead.pop().result()
            if following is not None:
                ahead.append(pool.submit(_read_present, bucket, following))
            yield from found


def _reads(wanted: Sequence[tuple[str, int]]) -> list[list[str]]:
    reads: list[list[str]] = []
    size = 0
    for key, length in wanted:
        if not reads or size + length > _READ_BYTES or len(reads[-1]) >= _READ_OBJECTS:
            reads.append([])
            size = 0
        reads[-1].append(key)
        size += length
    return reads


def put_unique(bucket: Bucket, key: str, body: Sequence[Buffer]) -> None:
    """Create an object under a unique name: if the name is taken, an earlier attempt wrote it."""

    async def write(store: ObjectStore) -> None:
        try:
            await with_retries(store.put_new, key, body)
        except ObjectExists:
            return

    bucket.run(write)
