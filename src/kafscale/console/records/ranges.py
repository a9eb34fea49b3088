"""Which offsets a question means, and how to go on where an answer stopped.

Here: from a request and the offsets of a topic to one range per partition; cursors. Next door:
reading them (search.py).
"""

import base64
from collections.abc import Callable, Mapping

import msgspec

from kafscale.console.answers.record_shapes import RecordRange
from kafscale.console.answers.refusals import ApiRefusal

OffsetRange = tuple[int, int]  # first, and the one behind the last
OffsetBounds = Mapping[int, OffsetRange]
AtTime = Callable[[int], Mapping[int, int]]  # by partition, the first offset at or after a time


class SearchPlace(msgspec.Struct, forbid_unknown_fields=True):
    """What is left of a search, by partition."""

    backwards: bool
    left: dict[int, OffsetRange]


def chosen(wanted: RecordRange, bounds: OffsetBounds) -> dict[int, OffsetRange]:
    """The partitions that were asked for."""
    strange = [number for number in wanted.partitions if number not in bounds]
    if strange:
        raise ApiRefusal("invalid", f"there is no partition {strange[0]}", field="partitions")
    return {at: bounds[at] for at in wanted.partitions or bounds}


def ranges_of(wanted: RecordRange, bounds: OffsetBounds, at_time: AtTime) -> dict[int, OffsetRange]:
    """The offsets of each partition that a request means, within what there is."""
    found = {}
    value = _number(wanted.from_kind, wanted.from_value, "from_value")
    until = _number(wanted.to_kind, wanted.to_value, "to_value")
    # Newest first with a time or an offset to begin at: that is where it ends.
    starts = at_time(value) if wanted.from_kind == "time" else {}
    ends = at_time(until) if wanted.to_kind == "time" else {}
    for partition, (first, end) in chosen(wanted, bounds).items():
        begin = first
        if wanted.from_kind == "offset":
            begin = max(first, value)
        elif wanted.from_kind == "time":
            begin = starts.get(partition, end)
        last = end
        if wanted.to_kind == "offset":
            last = min(end, until)
        elif wanted.to_kind == "time":
            last = ends.get(partition, end)
        found[partition] = (min(begin, end), max(last, begin))
    return found


def _number(kind: str, text: str | None, name: str) -> int:
    if kind not in ("offset", "time"):
        return 0
    if text is None:
        raise ApiRefusal("invalid", f"{kind} needs a number", field=name)
    return int(text)


def write_cursor(left: OffsetBounds, *, backwards: bool) -> str | None:
    """What is left as text; None if nothing is."""
    rest = {at: span for at, span in left.items() if span[0] < span[1]}
    if not rest:
        return None
    raw = msgspec.json.encode(SearchPlace(backwards, rest))
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def read_cursor(text: str, bounds: OffsetBounds, *, backwards: bool) -> dict[int, OffsetRange]:
    """What was left, within what there is now."""
    try:
        padded = text + "=" * (-len(text) % 4)
        cursor = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=SearchPlace)
    except (ValueError, msgspec.DecodeError) as bad:
        raise ApiRefusal(
            "invalid", "expected a place that an earlier search named", field="after"
        ) from bad
    if cursor.backwards != backwards or not cursor.left.keys() <= bounds.keys():
        raise ApiRefusal("invalid", "the place belongs to another search", field="after")
    return {
        at: (max(first, bounds[at][0]), max(min(end, bounds[at][1]), bounds[at][0]))
        for at, (first, end) in cursor.left.items()
    }
