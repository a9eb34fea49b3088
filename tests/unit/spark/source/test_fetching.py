"""The bytes of a task: in the order that was asked for, with as few requests as make sense."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import CorruptObject, ObjectMissing
from kafscale.spark.source.fetching import Fetch, pieces
from kafscale.spark.views import StoredRange

Asked = tuple[str, int, int]


class Shelf:
    """A bucket of objects in memory that notes what it is asked for."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.asked: list[Asked] = []

    def run(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def wait() -> Any:
            return await work(self)

        return asyncio.run(wait())

    async def read(self, key: str, start: int, length: int) -> memoryview:
        self.asked.append((key, start, length))
        if key not in self.objects:
            raise ObjectMissing(key)
        return memoryview(self.objects[key])[start : start + length]


def stored(key: str, start: int, length: int) -> StoredRange:
    return StoredRange(key, 0, 0, 9, start, length, 10, 0, 0, has_index=False, kind="flush")


def fetched(shelf: Shelf, wanted: list[StoredRange]) -> list[bytes]:
    return [b"".join(piece.chunks) for piece in pieces(shelf, wanted)]  # type: ignore[arg-type]


BODY = bytes(range(256)) * 40


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9000), st.integers(1, 900)), max_size=60)
)
def test_every_stretch_gets_its_own_bytes(rows: list[tuple[int, int, int]]) -> None:
    shelf = Shelf({f"o{number}": BODY[number:] for number in range(4)})
    wanted = [stored(f"o{number}", start, length) for number, start, length in rows]
    expected = [BODY[n:][start : start + length] for n, start, length in rows]
    assert fetched(shelf, wanted) == expected


def test_lanes_side_by_side_are_fetched_at_once() -> None:
    """Partition after partition is wanted, while each object has all partitions in a row."""
    shelf = Shelf({f"o{number}": BODY for number in range(5)})
    wanted = [stored(f"o{n}", 32 + lane * 100, 100) for lane in range(80) for n in range(5)]
    assert fetched(shelf, wanted) == [BODY[one.start : one.start + 100] for one in wanted]
    assert sorted(shelf.asked) == [(f"o{number}", 32, 8000) for number in range(5)]


def test_parts_far_from_each_other_are_fetched_alone() -> None:
    shelf = Shelf({"o": bytes(1 << 20)})
    fetched(shelf, [stored("o", at << 17, 100) for at in range(8)])
    assert len(shelf.asked) == 8


def test_what_is_passed_over_does_not_shift_the_rest() -> None:
    shelf = Shelf({f"o{number}": BODY for number in range(2)})
    wanted = [stored(f"o{n}", lane * 50, 50) for lane in range(10) for n in range(2)]
    fetch = Fetch(shelf, wanted)  # type: ignore[arg-type]
    assert b"".join(fetch.piece(0).chunks) == BODY[:50]
    assert b"".join(fetch.piece(17).chunks) == BODY[400:450]


@pytest.mark.parametrize("count", [1, 20])
def test_objects_that_are_gone_or_too_short_are_named(count: int) -> None:
    with pytest.raises(ObjectMissing, match="gone"):
        fetched(Shelf({}), [stored("gone", at * 10, 10) for at in range(count)])
    with pytest.raises(CorruptObject, match="short, byte 0"):
        fetched(Shelf({"short": b"x"}), [stored("short", at * 10, 10) for at in range(count)])
