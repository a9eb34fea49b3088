import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.formats import index
from kafscale.log.formats.index import RANGE, Index
from kafscale.log.formats.segment import Span
from kafscale.model.errors import CorruptObject
from kafscale.records import batch
from tests.unit.log.log_harness import make_batch
from tests.unit.log.pages import layout, table

lanes = st.integers(0, 2**20)
offsets = st.integers(0, RANGE - 1)

GOLDEN = bytes.fromhex(
    "49445800"          # magic        IDX
    "0001"              # version      1
    "00000002"          # entry_count  2
    "00001000"          # interval     4096
    "0000"              # reserved
    "0000000000000029"  # address      lane 0, offset 41
    "00000020"          # position     32
    "0000010000000007"  # address      lane 1, offset 7
    "00001020"          # position     4128
)  # fmt: skip


def test_the_golden_index_reads_field_by_field_and_is_written_again() -> None:
    found = index.decode(memoryview(GOLDEN))
    assert found == Index([41, RANGE + 7], [32, 4128], 4096)
    assert index.encode(found) == GOLDEN


@pytest.mark.parametrize(("heading", "name"), [("## Header", "HEADER"), ("## Entry", "ENTRY")])
def test_the_documented_tables_are_the_structs(heading: str, name: str) -> None:
    assert table("index.md", heading) == layout(index, name)


@given(lanes, offsets)
def test_an_address_gives_back_its_lane_and_offset(lane: int, offset: int) -> None:
    assert index.from_address(index.address(lane, offset)) == (lane, offset)


@given(lanes, offsets, lanes, offsets)
def test_no_two_places_share_an_address(lane: int, offset: int, other: int, elsewhere: int):
    same = (lane, offset) == (other, elsewhere)
    assert (index.address(lane, offset) == index.address(other, elsewhere)) == same


@given(lanes, st.integers(max_value=-1) | st.integers(min_value=RANGE))
def test_an_offset_outside_the_range_has_no_address(lane: int, offset: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        index.address(lane, offset)


def test_a_negative_lane_has_no_address() -> None:
    with pytest.raises(ValueError, match="outside"):
        index.address(-1, 0)


@st.composite
def spans_with_pieces(draw: st.DrawFn) -> list[tuple[Span, list[memoryview]]]:
    found = []
    start = 32
    for lane in sorted(draw(st.lists(lanes, min_size=1, max_size=3, unique=True))):
        first = at = draw(st.integers(0, 1000))
        pieces = []
        for size in draw(st.lists(st.integers(1, 300), min_size=1, max_size=12)):
            one = make_batch(b"x" * size)
            batch.stamp(one, at, 0)
            pieces.append(one)
            at += 1
        if draw(st.booleans()):  # as read back from a bucket: one piece for all
            pieces = [memoryview(b"".join(pieces))]
        length = sum(map(len, pieces))
        found.append((Span(lane, first, at - 1, start, length, 0, 0, at - first), pieces))
        start += length
    return found


@given(spans_with_pieces(), st.integers(1, 2000))
def test_every_offset_is_found_at_or_shortly_before_its_batch(
    rows: list[tuple[Span, list[memoryview]]], interval: int
) -> None:
    found = index.of_pieces([span for span, _ in rows], [row for _, row in rows], interval)
    assert index.decode(memoryview(index.encode(found))) == found
    for span, pieces in rows:
        body = memoryview(b"".join(pieces))
        places = {header.base_offset: span.start + at for at, header in batch.walk(body)}
        for offset, place in places.items():
            indexed = found.find(span.lane, offset)
            assert indexed is not None
            assert places[indexed[0]] == indexed[1]
            between = [at for first, at in places.items() if indexed[0] < first <= offset]
            assert all(at - indexed[1] < interval for at in between)
            assert indexed[1] <= place


def test_a_lane_without_entries_finds_nothing_in_its_neighbour() -> None:
    found = Index([5, 2 * RANGE + 9], [32, 99], 4096)
    assert found.find(0, 4) is None
    assert found.find(0, 5) == (5, 32)
    assert found.find(1, 10**6) is None
    assert found.find(2, 8) is None
    assert found.find(2, 9) == (9, 99)


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        GOLDEN[:15],
        GOLDEN[:-1],
        GOLDEN + b"\0",
        b"IDX\1" + GOLDEN[4:],
        GOLDEN[:5] + b"\2" + GOLDEN[6:],
        GOLDEN[:16] + GOLDEN[28:] + GOLDEN[16:28],
        GOLDEN[:16] + GOLDEN[16:28] * 2,
    ],
)
def test_what_does_not_add_up_is_no_index(broken: bytes) -> None:
    with pytest.raises(CorruptObject):
        index.decode(memoryview(broken))
