"""Parts of lists: found, sorted and cut by the server.

Here: one function for every list of the API. A row whose field is unknown comes last, whichever
way the list is sorted.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.routes import ListQuery

T = TypeVar("T", bound=msgspec.Struct)


class ListPart(NamedTuple):
    """Some rows, where the next ones begin, and how many there are."""

    items: list[Any]
    after: str | None
    total: int


def part_of(
    rows: Sequence[T], query: ListQuery, name: Callable[[T], str], *, sort: str
) -> ListPart:
    """The part of the rows that was asked for; `sort`: the order without a wish."""
    found = rows
    if query.find:
        wanted = query.find.lower()
        found = [row for row in rows if wanted in name(row).lower()]
    ordered = _sorted(found, query.sort or sort)
    return cut(ordered, query.after, query.limit)


def cut(rows: Sequence[Any], after: str, limit: int) -> ListPart:
    """So many rows behind a place that an earlier part named."""
    if after and not after.isdecimal():
        raise ApiRefusal("invalid", "expected a place that an earlier answer named", field="after")
    begin = int(after or 0)
    end = begin + limit
    return ListPart(list(rows[begin:end]), str(end) if end < len(rows) else None, len(rows))


def _sorted(rows: Sequence[T], order: str) -> list[T]:
    field, is_falling = order.removeprefix("-"), order.startswith("-")
    if rows and field not in rows[0].__struct_fields__:
        raise ApiRefusal("invalid", f"there is no field {field!r} to sort by", field="sort")
    known = [row for row in rows if getattr(row, field) is not None]
    unknown = [row for row in rows if getattr(row, field) is None]
    try:
        return sorted(known, key=lambda row: getattr(row, field), reverse=is_falling) + unknown
    except TypeError:
        raise ApiRefusal("invalid", f"rows cannot be sorted by {field}", field="sort") from None
