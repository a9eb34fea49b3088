"""Places to cut inside an object, from the index beside it.

Here: dividing large ranges, and leaving out what a window does not need. An index is a hint:
a place counts only if the batch that begins there has the offset the index says.
Next door: packing the parts into tasks (splits.py).
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

from kafscale.log.formats import index, keys
from kafscale.log.formats.index import Index
from kafscale.log.protocol import survey
from kafscale.model.errors import CorruptObject, ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.spark.bucket import Bucket
from kafscale.spark.source.plan.splits import Slice
from kafscale.spark.views import StoredRange

_WORTH_IT: Final = 4 << 20  # below this, reading all of it costs less than looking at the index

CutPoint = tuple[int, int]  # offset, byte position


def refined(bucket: Bucket, slices: Sequence[Slice], target: int) -> list[Slice]:
    """The same windows over smaller ranges, where objects are large."""
    large = {
        stored: (piece.first, piece.until)
        for piece in slices
        for stored in piece.stored_ranges
        if stored.has_index and _is_worth_it(stored, piece, target)
    }
    if not large:
        return list(slices)

    async def look(store: ObjectStore) -> list[list[CutPoint]]:
        work = (_places(store, stored, target, *large[stored]) for stored in large)
        return await survey.await_limited(work)

    cuts = dict(zip(large, bucket.run(look), strict=True))
    return [
        piece._replace(
            stored_ranges=tuple(
                part
                for stored in piece.stored_ranges
                for part in divided(stored, cuts.get(stored, ()))
                if part.first < piece.until and part.last >= piece.first
            )
        )
        for piece in slices
    ]


def _is_worth_it(stored: StoredRange, piece: Slice, target: int) -> bool:
    unwanted = max(0, piece.first - stored.first) + max(0, stored.last + 1 - piece.until)
    narrow = stored.length >= _WORTH_IT and unwanted * 4 > stored.last - stored.first
    return narrow or 2 * stored.length > 3 * target


async def _places(
    store: ObjectStore, stored: StoredRange, target: int, first: int, until: int
) -> list[CutPoint]:
    """Places that have been looked at; none if there is no index or it does not add up."""
    try:
        positions = index.decode(await store.read(keys.index_of(stored.key)))
    except (ObjectMissing, CorruptObject):
        return []
    wanted = places(positions, stored, target, first, until)
    heads = await survey.await_limited(
        store.read(stored.key, position, batch.HEADER_SIZE) for _, position in wanted
    )
    rows = zip(wanted, heads, strict=True)
    return [place for place, head in rows if _is_there(head, place[0])]


def _is_there(head: memoryview, offset: int) -> bool:
    if len(head) < batch.HEADER_SIZE:
        return False
    header = batch.read_header(head)
    return header.magic == 2 and header.base_offset == offset


def places(
    positions: Index, stored: StoredRange, target: int, first: int, until: int
) -> list[CutPoint]:
    """Where to cut: at the window's edges, and every `target` bytes between them."""
    low = stored.lane * index.RANGE
    rows = [
        (address - low, position)
        for address, position in zip(positions.addresses, positions.positions, strict=True)
        if stored.first < address - low <= stored.last
        and stored.start < position < stored.start + stored.length
    ]
    chosen: list[CutPoint] = []
    due = stored.start + target
    for row, following in zip_longest(rows, rows[1:]):
        begins = row[0] <= first and (following is None or following[0] > first)
        ends = row[0] >= until and (not chosen or chosen[-1][0] < until)
        if begins or ends or (first < row[0] < until and row[1] >= due):
            chosen.append(row)
            due = row[1] + target
    return chosen


def divided(stored: StoredRange, cuts: Iterable[CutPoint]) -> list[StoredRange]:
    """The range in parts; batches that were compacted away leave no part uncovered."""
    parts: list[StoredRange] = []
    rest = stored
    for offset, position in cuts:
        parts.append(rest._replace(last=offset - 1, length=position - rest.start, has_index=False))
        end = rest.start + rest.length
        rest = rest._replace(first=offset, start=position, length=end - position, has_index=False)
    return [*parts, rest]
