import pytest

from kafscale.log.formats.manifest import LaneMark, SegmentEntry
from kafscale.log.formats.segment import Span
from kafscale.log.writer.lane import Lane
from kafscale.log.writer.tail_memory import BATCH_BYTES, CHUNK_BYTES, Chunk, TailMemory
from kafscale.records import batch
from tests.unit.log.log_harness import make_batch, values_of


def chunk(first: int, *values: bytes) -> Chunk:
    """One batch per value."""
    batches = [make_batch(value) for value in values]
    for at, one in enumerate(batches):
        batch.stamp(one, first + at, 0)
    firsts = list(range(first, first + len(values)))
    return Chunk(first, first + len(values) - 1, firsts, batches)


def keep(memory: TailMemory, lane: Lane, made: Chunk) -> Chunk:
    lane.high = made.last + 1
    memory.keep(lane.recent, made)
    return made


SIZE = len(make_batch(b"a"))
KEPT = SIZE + CHUNK_BYTES + BATCH_BYTES  # what a flush of one batch counts for


def offsets(lane: Lane, offset: int, max_bytes: int, at_least_one: bool = True) -> list[int] | None:
    found = lane.read_memory(offset, max_bytes, at_least_one=at_least_one)
    return None if found is None else [row[0] for row in values_of(found)]


@pytest.fixture
def lane() -> Lane:
    made = Lane(0)
    memory = TailMemory(1 << 20)
    keep(memory, made, chunk(10, b"a", b"b"))
    keep(memory, made, chunk(12, b"c", b"d", b"e"))
    return made


def test_memory_hands_out_whole_batches_across_flushes(lane: Lane) -> None:
    assert offsets(lane, 10, 1 << 20) == [10, 11, 12, 13, 14]
    assert offsets(lane, 13, 1 << 20) == [13, 14]
    assert offsets(lane, 11, 2 * SIZE) == [11, 12]
    assert offsets(lane, 11, 2 * SIZE - 1) == [11]


def test_the_first_batch_is_handed_out_whole_if_asked_for(lane: Lane) -> None:
    assert offsets(lane, 11, 1) == [11]
    assert offsets(lane, 11, 1, at_least_one=False) == []


def test_nothing_is_beyond_the_high_watermark_and_what_left_is_elsewhere(lane: Lane) -> None:
    assert offsets(lane, 15, 1 << 20) == []
    assert offsets(lane, 99, 1 << 20) == []
    assert offsets(lane, 9, 1 << 20) is None


def test_the_oldest_flush_of_all_lanes_leaves_first() -> None:
    memory = TailMemory(3 * KEPT)
    one, other = Lane(0), Lane(1)
    first = keep(memory, one, chunk(0, b"a"))
    keep(memory, other, chunk(0, b"a"))
    keep(memory, one, chunk(1, b"b"))
    assert memory.used_bytes == 3 * KEPT
    keep(memory, other, chunk(1, b"b"))
    assert memory.used_bytes == 3 * KEPT
    assert not first.batches
    assert offsets(one, 0, 99) is None
    assert offsets(one, 1, 99) == [1]
    assert offsets(other, 0, 999) == [0, 1]


def test_a_flush_larger_than_all_memory_does_not_stay() -> None:
    memory = TailMemory(KEPT)
    lane = Lane(0)
    keep(memory, lane, chunk(0, b"a"))
    keep(memory, lane, chunk(1, b"b" * 5000))
    assert memory.used_bytes == 0
    assert offsets(lane, 1, 99) is None


def test_a_lane_that_goes_gives_its_memory_back() -> None:
    memory = TailMemory(10 * KEPT)
    one, other = Lane(0), Lane(1)
    gone = keep(memory, one, chunk(0, b"a", b"b"))
    keep(memory, other, chunk(0, b"a"))
    memory.release(one.recent)
    memory.release(one.recent)
    assert memory.used_bytes == KEPT
    assert not gone.batches
    assert offsets(other, 0, 99) == [0]
    for at in range(1, 30):  # what was released is not counted, or dropped, a second time
        keep(memory, other, chunk(at, b"a"))
    assert memory.used_bytes == 10 * KEPT


def test_segments_are_found_by_the_offset_they_hold() -> None:
    lane = Lane(0)
    for first, last in ((0, 9), (10, 19), (25, 29)):
        entry = SegmentEntry(f"s{first}", first, last + 1, 1, 1, 0, 0, 0, 0, False)
        lane.add_span(Span(0, first, last, 32, 1, 0, 0, 1), entry)
    names = lambda offset: [entry.name for _, entry in lane.spans_at(offset)]  # noqa: E731
    assert names(0) == ["s0", "s10", "s25"]
    assert names(19) == ["s10", "s25"]
    assert names(22) == ["s25"]
    assert names(30) == []
    lane.forget_spans_before(20)
    assert names(0) == ["s25"]


def test_a_lane_is_restored_from_its_mark() -> None:
    mark = LaneMark(3, 9, [(0, 0), (4, 5)])
    lane = Lane(0)
    lane.restore(mark)
    assert (lane.start, lane.high, lane.end) == (3, 9, 9)
    assert lane.mark() == mark


def test_only_a_newer_epoch_extends_the_history() -> None:
    lane = Lane(0)
    for epoch, first in ((1, 0), (1, 5), (3, 7), (2, 9)):
        lane.note_epoch(epoch, first)
    assert lane.epochs == [(1, 0), (3, 7)]


def test_waking_calls_everyone_who_watches_even_if_one_leaves() -> None:
    lane = Lane(0)
    called = []

    def leave(_: Lane) -> None:
        called.append("leave")
        lane.watchers.discard(leave)

    lane.watchers.add(leave)
    lane.watchers.add(lambda _: called.append("stay"))
    lane.wake()
    lane.wake()
    assert sorted(called) == ["leave", "stay", "stay"]
