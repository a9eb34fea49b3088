import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.formats import segment
from kafscale.log.formats.segment import NOTHING_BEFORE, Built, ContentId, LaneBatches, Span
from kafscale.model.errors import CorruptObject
from kafscale.records import batch
from tests.support.examples import examples
from tests.unit.log.log_harness import NOW_MS, make_batch
from tests.unit.log.pages import layout, table

GOLDEN_BATCH = bytes.fromhex(
    "0000000000000029"  # base_offset        41, stamped
    "0000003e"          # batch_length       62
    "00000007"          # leader_epoch       7, stamped
    "02"                # magic
    "e805fa6e"          # crc
    "0000"              # attributes
    "00000000"          # last_offset_delta  0
    "0000018bcfe56800"  # base_timestamp_ms  1700000000000
    "0000018bcfe56800"  # max_timestamp_ms
    "0000000000000007"  # producer_id        7
    "0003"              # producer_epoch     3
    "00000005"          # base_sequence      5
    "00000001"          # record_count       1
    "180000" "00026b" "047676" "02" "026801"  # one record: "k", "vv", header "h": null
)  # fmt: skip

GOLDEN = (
    bytes.fromhex(
        "4b414653"          # magic              KAFS
        "0001"              # version            1
        "0000"              # flags              none: the original format
        "0000000000000029"  # base               41
        "00000001"          # record_count       1
        "0000018bcfe56801"  # created_ms         1700000000001
        "cafef00d"          # token
    )
    + GOLDEN_BATCH
    + bytes.fromhex(
        "a17040dc"          # crc of the batches
        "0000000000000029"  # last               41
        "454e4421"          # magic              END!
    )
)  # fmt: skip

GOLDEN_LANES = (
    bytes.fromhex(
        "4b414653"          # magic              KAFS
        "0001"              # version            1
        "0001"              # flags              bit 0: a lane table
        "0000000000000064"  # base               100
        "00000001"          # record_count       1
        "0000018bcfe56801"  # created_ms
        "cafef00d"          # token
    )
    + GOLDEN_BATCH
    + bytes.fromhex(
        "00000003"          # lane               3
        "0000000000000029"  # first_offset       41
        "0000000000000029"  # last_offset        41
        "00000020"          # start              32
        "0000004a"          # length             74
        "0000018bcfe56800"  # min_timestamp_ms
        "0000018bcfe56800"  # max_timestamp_ms
        "00000001"          # record_count       1
        "00000001"          # predecessor_token  1
        "0000000000000002"  # predecessor_size   2
        "00000003"          # predecessor_crc    3
        "00000001"          # entry_count        1
        "7387be5e"          # table_crc
    )
    + bytes.fromhex(
        "a17040dc"          # crc of the batches
        "0000000000000064"  # last               100
        "454e4421"          # magic              END!
    )
)  # fmt: skip


def join(built: Built) -> bytes:
    return b"".join(built.body)


def stamped(first: int, *values: bytes) -> memoryview:
    data = make_batch(*values)
    batch.stamp(data, first, 0)
    return data


def lane_of(number: int, first: int, batches: list[memoryview]) -> LaneBatches:
    found = segment.summarize(memoryview(b"".join(batches)), 0, sum(map(len, batches)))
    assert found.first == first
    return LaneBatches(
        number,
        first,
        found.last,
        found.records,
        found.min_timestamp_ms,
        found.max_timestamp_ms,
        batches,
    )


def build(base: int, lanes: list[LaneBatches], predecessor: ContentId = NOTHING_BEFORE) -> Built:
    end = base + sum(lane.last - lane.first + 1 for lane in lanes)
    return segment.build(
        base, end, lanes, created_ms=NOW_MS + 1, token=0xCAFEF00D, predecessor=predecessor
    )


@st.composite
def several_lanes(draw: st.DrawFn) -> list[LaneBatches]:
    numbers = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
    lanes = []
    for number in sorted(numbers):
        first = at = draw(st.integers(0, 2**40))
        batches = []
        for count in draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)):
            batches.append(stamped(at, *(b"x" * count for _ in range(count))))
            at += count
        lanes.append(lane_of(number, first, batches))
    return lanes


def test_an_ordinary_segment_is_the_original_format_byte_for_byte() -> None:
    built = build(41, [lane_of(0, 41, [memoryview(GOLDEN_BATCH)])])
    assert join(built) == GOLDEN
    assert built.content_id == ContentId(0xCAFEF00D, len(GOLDEN), 0xA17040DC)


def test_a_segment_of_lanes_adds_its_table_before_the_footer() -> None:
    built = build(100, [lane_of(3, 41, [memoryview(GOLDEN_BATCH)])], ContentId(1, 2, 3))
    assert join(built) == GOLDEN_LANES


def test_the_golden_segments_read_field_by_field() -> None:
    found = segment.parse(memoryview(GOLDEN))
    span = Span(0, 41, 41, 32, 74, NOW_MS, NOW_MS, 1)
    content_id = ContentId(0xCAFEF00D, 122, 0xA17040DC)
    assert found == segment.Segment(41, 42, 1, NOW_MS + 1, content_id, (span,), None, 32, 106)
    found = segment.parse(memoryview(GOLDEN_LANES))
    assert (found.base, found.end, found.records) == (100, 101, 1)
    assert found.spans == (span._replace(lane=3),)
    assert found.predecessor == ContentId(1, 2, 3)


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("## Header", "HEADER"),
        ("## Footer", "FOOTER"),
        ("## Lane table", "LANE_ENTRY"),
        ("Then, directly before the footer", "LANE_TAIL"),
    ],
)
def test_the_documented_tables_are_the_structs(heading: str, name: str) -> None:
    assert table("segment.md", heading) == layout(segment, name)


@examples(50)
@given(several_lanes(), st.integers(0, 2**50))
def test_what_is_built_is_what_is_read(lanes: list[LaneBatches], base: int) -> None:
    built = build(base, lanes, ContentId(1, 2, 3))
    data = memoryview(join(built))
    found = segment.parse(data)
    assert (found.base, found.end, found.records) == (built.base, built.end, built.records)
    assert found.content_id == built.content_id
    assert found.spans == built.spans
    for lane, span in zip(lanes, found.spans, strict=True):
        assert data[span.start : span.start + span.length] == b"".join(lane.batches)
    head, foot = data[: segment.HEADER.size], data[-segment.FOOTER.size :]
    assert segment.read_content_id(head, foot, len(data)) == built.content_id


def test_a_table_is_written_where_lane_0_does_not_fill_the_positions() -> None:
    lane = lane_of(0, 5, [stamped(5, b"a")])
    longer = segment.build(5, 9, [lane], created_ms=0, token=0, predecessor=NOTHING_BEFORE)
    found = segment.parse(memoryview(join(longer)))
    assert (found.end, found.spans[0].last) == (9, 5)
    assert found.predecessor is not None


def flips(data: bytes) -> list[tuple[int, memoryview]]:
    found = []
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x10 if at % 2 else 0x01
        found.append((at, memoryview(broken)))
    return found


def test_every_flipped_byte_of_an_ordinary_segment_is_noticed_or_harmless() -> None:
    unharmed = segment.parse(memoryview(GOLDEN))
    for at, broken in flips(GOLDEN):
        try:
            found = segment.parse(broken)
        except CorruptObject:
            continue
        # Neither the time of writing nor the token is covered: a wrong token is another
        # content id, so the object is no longer taken for the one that was written.
        assert at in range(20, 32), at
        same = found._replace(created_ms=unharmed.created_ms)
        if at >= 28:
            assert found.content_id != unharmed.content_id
            same = same._replace(content_id=unharmed.content_id)
        assert same == unharmed


def test_every_flipped_byte_of_a_segment_of_lanes_is_noticed_or_changes_what_is_checked() -> None:
    unharmed = segment.parse(memoryview(GOLDEN_LANES))
    last = range(len(GOLDEN_LANES) - 12, len(GOLDEN_LANES) - 4)
    for at, broken in flips(GOLDEN_LANES):
        try:
            found = segment.parse(broken)
        except CorruptObject:
            continue
        # Base and last: the walk along the chain compares them (test_opening.py).
        assert at in range(8, 16) or at in range(20, 32) or at in last, at
        assert found.spans == unharmed.spans
        assert at in range(20, 28) or found != unharmed


@pytest.mark.parametrize("cut", [0, 1, 31, 47, 48, 121])
def test_a_segment_that_was_cut_short_is_noticed(cut: int) -> None:
    with pytest.raises(CorruptObject):
        segment.parse(memoryview(GOLDEN)[:cut])


def test_a_table_larger_than_its_segment_is_noticed() -> None:
    broken = bytearray(GOLDEN_LANES)
    at = len(broken) - segment.FOOTER.size - 8
    broken[at : at + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptObject):
        segment.parse(memoryview(broken))
