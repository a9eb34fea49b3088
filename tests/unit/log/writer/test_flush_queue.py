import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.writer.flush_queue import FlushQueue, PendingBatch, lane_batches
from kafscale.log.writer.lane import Lane
from kafscale.model.errors import NotTheOwner
from kafscale.records import batch
from tests.unit.log.log_harness import make_batch


def waiting(lane: Lane, first: int, *values: bytes) -> PendingBatch:
    data = make_batch(*values)
    return PendingBatch(lane, batch.read_header(data), first, data, acknowledged=False, epoch=0)


def room(**limits: float) -> FlushQueue:
    usual = {"full_bytes": 10_000, "full_records": 100, "most_bytes": 20_000, "longest_s": 0.5}
    return FlushQueue(**(usual | limits))  # type: ignore[arg-type]


async def test_an_empty_room_is_never_due() -> None:
    assert room().due_in_s(1e9) is None
    assert room().take(0.0) is None


async def test_a_flush_is_due_when_its_first_batch_has_waited_long_enough() -> None:
    made = room()
    first = made.add(waiting(Lane(0), 0, b"a"), 10.0)
    assert made.add(waiting(Lane(0), 1, b"b"), 10.4) is first
    assert made.due_in_s(10.0) == 0.5
    assert made.due_in_s(10.25) == 0.25
    assert made.due_in_s(11.0) == 0.0


async def test_a_flush_is_due_when_it_has_bytes_enough() -> None:
    made = room(full_bytes=500)
    made.add(waiting(Lane(0), 0, b"x" * 300), 0.0)
    assert made.due_in_s(0.0) == 0.5
    made.add(waiting(Lane(0), 1, b"x" * 300), 0.0)
    assert made.due_in_s(0.0) == 0.0


async def test_a_flush_is_due_when_it_has_records_enough() -> None:
    made = room(full_records=3)
    made.add(waiting(Lane(0), 0, b"a", b"b"), 0.0)
    assert made.due_in_s(0.0) == 0.5
    made.add(waiting(Lane(0), 2, b"c"), 0.0)
    assert made.due_in_s(0.0) == 0.0


async def test_zero_records_mean_no_such_limit() -> None:
    made = room(full_records=0)
    made.add(waiting(Lane(0), 0, *[b"a"] * 200), 0.0)
    assert made.due_in_s(0.0) == 0.5


async def test_a_batch_that_does_not_fit_opens_the_next_flush_and_makes_the_first_due() -> None:
    made = room(most_bytes=500)
    first = made.add(waiting(Lane(0), 0, b"x" * 300), 0.0)
    second = made.add(waiting(Lane(0), 1, b"x" * 300), 0.0)
    assert first is not second
    assert made.due_in_s(0.0) == 0.0
    assert [made.take(0.0), made.take(0.0), made.take(0.0)] == [first, second, None]


async def test_a_batch_larger_than_any_flush_gets_one_of_its_own() -> None:
    made = room(most_bytes=500)
    only = made.add(waiting(Lane(0), 0, b"x" * 3000), 0.0)
    assert len(only.batches) == 1
    assert list(made) == [only]


async def test_all_who_wait_hear_of_the_first_outcome_only() -> None:
    flush = room().add(waiting(Lane(0), 0, b"a"), 0.0)
    refused = NotTheOwner("gone")
    flush.finish(refused)
    flush.finish(None)
    assert flush.done.result() is refused


async def test_the_batch_of_a_lane_is_found_by_its_offset() -> None:
    one, other = Lane(0), Lane(1)
    flush = room().add(waiting(one, 5, b"a"), 0.0)
    assert flush.holds(one, 5)
    assert not flush.holds(one, 6)
    assert not flush.holds(other, 5)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
async def test_a_flush_is_sorted_by_lane_and_each_lane_keeps_its_order(numbers: list[int]) -> None:
    lanes = [Lane(number) for number in range(5)]
    made = room()
    for at, number in enumerate(numbers):
        lane = lanes[number]
        flush = made.add(waiting(lane, lane.end, b"%d" % at, b"-"), 0.0)
        lane.end += 2
    rows = lane_batches(flush.by_lane())
    assert [row.lane for row in rows] == sorted(set(numbers))
    for row in rows:
        assert (row.first, row.last) == (0, lanes[row.lane].end - 1)
        assert row.records == lanes[row.lane].end
        mine = [one.data for one in flush.batches if one.lane.number == row.lane]
        assert list(row.batches) == mine


async def test_what_comes_after_a_pause_is_due_at_once_but_once_per_interval() -> None:
    made = room()
    made.add(waiting(Lane(0), 0, b"a"), 10.0)
    assert made.due_in_s(10.0) == 0.5, "the first one gathers"
    assert made.take(10.5) is not None
    made.add(waiting(Lane(0), 0, b"a"), 10.6)
    assert made.due_in_s(10.6) == pytest.approx(0.4)
    assert made.take(11.0) is not None
    made.add(waiting(Lane(0), 0, b"a"), 20.0)
    assert made.due_in_s(20.0) == 0.0


async def test_timers_that_fire_late_do_not_add_up() -> None:
    made = room()
    made.add(waiting(Lane(0), 0, b"a"), 10.0)
    made.take(10.5)
    for turn in range(1, 5):
        due_s = 10.5 + turn * 0.5
        made.add(waiting(Lane(0), turn, b"a"), due_s - 0.2)
        assert made.due_in_s(due_s - 0.2) == pytest.approx(0.2)
        made.take(due_s + 0.01)


async def test_what_comes_long_after_the_interval_begins_a_new_one() -> None:
    made = room()
    made.add(waiting(Lane(0), 0, b"a"), 10.0)
    made.take(10.5)
    made.add(waiting(Lane(0), 1, b"a"), 11.2)
    made.take(11.2)
    made.add(waiting(Lane(0), 2, b"a"), 11.3)
    assert made.due_in_s(11.3) == pytest.approx(0.4)
