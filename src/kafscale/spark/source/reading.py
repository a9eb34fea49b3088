"""Reading a split, in a Python worker: bytes from the bucket, Arrow out.

Here: fetching ahead while decoding, many small objects side by side; joining small Arrow
batches; going on after objects were replaced meanwhile.
Next door: what is to be read (splits.py), the decoding (kernels/).
Never here: Spark.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from typing import Final, NamedTuple

import pyarrow as pa

from kafscale.log import survey
from kafscale.model.errors import CorruptObject, ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.kernels.decoder import BUFFER_BYTES, Decoder, Lane, Piece
from kafscale.spark.source import pins
from kafscale.spark.source.offsets import DataLost
from kafscale.spark.source.splits import Slice, Split
from kafscale.spark.views import Stretch, look

_CHUNK: Final = BUFFER_BYTES
_AT_ONCE: Final = 64  # objects fetched side by side
_SMALL: Final = 2 << 20  # Arrow batches below this are joined with their neighbours

_settled = False


class _Part(NamedTuple):
    key: str
    start: int
    length: int


Refresh = Callable[[Slice], Slice]


def read_split(
    bucket: Bucket, split: Split, decoder: Decoder, since_ms: int | None, refresh: Refresh
) -> Iterator[pa.RecordBatch]:
    """All rows of a split; `refresh` gives a slice anew when its objects are gone."""
    settle()
    return joined(_rows(bucket, split, decoder, since_ms, refresh))


def settle() -> None:
    """Once per worker: Spark collects garbage after every task, over all our libraries: 40 ms."""
    global _settled
    if not _settled:
        gc.freeze()
        _settled = True


def replaced(bucket: Bucket, fail_on_data_loss: bool, as_of: str = "") -> Refresh:
    """Look up what holds a slice now: compaction may have replaced objects since the planning."""

    def refresh(one: Slice) -> Slice:
        if as_of:
            raise pins.expired(as_of)
        (view,) = look(bucket, bucket.topic(one.topic), [one.partition])
        if view.start > one.first and fail_on_data_loss:
            raise DataLost(
                f"{one.topic}-{one.partition}: offsets {one.first} to {view.start - 1} were "
                "deleted while they were read (failOnDataLoss=false reads on without them)"
            )
        first = min(max(one.first, view.start), one.until)
        return Slice(one.topic, one.partition, first, one.until, view.stretches).narrowed(
            first, one.until
        )

    return refresh


def _rows(
    bucket: Bucket, split: Split, decoder: Decoder, since_ms: int | None, refresh: Refresh
) -> Iterator[pa.RecordBatch]:
    fetch = _Fetch(bucket, [stretch for one in split for stretch in one.stretches])
    at = 0
    for number, one in enumerate(split):
        mine = range(at, at + len(one.stretches))
        at = mine.stop
        try:
            yield from decoder.decode(_lane(one, since_ms), map(fetch.piece, mine))
        except ObjectMissing:
            fresh = refresh(one._replace(first=max(one.first, decoder.next_offset)))
            yield from _once_more(bucket, fresh, decoder, since_ms)
            yield from _rows(bucket, split[number + 1 :], decoder, since_ms, refresh)
            return


def _once_more(
    bucket: Bucket, one: Slice, decoder: Decoder, since_ms: int | None
) -> Iterator[pa.RecordBatch]:
    try:
        yield from decoder.decode(_lane(one, since_ms), pieces(bucket, one.stretches))
    except ObjectMissing as gone:
        raise CorruptObject(f"{gone} is named by the log and not there") from gone


def _lane(one: Slice, since_ms: int | None) -> Lane:
    return Lane(one.topic, one.partition, one.first, one.until, since_ms)


def pieces(bucket: Bucket, stretches: Sequence[Stretch]) -> Iterator[Piece]:
    """The stretches' bytes, the next ones being fetched while the last ones are in use."""
    return map(_Fetch(bucket, stretches).piece, range(len(stretches)))


class _Fetch:
    """The bytes of many stretches in order, fetched ahead across all of them.

    A task may consist of thousands of small objects of as many partitions; one by one they would
    cost a round trip each.
    """

    def __init__(self, bucket: Bucket, stretches: Sequence[Stretch]) -> None:
        self._stretches = stretches
        parts = [_parts(stretch) for stretch in stretches]
        self._ends = list(accumulate(map(len, parts)))
        self._chunks = _fetched(bucket, [part for row in parts for part in row])
        self._at = 0

    def piece(self, number: int) -> Piece:
        """One of them; to be asked for in order, and read as far as is needed."""
        stretch = self._stretches[number]
        return Piece(stretch.key, stretch.start, self._chunks_of(number))

    def _chunks_of(self, number: int) -> Iterator[memoryview]:
        start = self._ends[number - 1] if number else 0
        while self._at < start:  # what somebody before us did not need
            next(self._chunks)
            self._at += 1
        while self._at < self._ends[number]:
            chunk = next(self._chunks)
            self._at += 1
            yield chunk


def _parts(stretch: Stretch) -> list[_Part]:
    end = stretch.start + stretch.length
    return [
        _Part(stretch.key, at, min(_CHUNK, end - at)) for at in range(stretch.start, end, _CHUNK)
    ]


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
        return await survey.gathered(store.read(*part) for part in parts)

    found = bucket.run(fetch)
    for part, data in zip(parts, found, strict=True):
        if len(data) != part.length:
            raise CorruptObject(
                f"{part.key}, byte {part.start}: {len(data)} bytes where {part.length} should be"
            )
    return found


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least a few megabytes: each costs the other side a call."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _SMALL:
            yield _one(waiting)
            waiting, size = [], 0
    if waiting:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
