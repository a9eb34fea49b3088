"""A row of batches gives what a walk over all of them would give."""

from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.writer.lane import Lane
from kafscale.log.writer.tail_memory import Chunk, TailMemory
from kafscale.records import batch
from tests.unit.log.log_harness import make_batch


def chunk(first: int, counts: list[int]) -> Chunk:
    """A batch for each count, which has so many records."""
    firsts, batches, at = [], [], first
    for count in counts:
        one = make_batch(*[b"x" * count] * count)
        batch.stamp(one, at, 0)
        firsts.append(at)
        batches.append(one)
        at += count
    return Chunk(first, at - 1, firsts, batches)


def walked(
    kept: list[memoryview], offset: int, max_bytes: int, at_least_one: bool
) -> list[memoryview] | None:
    """What is asked for, found one by one."""
    headers = [batch.read_header(one) for one in kept]
    if not kept or offset < headers[0].base_offset:
        return None
    found: list[memoryview] = []
    room = max_bytes
    for one, header in zip(kept, headers, strict=True):
        if header.last_offset < offset:
            continue
        room -= len(one)
        if room < 0 and (found or not at_least_one):
            break
        found.append(one)
        if room < 0:
            break
    return found


@given(
    flushes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), max_size=12),
    gaps=st.sets(st.integers(0, 11)),
    stay=st.integers(0, 12),
    offset=st.integers(0, 60),
    max_bytes=st.integers(-1, 1500),
    at_least_one=st.booleans(),
)
def test_a_row_gives_the_batches_from_an_offset_on_that_fit(
    flushes: list[list[int]],
    gaps: set[int],
    stay: int,
    offset: int,
    max_bytes: int,
    at_least_one: bool,
) -> None:
    lane, memory, at = Lane(0), TailMemory(1 << 30), 5
    chunks = []
    for number, counts in enumerate(flushes):
        at += 3 if number in gaps else 0
        made = chunk(at, counts)
        at = made.last + 1
        memory.keep(lane.recent, made)
        chunks.append(made)
    left = chunks[max(0, len(chunks) - stay) :]
    memory.budget_bytes = sum(one.size for one in left)
    memory.keep(lane.recent, Chunk(at, at, [], []))  # makes the others leave
    memory.budget_bytes = 1 << 30
    kept = [one for row in left for one in row.batches]
    found = lane.recent.read(offset, max_bytes, at_least_one=at_least_one)
    expected = walked(kept, offset, max_bytes, at_least_one)
    if expected is None:
        assert found is None
    else:
        assert found == (expected, sum(map(len, expected)))


def test_rows_stay_right_while_the_oldest_leave_and_new_ones_come() -> None:
    lane, memory = Lane(0), TailMemory(5 * chunk(0, [1]).size)
    for at in range(100):
        memory.keep(lane.recent, chunk(at, [1]))
        first = max(0, at - 4)
        found = lane.recent.read(first, 1 << 20, at_least_one=True)
        assert found is not None
        assert [batch.read_header(one).base_offset for one in found[0]] == [*range(first, at + 1)]
        assert found[1] == sum(map(len, found[0]))
        assert first == 0 or lane.recent.read(first - 1, 1 << 20, at_least_one=True) is None


def test_nothing_of_what_has_left_is_held_on_to() -> None:
    lane, memory = Lane(0), TailMemory(1 << 20)
    made = [chunk(at, [1]) for at in range(8)]
    for one in made:
        memory.keep(lane.recent, one)
    gone = made[0].batches[0]
    memory.budget_bytes = memory.used_bytes - 1
    memory.keep(lane.recent, Chunk(8, 8, [], []))
    assert all(one is not gone for one in lane.recent._batches)
