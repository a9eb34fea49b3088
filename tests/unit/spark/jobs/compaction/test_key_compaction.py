"""The newest record of each key stays, everything keeps its offset."""

import random
from pathlib import Path

import msgspec
import pytest

from kafscale.log.formats import segment
from kafscale.log.formats.manifest import LaneMark
from kafscale.log.protocol.commits import empty_manifest
from kafscale.log.upkeep import cleanable
from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.spark.jobs.compaction import by_key, commit_waves
from kafscale.spark.jobs.compaction.key_compaction import Cleaning, clean
from tests.unit.spark.jobs.place import FOLDER, NOW_MS, Pair, Place

DAY_MS = 86_400_000
Written = list[tuple[int, bytes | None, bytes | None]]


def expected(written: Written, until: int | None = None) -> Written:
    """The answer by the plainest means."""
    known = {key: offset for offset, key, _ in written if until is None or offset < until}
    return [row for row in written if row[1] is None or row[0] >= known.get(row[1], -1)]


def compact(place: Place, now_ms: int = NOW_MS, most_keys: int = 1 << 30, **how: int) -> None:
    """Plan, clean and commit as the job does, without Spark."""
    row = place.found()
    work = by_key.due(row, now_ms, 0.0)
    if work is None:
        return
    target = how.get("target")
    units = by_key.cleanings(place.bucket, work, now_ms, target, most_keys)
    results = [clean(unit) for unit in units]
    assert [result.rewritten.problem for result in results] == [""] * len(results)
    by_key._commit(place.bucket, work, results, now_ms, commit_waves.Tally())


def random_flushes(seed: int, count: int = 40) -> list[list[Pair]]:
    dice = random.Random(seed)
    return [
        [
            (b"key-%d" % dice.randrange(30), dice.choice([None, b"v" * dice.randrange(90)]))
            for _ in range(dice.randrange(1, 12))
        ]
        for _ in range(count)
    ]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, cleanup_policy="compact")


@pytest.mark.parametrize("codec", list(Codec))
def test_the_newest_record_of_each_key_stays_at_its_offset(place: Place, codec: Codec) -> None:
    place.write(random_flushes(1), codec=codec)
    before = {one.offset: one for one in place.records()}
    compact(place)
    assert place.pairs() == expected(place.written[0])
    assert all(before[one.offset] == one for one in place.records())  # times and headers, too
    [entry] = place.manifest().segments
    data = place.bucket.read(f"{FOLDER}/{entry.name}")
    assert segment.parse(data).spans == tuple(entry.spans())
    codecs = {row.codec for _, row in batch.walk(data, 32, len(data) - 16) if row.record_count}
    assert codecs == {codec}


@pytest.mark.parametrize("seed", range(5))
def test_compacting_again_and_again_gives_what_one_compaction_gives(
    place: Place, seed: int
) -> None:
    flushes = random_flushes(seed)
    for at in range(0, len(flushes), 7):
        place.write(flushes[at : at + 7])
        compact(place, target=1500)
        assert place.pairs() == expected(place.written[0])
    generation = place.manifest().generation
    compact(place)
    assert place.manifest().generation == generation  # nothing new: nothing to do


def test_each_lane_has_keys_of_its_own(place: Place) -> None:
    for lane in (2, 0, 2, 1):
        place.write(random_flushes(lane, 10), lane=lane)
    compact(place)
    for lane in (0, 1, 2):
        assert place.pairs(lane) == expected(place.written[lane])


def test_the_tail_is_never_touched(place: Place) -> None:
    place.write([[(b"a", b"1")], [(b"b", b"1")], [(b"a", b"2")]])
    place.write([[(b"a", b"3")]], roll_up=False)
    compact(place)
    assert place.pairs() == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"a", b"3")]


def test_an_object_keeps_covering_its_offsets_when_its_ends_are_emptied(place: Place) -> None:
    place.write([[(b"a", b"1"), (b"b", b"1")], [(b"c", b"1")], [(b"a", b"2")], [(b"d", b"1")]])
    place.write([[(b"a", b"3"), (b"b", b"2"), (b"d", b"2")]])
    compact(place, target=600)
    assert place.pairs() == expected(place.written[0])
    entries = place.manifest().segments
    assert [(row.base, row.end) for row in entries] == [(0, 5), (5, 8)]
    data = place.bucket.read(f"{FOLDER}/{entries[0].name}")
    rows = [
        (row.base_offset, row.last_offset, row.record_count)
        for _, row in batch.walk(data, 32, len(data) - 16)
    ]
    assert rows == [(0, 1, 0), (2, 2, 1), (4, 4, 0)]
    assert segment.parse(data).content_id == entries[0].content_id


def test_records_without_a_key_stay(place: Place) -> None:
    place.write([[(None, b"1"), (b"a", b"1")], [(None, b"2"), (b"a", b"2")]])
    compact(place)
    assert place.pairs() == [(0, None, b"1"), (2, None, b"2"), (3, b"a", b"2")]


def test_producers_are_remembered(place: Place) -> None:
    place.write([[(b"a", b"1")], [(b"a", b"2")], [(b"a", b"3")]], producer=77)
    before = place.manifest().lanes[0].producers
    assert before
    compact(place)
    assert place.pairs() == [(2, b"a", b"3")]
    assert place.manifest().lanes[0].producers == before
    [entry] = place.manifest().segments
    data = place.bucket.read(f"{FOLDER}/{entry.name}")
    last = list(batch.walk(data, 32, len(data) - 16))[-1][1]
    assert (last.producer_id, last.base_sequence) == (77, 2)


def test_a_tombstone_goes_its_time_after_the_first_compaction(place: Place) -> None:
    place.write([[(b"a", b"1")], [(b"a", None)], [(b"b", b"1")]])
    compact(place, NOW_MS)
    left: Written = [(1, b"a", None), (2, b"b", b"1")]
    assert place.pairs() == left
    assert place.manifest().lanes[0].cleaned == [(3, NOW_MS)]
    compact(place, NOW_MS + DAY_MS - 1)
    assert place.pairs() == left
    compact(place, NOW_MS + DAY_MS)
    assert place.pairs() == [(2, b"b", b"1")]


def test_a_tombstone_outlives_a_compaction_that_was_not_complete(place: Place) -> None:
    place.write([[(b"a", b"1")], [(b"b", b"1")], [(b"a", None)], [(b"c", b"1")]])
    row = place.found()
    work = by_key.due(row, NOW_MS, 0.0)
    assert work is not None
    units = by_key.cleanings(place.bucket, work, NOW_MS, 250, 1 << 30)
    results = [clean(unit) for unit in units]
    compact(place, NOW_MS + 1)  # another job comes first
    cleaned = place.manifest().lanes[0].cleaned
    tally = commit_waves.Tally()
    by_key._commit(place.bucket, work, results, NOW_MS, tally)
    assert tally.lost == len(results[0].rewritten.replacements) > 0
    assert place.manifest().lanes[0].cleaned == cleaned


def test_what_is_too_young_is_left_alone(tmp_path: Path) -> None:
    place = Place(tmp_path, cleanup_policy="compact", min_compaction_lag_ms="3")
    place.topic = msgspec.structs.replace(
        place.topic, configs={"cleanup.policy": "compact", "min.compaction.lag.ms": "3"}
    )
    place.write([[(b"a", b"%d" % n)] for n in range(6)])  # times NOW + 1 … NOW + 6
    compact(place, NOW_MS + 6)
    assert [offset for offset, _, _ in place.pairs()] == [2, 3, 4, 5]


def test_too_many_keys_are_taken_in_several_runs(place: Place) -> None:
    flushes: list[list[Pair]] = [[(b"k%d" % (n % 10), b"%d" % n)] for n in range(30)]
    place.write(flushes)
    compact(place, most_keys=5)
    assert place.manifest().lanes[0].cleaned == [(5, NOW_MS)]
    assert place.pairs() == expected(place.written[0], until=5)
    compact(place, most_keys=8)
    assert place.manifest().lanes[0].cleaned[-1][0] == 13
    assert place.pairs() == expected(place.written[0], until=13)
    compact(place)
    assert place.pairs() == expected(place.written[0])


def test_a_damaged_object_stops_the_log_s_compaction(place: Place) -> None:
    place.write([[(b"a", b"1")], [(b"a", b"2")]])
    path = place.root / FOLDER / place.manifest().segments[1].name
    body = bytearray(path.read_bytes())
    body[100] ^= 1
    path.write_bytes(body)
    past = place.manifest()
    entries = tuple(past.segments)
    result = clean(Cleaning(place.bucket, FOLDER, 9, entries, (entries,), {0: 9}, {}, 100, 100))
    assert path.name in result.rewritten.problem
    assert result.rewritten.replacements == ()
    (place.root / FOLDER / entries[0].name).unlink()
    gone = clean(Cleaning(place.bucket, FOLDER, 9, entries, (entries,), {0: 9}, {}, 100, 100))
    assert entries[0].name in gone.rewritten.gone


def test_a_log_is_due_when_enough_of_it_is_new(place: Place) -> None:
    place.write([[(b"a%d" % n, b"1" * 100)] for n in range(10)])
    row = place.found()
    assert by_key.due(row, NOW_MS, None) is not None
    compact(place)
    place.write([[(b"a", b"1" * 100)] for n in range(2)])
    row = place.found()
    assert by_key.due(row, NOW_MS, None) is None
    found = by_key.due(row, NOW_MS, 0.1)
    assert found is not None
    assert len(found.part.dirty) == 2
    configs = {**place.topic.configs, "max.compaction.lag.ms": "5"}
    urgent = row._replace(
        whose=row.whose._replace(topic=msgspec.structs.replace(place.topic, configs=configs))
    )
    assert by_key.due(urgent, NOW_MS + 1000, None) is not None


def test_marks_of_compactions_stay_few_and_never_become_older() -> None:
    marks: list[tuple[int, int]] = []
    for step in range(1000):
        marks = cleanable.marks_with(marks, step, step * 60_000, DAY_MS)
        assert marks[-1] == (step, step * 60_000)
        assert marks == sorted(marks)
        assert len(marks) <= 20
    assert cleanable.marks_with(marks, 999, 10**9, DAY_MS) == marks
    aged = cleanable.marks_with(marks, 1000, marks[-1][1] + 2 * DAY_MS, DAY_MS)
    assert aged == [marks[-1], (1000, marks[-1][1] + 2 * DAY_MS)]


def test_a_large_log_is_rewritten_in_parts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_key, "PART_BYTES", 500)
    place.write(random_flushes(3))
    row = place.found()
    work = by_key.due(row, NOW_MS, None)
    assert work is not None
    units = by_key.cleanings(place.bucket, work, NOW_MS, 800, 1 << 30)
    assert len(units) > 3
    assert [entry for unit in units for entry in unit.inputs] == list(work.part.scope)
    compact(place, target=800)
    assert place.pairs() == expected(place.written[0])
    assert place.manifest().lanes[0] == msgspec.structs.replace(
        row.snapshot.manifest.lanes[0], cleaned=[(len(place.written[0]), NOW_MS)]
    )


def test_the_marks_of_a_lane_are_its_own() -> None:
    old = msgspec.structs.replace(empty_manifest(), lanes={0: LaneMark(0, 9), 1: LaneMark(0, 9)})
    also = by_key.marking({0: 5, 7: 1}, 10, {0: 100, 7: 100})
    assert not also.is_in(old)
    new = also.change(old)
    assert [new.lanes[lane].cleaned for lane in (0, 1)] == [[(5, 10)], []]
    assert also.is_in(new)
