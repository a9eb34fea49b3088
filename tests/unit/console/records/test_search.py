"""Searches over records that lie in a list instead of a broker."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.admin.records.scanning import ScannedRecord
from kafscale.console.answers.record_shapes import Budget, EndEvent, RecordsEvent, SearchRequest
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.records import ranges
from kafscale.console.records.filters import compile_filter
from kafscale.console.records.search import RecordTest, Search
from kafscale.testing.clock import ManualClock


class ListedRecords:
    """Reads as a scanner does, from partitions given as lists; offsets may have gaps."""

    def __init__(self, records: list[ScannedRecord], batch: int = 7) -> None:
        self._records = sorted(records, key=lambda one: (one.offset, one.partition))
        self._batch = batch

    def read(
        self, spans: Mapping[int, tuple[int, int]], is_stopped: Callable[[], bool]
    ) -> Iterator[list[ScannedRecord]]:
        within = [
            one
            for one in self._records
            if one.partition in spans
            and spans[one.partition][0] <= one.offset < spans[one.partition][1]
        ]
        for at in range(0, len(within), self._batch):
            if is_stopped():
                return
            yield within[at : at + self._batch]


def record(partition: int, offset: int, value: bytes = b"{}") -> ScannedRecord:
    return ScannedRecord(partition, offset, offset * 10 + partition, False, None, value, [])


def search(
    records: list[ScannedRecord], bounds: dict[int, tuple[int, int]], request: SearchRequest
) -> tuple[list[tuple[int, int]], EndEvent]:
    test = RecordTest(request.find, compile_filter(request.filter) if request.filter else None)
    is_backwards = request.from_kind == "newest"
    if request.after is not None:
        spans = ranges.read_cursor(request.after, bounds, backwards=is_backwards)
    else:
        spans = ranges.ranges_of(request, bounds, lambda _: {})
    work = Search(
        request, spans, test, ManualClock(), is_shown=True, is_stopped=lambda: False
    )  # fmt: skip
    found: list[tuple[int, int]] = []
    end: EndEvent | None = None
    scanner: Any = ListedRecords(records)
    for event in work.run(scanner):
        if isinstance(event, RecordsEvent):
            found += [(row.partition, int(row.offset)) for row in event.records]
        elif isinstance(event, EndEvent):
            end = event
    assert end is not None
    return found, end


@given(
    offsets=st.dictionaries(
        st.integers(0, 3), st.sets(st.integers(0, 600), max_size=300), min_size=1
    ),
    limit=st.integers(1, 40),
    newest=st.booleans(),
)
def test_going_on_gives_every_record_once_and_in_order(
    offsets: dict[int, set[int]], limit: int, newest: bool
) -> None:
    records = [record(at, offset) for at, many in offsets.items() for offset in many]
    bounds = dict.fromkeys(offsets, (0, 601))
    seen: list[tuple[int, int]] = []
    after: str | None = None
    for _ in range(2 * len(records) + 3):
        kind = "newest" if newest else "oldest"
        request = SearchRequest(from_kind=kind, limit=limit, after=after)  # type: ignore[arg-type]
        found, end = search(records, bounds, request)
        assert len(found) <= limit
        seen += found
        after = end.after
        if after is None:
            break
    assert after is None
    assert sorted(seen) == sorted((one.partition, one.offset) for one in records)
    for partition in offsets:
        mine = [offset for at, offset in seen if at == partition]
        assert mine == sorted(mine, reverse=newest)


def test_newest_first_is_by_time_over_all_partitions() -> None:
    records = [record(at, offset) for at in (0, 1) for offset in range(50)]
    found, end = search(records, {0: (0, 50), 1: (0, 50)}, SearchRequest(limit=4))
    assert found == [(1, 49), (0, 49), (1, 48), (0, 48)]
    assert (end.reason, end.progress.of) == ("limit", 100)


def test_a_budget_ends_a_search_and_says_where_to_go_on() -> None:
    records = [record(0, offset) for offset in range(5000)]
    request = SearchRequest(
        from_kind="oldest", find="nothing", budget=Budget(records=1000, bytes=1 << 30)
    )
    found, end = search(records, {0: (0, 5000)}, request)
    assert (found, end.reason) == ([], "budget")
    assert end.after is not None
    left = ranges.read_cursor(end.after, {0: (0, 5000)}, backwards=False)
    assert left == {0: (end.progress.looked_at, 5000)}


@pytest.mark.parametrize("budget", [Budget(records=1), Budget(bytes=1), Budget(records=200)])
def test_a_small_budget_ends_a_search_backwards_but_going_on_comes_to_the_end(
    budget: Budget,
) -> None:
    records = [record(at, offset) for at in (0, 1) for offset in range(300)]
    bounds = {0: (0, 300), 1: (0, 300)}
    seen: list[tuple[int, int]] = []
    after: str | None = None
    for _ in range(len(records)):
        request = SearchRequest(limit=500, budget=budget, after=after)
        found, end = search(records, bounds, request)
        seen += found
        if end.after is None:
            break
        assert (end.reason, end.after != after) == ("budget", True)
        after = end.after
    assert sorted(seen) == [(at, offset) for at in (0, 1) for offset in range(300)]


def test_find_looks_at_bytes_and_filters_count_what_they_cannot_answer() -> None:
    records = [record(0, 0, b'{"a":1}'), record(0, 1, b"text"), record(0, 2, b'{"a":2}')]
    found, end = search(records, {0: (0, 3)}, SearchRequest(filter="value.a > 1"))
    assert (found, end.progress.not_evaluated) == ([(0, 2)], 1)
    assert search(records, {0: (0, 3)}, SearchRequest(find="ex"))[0] == [(0, 1)]


@pytest.mark.parametrize("after", ["", "x", "AAAA", "eyJ9", "e30", "/" * 99])
def test_a_place_that_no_search_named_is_refused(after: str) -> None:
    with pytest.raises(ApiRefusal):
        ranges.read_cursor(after, {0: (0, 1)}, backwards=True)


def test_a_place_stays_within_what_there_is() -> None:
    text = ranges.write_cursor({0: (0, 900)}, backwards=True)
    assert text is not None
    assert ranges.read_cursor(text, {0: (100, 500)}, backwards=True) == {0: (100, 500)}
    assert ranges.write_cursor({0: (5, 5)}, backwards=True) is None
    with pytest.raises(ApiRefusal):
        ranges.read_cursor(text, {0: (0, 1)}, backwards=False)
