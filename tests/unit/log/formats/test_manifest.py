import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.log.formats import keys, manifest
from kafscale.log.formats.manifest import Dropped, LaneMark, Manifest, Replacement, SegmentEntry
from kafscale.log.formats.producers import BatchMark, ProducerSnapshot
from kafscale.log.formats.segment import ContentId, Span
from kafscale.log.formats.transactions import (
    AbortedRange,
    LastMarker,
    OpenTransaction,
    TransactionMarks,
)
from kafscale.model.errors import CorruptObject
from tests.unit.log.pages import fields

GOLDEN = Manifest(
    generation=3,
    commit_id="ab",
    created_ms=1,
    author="me",
    end=20,
    end_id=(7, 200, 9),
    segments=[
        SegmentEntry(
            "segment-00000000000000000000-2-0000002a.kfs", 0, 10, 148, 10, 5, 6, 1, 2, True
        ),
        SegmentEntry(
            "segment-00000000000000000010.kfs",
            10,
            20,
            300,
            10,
            5,
            6,
            3,
            4,
            False,
            [Span(0, 10, 14, 32, 50, 5, 6, 5), Span(2, 0, 4, 82, 50, 5, 6, 5)],
        ),
    ],
    dropped=[Dropped("segment-00000000000000000000-1-0000002b.kfs", 2)],
    lanes={
        0: LaneMark(0, 15, [(0, 0)], [ProducerSnapshot(77, 1, 5, [BatchMark(0, 4, 10)])], [(9, 5)]),
        2: LaneMark(0, 5),
    },
)

GOLDEN_JSON = (
    '{"format":1,"generation":3,"commit_id":"ab","created_ms":1,"author":"me","end":20,'
    '"end_id":[7,200,9],"segments":['
    '["segment-00000000000000000000-2-0000002a.kfs",0,10,148,10,5,6,1,2,true,[]],'
    '["segment-00000000000000000010.kfs",10,20,300,10,5,6,3,4,false,'
    "[[0,10,14,32,50,5,6,5],[2,0,4,82,50,5,6,5]]]],"
    '"dropped":[["segment-00000000000000000000-1-0000002b.kfs",2]],'
    '"lanes":{"0":[0,15,[[0,0]],[[77,1,5,[[0,4,10]]]],[[9,5]],null],"2":[0,5,[],[],[],null]}}'
)


def test_the_golden_manifest_is_written_and_read() -> None:
    assert manifest.encode(GOLDEN).decode() == GOLDEN_JSON
    assert manifest.decode(memoryview(GOLDEN_JSON.encode())) == GOLDEN


@pytest.mark.parametrize(
    ("heading", "structure"),
    [
        ("## Manifest", Manifest),
        ("## SegmentEntry", SegmentEntry),
        ("## Dropped", Dropped),
        ("## LaneMark", LaneMark),
        ("## ProducerSnapshot", ProducerSnapshot),
        ("## TransactionMarks", TransactionMarks),
    ],
)
def test_the_documented_fields_are_the_structures(heading: str, structure: type) -> None:
    assert fields("manifest.md", heading) == [f.name for f in msgspec.structs.fields(structure)]


def test_a_manifest_with_transactions_has_a_format_that_older_programs_refuse() -> None:
    known = TransactionMarks(
        [OpenTransaction(5, 0, 9)], [AbortedRange(5, 1, 3)], [LastMarker(5, 0, 2, False, 8)]
    )
    lanes = GOLDEN.lanes | {2: LaneMark(0, 5, transactions=known)}
    written = manifest.encode(msgspec.structs.replace(GOLDEN, lanes=lanes))
    assert written.startswith(b'{"format":2,')
    assert b"[[[5,0,9]],[[5,1,3]],[[5,0,2,false,8]]]" in written
    assert manifest.decode(written).lanes == lanes
    raised = manifest.raise_starts(manifest.decode(written), {2: 4})
    assert raised.lanes[2].transactions == TransactionMarks(known.open, [], known.markers)


@pytest.mark.parametrize("broken", ["", "{}", "[]", '{"format":2}', GOLDEN_JSON[:-1], "\xff"])
def test_what_is_no_manifest_is_refused(broken: str) -> None:
    with pytest.raises(CorruptObject):
        manifest.decode(broken.encode("latin-1"))


def test_a_manifest_of_a_later_format_is_refused() -> None:
    with pytest.raises(CorruptObject, match="format 3"):
        manifest.decode(GOLDEN_JSON.replace('"format":1', '"format":3').encode())


@given(st.integers(0, 1000), st.integers(1, 100), st.integers(0, 3), st.integers(0, 5))
def test_an_entry_gives_back_the_spans_it_was_made_of(base: int, count: int, lane: int, off: int):
    span = Span(lane, base + off, base + off + count - 1, 32, 52, 5, 6, count)
    entry = manifest.entry_of("n", base, base + count, ContentId(1, 100, 2), [span], has_index=True)
    assert entry.spans() == [span]
    assert bool(entry.lanes) == ((lane, off) != (0, 0))
    assert entry.content_id == ContentId(1, 100, 2)


def test_an_entry_that_key_compaction_made_shorter_keeps_its_own_last_offset() -> None:
    span = Span(0, 0, 6, 32, 52, 5, 6, 3)
    entry = manifest.entry_of("n", 0, 10, ContentId(1, 100, 2), [span], has_index=True)
    assert entry.spans() == [span]


def test_rolling_up_appends_and_never_moves_a_start_back() -> None:
    old = msgspec.structs.replace(GOLDEN, lanes={0: LaneMark(12, 15), 5: LaneMark(1, 2)})
    entry = SegmentEntry("x", 20, 30, 1, 10, 5, 6, 0, 0, False)
    marks = {0: LaneMark(3, 25, [(0, 0), (1, 20)])}
    new = manifest.append_history(old, [entry], 30, ContentId(1, 2, 3), marks)
    assert new.segments == [*old.segments, entry]
    assert (new.end, new.end_id) == (30, (1, 2, 3))
    assert new.lanes == {0: LaneMark(12, 25, [(0, 0), (1, 20)]), 5: LaneMark(1, 2)}


@given(st.dictionaries(st.integers(0, 3), st.integers(-5, 40)))
def test_raising_starts_keeps_what_can_be_read_and_drops_the_rest(starts: dict[int, int]) -> None:
    new = manifest.raise_starts(GOLDEN, starts)
    assert new.end == GOLDEN.end
    for lane, mark in GOLDEN.lanes.items():
        moved = new.lanes[lane]
        assert mark.start <= moved.start <= mark.next == moved.next
        assert moved.producers == mark.producers
        assert moved.start == max(mark.start, min(starts.get(lane, 0), mark.next))
    for entry in GOLDEN.segments:
        readable = any(span.last >= new.lanes[span.lane].start for span in entry.spans())
        assert (entry in new.segments) == readable
        assert (Dropped(entry.name, 4) in new.dropped) == (not readable)
    assert set(GOLDEN.dropped) <= set(new.dropped)


def test_dropped_names_are_forgotten_by_name() -> None:
    two = manifest.drop(GOLDEN, [Dropped("other", 4)])
    assert [row.name for row in two.dropped] == [GOLDEN.dropped[0].name, "other"]
    one = manifest.forget_dropped(two, [GOLDEN.dropped[0].name, "never there"])
    assert one.dropped == [Dropped("other", 4)]


def test_what_key_compaction_has_done_survives_a_roll_up() -> None:
    by_the_owner = {0: LaneMark(0, 30, [(0, 0)]), 3: LaneMark(0, 1)}
    rolled = manifest.append_history(GOLDEN, [], 35, ContentId(1, 2, 3), by_the_owner)
    assert rolled.lanes[0] == LaneMark(0, 30, [(0, 0)], [], [(9, 5)])
    assert rolled.lanes[3].cleaned == []


def plain(base: int, end: int, generation: int = 1) -> SegmentEntry:
    name = keys.rewritten_name(base, generation, base)
    return SegmentEntry(name, base, end, 100, end - base, 0, 0, base, 0, True)


def listing(*entries: SegmentEntry) -> Manifest:
    return msgspec.structs.replace(GOLDEN, segments=list(entries), end=entries[-1].end)


def test_outputs_take_the_place_of_their_inputs() -> None:
    parts = [plain(at, at + 10) for at in range(0, 60, 10)]
    old = listing(*parts)
    first = Replacement((parts[1], parts[2]), (plain(10, 30, 4),))
    second = Replacement((parts[4], parts[5]), (plain(40, 60, 4),))
    assert manifest.replaces(old, first)
    assert manifest.replaces(old, second)
    new = manifest.replace(old, [first, second])
    assert new.segments == [parts[0], plain(10, 30, 4), parts[3], plain(40, 60, 4)]
    gone = {row.name for row in new.dropped if row.generation == old.generation + 1}
    assert gone == {parts[at].name for at in (1, 2, 4, 5)}
    assert (new.end, new.lanes, new.end_id) == (old.end, old.lanes, old.end_id)
    assert not manifest.replaces(new, first)


def test_inputs_must_be_listed_side_by_side_and_as_they_were() -> None:
    parts = [plain(at, at + 10) for at in range(0, 40, 10)]
    wanted = Replacement((parts[1], parts[2]), (plain(10, 30, 4),))
    assert not manifest.replaces(listing(parts[0], parts[1], parts[3]), wanted)
    assert not manifest.replaces(listing(parts[0], parts[2]), wanted)
    other = msgspec.structs.replace(parts[2], crc=9)
    assert not manifest.replaces(listing(parts[0], parts[1], other), wanted)
    assert manifest.replaces(listing(*parts, plain(40, 50)), wanted)
