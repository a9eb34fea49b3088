"""Reading a split, in a Python worker: bytes from the bucket, Arrow out.

Here: joining small Arrow batches; going on after objects were replaced meanwhile.
Next door: what is to be read (plan/splits.py), the bytes (source/fetching.py), the decoding
(kernels/).
Never here: Spark.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from kafscale.model.errors import CorruptObject, ObjectMissing
from kafscale.spark.bucket import Bucket
from kafscale.spark.kernels.decoder import PartitionWindow, RecordDecoder
from kafscale.spark.source import pins
from kafscale.spark.source.fetching import Fetch
from kafscale.spark.source.plan.offsets import DataLost
from kafscale.spark.source.plan.splits import Slice, Split
from kafscale.spark.views import PartitionView, read_all_views

_SMALL: Final = 2 << 20  # Arrow batches below this are joined with their neighbours

_settled = False


Refresh = Callable[[Sequence[Slice]], list[Slice]]  # the first of them misses something


def read_split(
    bucket: Bucket, split: Split, decoder: RecordDecoder, since_ms: int | None, refresh: Refresh
) -> Iterator[pa.RecordBatch]:
    """All rows of a split; `refresh` gives slices anew when objects are gone."""
    settle()
    return joined(_rows(bucket, split, decoder, since_ms, refresh))


def settle() -> None:
    """Once per worker: Spark collects garbage after every task, over all our libraries: 40 ms."""
    global _settled
    if not _settled:
        gc.freeze()
        _settled = True


def replaced(
    bucket: Bucket, fail_on_data_loss: bool, as_of: str = "", *, committed: bool = True
) -> Refresh:
    """Look up what holds slices now: compaction may have replaced objects since the planning."""

    def refresh(slices: Sequence[Slice]) -> list[Slice]:
        if as_of:
            raise pins.expired(as_of)
        wanted: dict[str, set[int]] = {}
        for piece in slices:
            wanted.setdefault(piece.topic, set()).add(piece.partition)
        views = read_all_views(bucket, [bucket.topic(name) for name in wanted], wanted)
        if not committed:
            views = [view.uncommitted() for view in views]
        by_partition = {(view.topic, view.partition): view for view in views}
        missing, *others = slices
        # What the others have lost, if anything, may be readable for a while yet.
        return [
            _again(missing, by_partition[missing[:2]], fail_on_data_loss),
            *(
                piece
                if by_partition[piece[:2]].start > piece.first
                else _again(piece, by_partition[piece[:2]], False)
                for piece in others
            ),
        ]

    return refresh


def _again(piece: Slice, view: PartitionView, fail_on_data_loss: bool) -> Slice:
    if view.start > piece.first and fail_on_data_loss:
        raise DataLost(
            f"{piece.topic}-{piece.partition}: offsets {piece.first} to {view.start - 1} were "
            "deleted while they were read (failOnDataLoss=false reads on without them)"
        )
    first = min(max(piece.first, view.start), piece.until)
    return piece._replace(stored_ranges=view.stored_ranges).narrowed(first, piece.until)


def _rows(
    bucket: Bucket, split: Split, decoder: RecordDecoder, since_ms: int | None, refresh: Refresh
) -> Iterator[pa.RecordBatch]:
    left: Sequence[Slice] = split
    looked_up = None  # where something was missing last
    while left:
        fetch = Fetch(bucket, [stored for piece in left for stored in piece.stored_ranges])
        at = 0
        for number, piece in enumerate(left):
            mine = range(at, at + len(piece.stored_ranges))
            at = mine.stop
            try:
                yield from decoder.decode(_lane(piece, since_ms), map(fetch.piece, mine))
            except ObjectMissing as gone:
                fresh = piece._replace(first=max(piece.first, decoder.next_offset))
                if looked_up == fresh[:3]:
                    raise CorruptObject(f"{gone} is named by the log and not there") from gone
                looked_up = fresh[:3]
                left = refresh([fresh, *left[number + 1 :]])
                break
        else:
            return


def _lane(piece: Slice, since_ms: int | None) -> PartitionWindow:
    aborted = dict.fromkeys(row for stored in piece.stored_ranges for row in stored.aborted)
    return PartitionWindow(
        piece.topic, piece.partition, piece.first, piece.until, since_ms, tuple(aborted)
    )


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
