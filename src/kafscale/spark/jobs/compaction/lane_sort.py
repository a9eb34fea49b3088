"""Which lanes of a log that topics share become one object, and which positions it gets.

Here: pure planning. A large lane gets objects of its own, small lanes share objects. A reader of a
cold lane then asks for few objects, and the objects of a deleted topic go as a whole.

New objects divide the positions of the objects that they replace: each gets as many as it has
offsets, the last one gets what is left (from lanes that are gone). Positions thus stay dense and
rise from object to object, and the objects of every lane stay in the order of its offsets. The
position of one record in the history has no meaning.
Next door: the plan and the bytes (merge.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kafscale.log.formats import keys
from kafscale.log.formats.manifest import SegmentEntry
from kafscale.model.errors import CorruptObject
from kafscale.spark.jobs.compaction.assembly import Run

_SMALL: Final = 8  # lanes below this fraction of the target share an object

Share = dict[int, list[Run]]


def blocks(entries: Sequence[SegmentEntry]) -> list[list[SegmentEntry]]:
    """Neighbours that one compaction wrote together: no lane is in two of them.

    What a roll-up or a later compaction wrote has lanes that its neighbours have, too.
    """
    groups: list[list[SegmentEntry]] = []
    lanes: set[int] = set()
    for entry in entries:
        mine = {span.lane for span in entry.spans()}
        before = groups[-1][-1] if groups else None
        goes_on = before is not None and len(mine) == 1 and _lanes(before) == mine
        if before is None or not _together(before, entry) or (lanes & mine and not goes_on):
            groups.append([])
            lanes = set()
        groups[-1].append(entry)
        lanes |= mine
    return groups


def _lanes(entry: SegmentEntry) -> set[int]:
    return {span.lane for span in entry.spans()}


def _together(before: SegmentEntry, after: SegmentEntry) -> bool:
    one, other = keys.parse_segment(before.name), keys.parse_segment(after.name)
    return (
        one is not None
        and other is not None
        and one.generation is not None
        and one.generation == other.generation
    )


def shares(lanes: Mapping[int, Sequence[Run]], target: int) -> list[Share]:
    """What goes into one object: parts of a large lane first, then small lanes together."""
    large: list[Share] = []
    small: list[Share] = []
    room = 0
    for number in sorted(lanes):
        runs = lanes[number]
        size = sum(len(run.data) for run in runs)
        if size * _SMALL >= target:
            large += ({number: part} for part in _parts(runs, target))
            continue
        if not small or size > room:
            small.append({})
            room = target
        small[-1][number] = list(runs)
        room -= size
    return large + small


def _parts(runs: Sequence[Run], target: int) -> list[list[Run]]:
    """A large lane in parts of about one size, near the target."""
    size = sum(len(run.data) for run in runs)
    wanted = size / _count(size, target)
    parts: list[list[Run]] = []
    room = 0.0
    for run in runs:
        if not parts or len(run.data) > 2 * room:
            parts.append([])
            room += wanted
        parts[-1].append(run)
        room -= len(run.data)
    return parts


def _count(size: int, target: int) -> int:
    return max(1, (size + target // 2) // target)


def positions(
    base: int, end: int, shared_out: Sequence[Mapping[int, Sequence[Run]]]
) -> Iterator[tuple[int, int]]:
    """The part of the positions from `base` to before `end` that each object gets."""
    at = base
    for number, share in enumerate(shared_out):
        covered = sum(runs[-1].span.last - runs[0].span.first + 1 for runs in share.values())
        until = end if number == len(shared_out) - 1 else at + covered
        if at + covered > end:
            raise CorruptObject(f"positions {base} to {end - 1} have no room for their offsets")
        yield at, until
        at = until


def count(sizes: Mapping[int, int], target: int) -> int:
    """About how many objects `shares` would make of lanes of these sizes."""
    large = [size for size in sizes.values() if size * _SMALL >= target]
    small = sum(sizes.values()) - sum(large)
    return sum(_count(size, target) for size in large) + -(-small // target)
