"""The bytes of a task, from the bucket, in the order in which they are wanted.

Here: fetching ahead while others decode, many small objects side by side, and neighbours in one
object with one request. Next door: what is done with the bytes (rows/reading.py).
Never here: Spark, the records.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from typing import Final, NamedTuple

from kafscale.log.protocol import survey
from kafscale.model.errors import CorruptObject
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.kernels.decoder import BUFFER_BYTES, ObjectPiece
from kafscale.spark.views import StoredRange

_CHUNK: Final = BUFFER_BYTES
_AT_ONCE: Final = 64  # objects fetched side by side
_HELD: Final = 96 << 20  # bytes of a task that may be in memory at once
_GAP: Final = 16 << 10  # bytes between two parts that cost less than another request


class _Part(NamedTuple):
    key: str
    start: int
    length: int


def pieces(bucket: Bucket, stored_ranges: Sequence[StoredRange]) -> Iterator[ObjectPiece]:
    """The ranges' bytes, the next ones being fetched while the last ones are in use."""
    return map(Fetch(bucket, stored_ranges).piece, range(len(stored_ranges)))


class Fetch:
    """The bytes of many ranges in order, fetched ahead across all of them.

    A task may consist of thousands of small objects of as many partitions; one by one they would
    cost a round trip each.
    """

    def __init__(self, bucket: Bucket, stored_ranges: Sequence[StoredRange]) -> None:
        self._ranges = stored_ranges
        parts = [_parts(stored) for stored in stored_ranges]
        self._ends = list(accumulate(map(len, parts)))
        self._chunks = _in_order(bucket, [part for row in parts for part in row])
        self._at = 0

    def piece(self, number: int) -> ObjectPiece:
        """One of them; to be asked for in order, and read as far as is needed."""
        stored = self._ranges[number]
        return ObjectPiece(stored.key, stored.start, self._chunks_of(number))

    def _chunks_of(self, number: int) -> Iterator[memoryview]:
        start = self._ends[number - 1] if number else 0
        while self._at < start:  # what an earlier reader did not need
            next(self._chunks)
            self._at += 1
        while self._at < self._ends[number]:
            chunk = next(self._chunks)
            self._at += 1
            yield chunk


def _parts(stored: StoredRange) -> list[_Part]:
    end = stored.start + stored.length
    return [_Part(stored.key, at, min(_CHUNK, end - at)) for at in range(stored.start, end, _CHUNK)]


def _in_order(bucket: Bucket, parts: Sequence[_Part]) -> Iterator[memoryview]:
    """The parts' bytes; all at once where they are crumbs of a few objects.

    Lanes of a shared log lie side by side in every object, while partition after partition is
    wanted: one by one they would cost a request per partition and object.
    """
    wholes = _together(parts)
    if 4 * len(wholes) > len(parts) or sum(whole.length for whole in wholes) > _HELD:
        return _fetched(bucket, parts)
    return _cut_out(parts, wholes, _fetched(bucket, wholes))


def _together(parts: Sequence[_Part]) -> list[_Part]:
    """What lies side by side in one object as one part; sorted."""
    parts_read: list[_Part] = []
    for part in sorted(parts):
        last = parts_read[-1] if parts_read else None
        if last and last.key == part.key and part.start <= last.start + last.length + _GAP:
            length = max(last.length, part.start + part.length - last.start)
            parts_read[-1] = last._replace(length=length)
        else:
            parts_read.append(part)
    return parts_read


def _cut_out(
    parts: Sequence[_Part], wholes: Sequence[_Part], fetched: Iterator[memoryview]
) -> Iterator[memoryview]:
    held = list(fetched)
    for part in parts:
        at = bisect_right(wholes, (part.key, part.start, _HELD)) - 1
        start = part.start - wholes[at].start
        yield held[at][start : start + part.length]


def _fetched(bucket: Bucket, parts: Sequence[_Part]) -> Iterator[memoryview]:
    rounds = list(_rounds(parts))
    if not rounds:
        return
    with ThreadPoolExecutor(1, "kafscale-fetch") as fetcher:
        ahead: Future[list[memoryview]] = fetcher.submit(_fetch, bucket, rounds[0])
        for following in [*rounds[1:], None]:
            chunks = ahead.result()
            if following is not None:
                ahead = fetcher.submit(_fetch, bucket, following)
            yield from chunks


def _rounds(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Parts that together fill one chunk."""
    batch: list[_Part] = []
    size = 0
    for part in parts:
        if batch and (size + part.length > _CHUNK or len(batch) == _AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += part.length
    if batch:
        yield batch


def _fetch(bucket: Bucket, parts: Sequence[_Part]) -> list[memoryview]:
    async def fetch(store: ObjectStore) -> list[memoryview]:
        return await survey.await_limited(store.read(*part) for part in parts)

    bodies = bucket.run(fetch)
    for part, data in zip(parts, bodies, strict=True):
        if len(data) != part.length:
            raise CorruptObject(
                f"{part.key}, byte {part.start}: {len(data)} bytes where {part.length} should be"
            )
    return bodies
