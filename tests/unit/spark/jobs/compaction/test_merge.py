"""Joining segments: what is joined, and that nothing is lost by it."""

from pathlib import Path

import msgspec
import pytest
from crc32c import crc32c

from kafscale.log.formats import index, keys, segment
from kafscale.log.formats.manifest import Manifest, SegmentEntry
from kafscale.model.errors import CorruptObject
from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.spark.jobs.compaction import assembly
from kafscale.spark.jobs.compaction.commit_waves import commit_replacements
from kafscale.spark.jobs.compaction.merge import Merge, merge, plan
from tests.unit.spark.jobs.place import FOLDER, Place


def manifest_of(*sizes: int, gaps: tuple[int, ...] = ()) -> Manifest:
    entries, at = [], 0
    for number, size in enumerate(sizes):
        at += number in gaps
        entries.append(SegmentEntry(f"{number}", at, at + 1, size, 1, 0, 0, 0, 0, True))
        at += 1
    return Manifest(generation=1, commit_id="", created_ms=0, author="", end=at, segments=entries)


def sizes(groups: list[tuple[SegmentEntry, ...]]) -> list[list[int]]:
    return [[entry.size for entry in group] for group in groups]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], []),
        ([10], []),
        ([10, 10], [[10, 10]]),
        ([60, 10, 10, 60], [[10, 10]]),  # what is half of the target stays as it is
        ([40, 40, 40], [[40, 40]]),
        ([40, 1, 1, 1], []),  # one large input would be copied for little
        ([40, 15], [[40, 15]]),  # but here the result is large enough to be left alone
        ([10] * 25, [[10] * 10, [10] * 10, [10] * 5]),
        ([100, 1, 200, 1, 1], [[1, 1]]),
    ],
)
def test_neighbours_are_joined_up_to_the_target(found: list[int], expected: object) -> None:
    assert sizes(plan(manifest_of(*found), 100)) == expected


def test_a_group_never_reaches_across_a_gap_or_beyond_what_a_worker_should_read() -> None:
    assert sizes(plan(manifest_of(2, 2, 3, 3, gaps=(2,)), 100)) == [[2, 2], [3, 3]]
    assert sizes(plan(manifest_of(*[1] * 5), 100, most_inputs=2)) == [[1, 1], [1, 1]]


def test_joined_again_nothing_is_left_to_join() -> None:
    groups = plan(manifest_of(*[7] * 100), 100)
    after = [sum(entry.size for entry in group) for group in groups]
    assert len(groups) == 8
    assert plan(manifest_of(*after), 100) == []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def unit_of(place: Place, **more: object) -> Merge:
    past = place.manifest()
    starts = {lane: mark.start for lane, mark in past.lanes.items()}
    return Merge(
        place.bucket, FOLDER, past.generation + 1, tuple(past.segments), starts, 200, **more
    )  # type: ignore[arg-type]


def fill(place: Place, lane: int = 0, codec: Codec = Codec.NONE) -> None:
    flushes = [[(b"k%d" % n, b"value %d of %d" % (n, lane))] * (n % 3 + 1) for n in range(9)]
    place.write(flushes, lane=lane, codec=codec)


def test_a_merged_segment_holds_the_same_records_at_the_same_offsets(place: Place) -> None:
    fill(place)
    fill(place, codec=Codec.ZSTD)
    before = place.records()
    unit = unit_of(place)
    result = merge(unit)
    assert (result.problem, result.read_bytes) == ("", unit.size)
    [replacement] = result.replacements
    assert len(replacement.inputs) == 18
    assert commit_replacements(place.bucket, FOLDER, [replacement]) == [replacement]
    past = place.manifest()
    assert past.segments == list(replacement.outputs)
    assert {row.name for row in past.dropped} >= {entry.name for entry in replacement.inputs}
    assert place.records() == before
    found = segment.parse(place.bucket.read(f"{FOLDER}/{past.segments[0].name}"))
    assert found.content_id == past.segments[0].content_id
    assert found.spans == tuple(past.segments[0].spans())


def test_the_index_points_at_batches(place: Place) -> None:
    fill(place)
    [replacement] = merge(unit_of(place)).replacements
    key = f"{FOLDER}/{replacement.outputs[0].name}"
    data = place.bucket.read(key)
    spans = replacement.outputs[0].spans()
    expected = index.collect(
        [(span, batch.walk(data, span.start, span.start + span.length)) for span in spans], 200
    )
    assert index.decode(place.bucket.read(keys.index_of(key))) == expected
    assert len(expected.addresses) > 2


def test_lanes_are_laid_in_lane_order(place: Place) -> None:
    for lane in (3, 0, 2, 0, 3):
        fill(place, lane=lane)
    before = {lane: place.records(lane) for lane in (0, 2, 3)}
    [replacement] = merge(unit_of(place)).replacements
    assert commit_replacements(place.bucket, FOLDER, [replacement])
    [entry] = place.manifest().segments
    assert [span.lane for span in entry.spans()] == [0, 2, 3]
    assert {lane: place.records(lane) for lane in (0, 2, 3)} == before
    data = place.bucket.read(f"{FOLDER}/{entry.name}")
    assert segment.parse(data).spans == tuple(entry.spans())
    assert [run.span for run in assembly.take_apart(entry, data)] == entry.spans()


def test_lanes_below_their_log_start_are_left_behind(place: Place) -> None:
    fill(place, lane=1)
    fill(place, lane=2)
    end = place.manifest().lanes[1].next
    unit = unit_of(place)._replace(starts={1: end, 2: 5})
    [one] = merge(unit).replacements
    assert [(span.lane, span.first) for span in one.outputs[0].spans()] == [(2, 3)]
    assert commit_replacements(place.bucket, FOLDER, [one])
    [entry] = place.manifest().segments
    later = unit_of(place)._replace(starts={2: 10})
    [cut] = merge(later._replace(cut=True)).replacements
    assert [(span.lane, span.first) for span in cut.outputs[0].spans()] == [(2, 9)]
    assert (cut.outputs[0].base, cut.outputs[0].end) == (entry.base, entry.end)
    data = place.bucket.read(f"{FOLDER}/{cut.outputs[0].name}")
    assert segment.parse(data).spans == tuple(cut.outputs[0].spans())
    assert cut.outputs[0].records == place.manifest().lanes[2].next - 9


@pytest.mark.parametrize("at", [40, 60, 100])
def test_a_damaged_input_is_not_copied(place: Place, at: int) -> None:
    fill(place)
    path = place.root / FOLDER / place.manifest().segments[4].name
    body = bytearray(path.read_bytes())
    body[at] ^= 1
    path.write_bytes(body)
    before = place.names()
    result = merge(unit_of(place))
    assert result.replacements == ()
    assert path.name in result.problem
    assert place.names() == before


def test_a_batch_that_fails_its_own_checksum_is_found_under_a_right_segment_checksum(
    place: Place,
) -> None:
    fill(place)
    entry = place.manifest().segments[2]
    body = bytearray(place.bucket.read(f"{FOLDER}/{entry.name}"))
    body[-20] ^= 1  # in the last record's header
    crc = crc32c(body[32:-16])
    body[-16:-12] = crc.to_bytes(4, "big")
    changed = msgspec.structs.replace(entry, crc=crc)
    with pytest.raises(CorruptObject, match="fails its checksum"):
        assembly.take_apart(changed, memoryview(body))
    with pytest.raises(CorruptObject, match="not the object"):
        assembly.take_apart(entry, memoryview(body))


def test_of_two_who_join_the_same_segments_one_wins(place: Place) -> None:
    fill(place)
    before = place.records()
    [one] = merge(unit_of(place)).replacements
    [two] = merge(unit_of(place)).replacements
    assert one.outputs[0].name != two.outputs[0].name
    assert commit_replacements(place.bucket, FOLDER, [one]) == [one]
    assert commit_replacements(place.bucket, FOLDER, [two]) == []
    assert place.manifest().segments == list(one.outputs)
    assert place.records() == before


def test_a_roll_up_in_between_does_not_stop_a_commit(place: Place) -> None:
    fill(place)
    [one] = merge(unit_of(place)).replacements
    fill(place)
    assert commit_replacements(place.bucket, FOLDER, [one]) == [one]
    assert place.pairs() == place.written[0]
    assert len(place.manifest().segments) == 10


def test_outputs_that_were_swept_as_orphans_are_not_named(place: Place) -> None:
    fill(place)
    [one] = merge(unit_of(place)).replacements
    (place.root / FOLDER / one.outputs[0].name).unlink()
    generation = place.manifest().generation
    assert commit_replacements(place.bucket, FOLDER, [one]) == []
    assert place.manifest().generation == generation


def test_an_input_that_is_gone_is_no_damage_but_a_lost_race(place: Place) -> None:
    fill(place)
    unit = unit_of(place)
    (place.root / FOLDER / unit.inputs[3].name).unlink()
    result = merge(unit)
    assert (result.replacements, result.problem) == ((), "")
    assert unit.inputs[3].name in result.gone
