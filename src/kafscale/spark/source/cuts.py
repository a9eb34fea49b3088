"""Places to cut inside an object, from the index beside it.

Here: dividing large stretches, and leaving out what a window does not need. An index is a hint:
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
from kafscale.spark.source.splits import Slice
from kafscale.spark.views import Stretch

_WORTH_IT: Final = 4 << 20  # below this, reading all of it costs less than looking at the index

Place = tuple[int, int]  # offset, byte position


def refined(bucket: Bucket, slices: Sequence[Slice], target: int) -> list[Slice]:
    """The same windows over smaller stretches, where objects are large."""
    large = {
        stretch: (one.first, one.until)
        for one in slices
        for stretch in one.stretches
        if stretch.has_index and _is_worth_it(stretch, one, target)
    }
    if not large:
        return list(slices)

    async def look(store: ObjectStore) -> list[list[Place]]:
        work = (_places(store, stretch, target, *large[stretch]) for stretch in large)
        return await survey.await_limited(work)

    found = dict(zip(large, bucket.run(look), strict=True))
    return [
        one._replace(
            stretches=tuple(
                part
                for stretch in one.stretches
                for part in divided(stretch, found.get(stretch, ()))
                if part.first < one.until and part.last >= one.first
            )
        )
        for one in slices
    ]


def _is_worth_it(stretch: Stretch, one: Slice, target: int) -> bool:
    unwanted = max(0, one.first - stretch.first) + max(0, stretch.last + 1 - one.until)
    narrow = stretch.length >= _WORTH_IT and unwanted * 4 > stretch.last - stretch.first
    return narrow or 2 * stretch.length > 3 * target


async def _places(
    store: ObjectStore, stretch: Stretch, target: int, first: int, until: int
) -> list[Place]:
    """Places that have been looked at; none if there is no index or it does not add up."""
    try:
        found = index.decode(await store.read(keys.index_of(stretch.key)))
    except (ObjectMissing, CorruptObject):
        return []
    wanted = places(found, stretch, target, first, until)
    heads = await survey.await_limited(
        store.read(stretch.key, position, batch.HEADER_SIZE) for _, position in wanted
    )
    rows = zip(wanted, heads, strict=True)
    return [place for place, head in rows if _is_there(head, place[0])]


def _is_there(head: memoryview, offset: int) -> bool:
    if len(head) < batch.HEADER_SIZE:
        return False
    header = batch.read_header(head)
    return header.magic == 2 and header.base_offset == offset


def places(found: Index, stretch: Stretch, target: int, first: int, until: int) -> list[Place]:
    """Where to cut: at the window's edges, and every `target` bytes between them."""
    low = stretch.lane * index.RANGE
    rows = [
        (address - low, position)
        for address, position in zip(found.addresses, found.positions, strict=True)
        if stretch.first < address - low <= stretch.last
        and stretch.start < position < stretch.start + stretch.length
    ]
    chosen: list[Place] = []
    due = stretch.start + target
    for row, following in zip_longest(rows, rows[1:]):
        begins = row[0] <= first and (following is None or following[0] > first)
        ends = row[0] >= until and (not chosen or chosen[-1][0] < until)
        if begins or ends or (first < row[0] < until and row[1] >= due):
            chosen.append(row)
            due = row[1] + target
    return chosen


def divided(stretch: Stretch, cuts: Iterable[Place]) -> list[Stretch]:
    """The stretch in parts; batches that were compacted away leave no part uncovered."""
    parts: list[Stretch] = []
    rest = stretch
    for offset, position in cuts:
        parts.append(rest._replace(last=offset - 1, length=position - rest.start, has_index=False))
        end = rest.start + rest.length
        rest = rest._replace(first=offset, start=position, length=end - position, has_index=False)
    return [*parts, rest]
