"""A fault of each kind is planted and must be found; what is sound must pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from crc32c import crc32c

from kafscale.log.formats import keys, manifest, segment
from kafscale.log.formats.manifest import Dropped, LaneMark, Manifest, SegmentEntry
from kafscale.model.errors import InvalidRequest
from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs import audit
from kafscale.spark.jobs.checking import checks
from kafscale.spark.jobs.compaction import commit_waves
from kafscale.spark.jobs.compaction.commit_waves import commit_replacements
from kafscale.spark.jobs.compaction.merge import Merge, merge
from kafscale.spark.jobs.logs.log_starts import raise_starts
from kafscale.testing.clock import ManualClock
from tests.unit.spark.jobs.place import FOLDER, Pair, Place, local


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_waves, "run_units", local)


def some(count: int, size: int = 30) -> list[list[Pair]]:
    return [[(b"k%d" % n, bytes([n % 250]) * size)] * (n % 4 + 1) for n in range(count)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Merged history with an index, adopted flushes, and a tail."""
    place = Place(tmp_path, index_interval_bytes="200")
    place.write(some(8))
    past = place.manifest()
    unit = Merge(place.bucket, FOLDER, past.generation + 1, tuple(past.segments), {}, 200)
    assert commit_replacements(place.bucket, FOLDER, merge(unit).replacements)
    place.write(some(3), codec=Codec.ZSTD)
    place.write(some(2), roll_up=False)
    return place


def audited(place: Place, **how: float) -> Report:
    return audit.audit(Context(place.bucket, session=object()), **how)  # type: ignore[arg-type]


def found(report: Report, *severities: str) -> set[tuple[str, str]]:
    wanted = severities or ("error", "warning", "repaired")
    return {
        (row["object"].rpartition("/")[2], row["kind"])
        for row in report.rows
        if row["severity"] in wanted
    }


def test_a_sound_bucket_passes(place: Place) -> None:
    report = audited(place)
    assert found(report) == set()
    assert (report.exit_code, report.facts["errors"]) == (0, 0)
    assert report.facts["records"] == len(place.written[0])
    assert report.facts["objects"] == len(place.snapshot().pieces) == 6
    assert [row["kind"] for row in report.rows] == ["leftovers"]


def test_lanes_pass_too(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for lane in (3, 0, 5):
        place.write(some(5), lane=lane)
    place.write(some(5), lane=5, roll_up=False)
    assert found(audited(place)) == set()


def test_with_a_share_every_object_is_opened_within_so_many_days(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    check = checks.check

    def noted(target: checks.AuditedObject, *rest: Any) -> checks.Checked:
        opened.append(target.key)
        return check(target, *rest)

    monkeypatch.setattr(checks, "check", noted)
    clock = ManualClock()
    monkeypatch.setattr(place.bucket, "clock", clock)
    for _ in range(3):
        report = audited(place, share=0.34)
        assert report.facts["share"] == "1 of 3"
        assert found(report) == set()
        clock.advance_ms(86_400_000)
    assert sorted(opened) == sorted(piece.key for piece in place.snapshot().pieces)


def test_with_a_share_missing_objects_are_found_at_once(place: Place) -> None:
    path_of(place, merged(place)).unlink()
    assert found(audited(place, share=0.001)) == {(merged(place).name, "missing")}


@pytest.mark.parametrize("share", [0.0, -1.0, 1.01])
def test_a_share_that_is_none_is_refused(place: Place, share: float) -> None:
    with pytest.raises(InvalidRequest, match="--share"):
        audited(place, share=share)


def merged(place: Place) -> SegmentEntry:
    return place.manifest().segments[0]


def path_of(place: Place, entry: SegmentEntry) -> Path:
    return place.root / FOLDER / entry.name


def rewrite(place: Place, entry: SegmentEntry, change: Callable[[bytearray], None]) -> None:
    """Change an object as a careless program would: its own checksums and the manifest agree."""
    path = path_of(place, entry)
    body = bytearray(path.read_bytes())
    change(body)
    crc = crc32c(bytes(body[32:-16]))
    body[-16:-12] = crc.to_bytes(4, "big")
    path.unlink()
    path.write_bytes(body)
    amend(
        place,
        lambda old: msgspec.structs.replace(
            old,
            segments=[
                msgspec.structs.replace(row, crc=crc) if row.name == entry.name else row
                for row in old.segments
            ],
        ),
    )


def amend(place: Place, change: Callable[[Manifest], Manifest]) -> None:
    old = place.manifest()
    path = place.root / keys.manifest(FOLDER, old.generation)
    path.unlink()
    path.write_bytes(manifest.encode(change(old)))


def second_batch(body: bytearray) -> int:
    positions = [at for at, _ in batch.walk(memoryview(bytes(body)), 32, len(body) - 16)]
    return positions[1]


def sign(body: bytearray, at: int) -> None:
    size = batch.read_header(memoryview(bytes(body)), at).size
    one = bytearray(body[at : at + size])
    batch.sign(one)
    body[at : at + size] = one


# -- the bytes of an object ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "kind"), [(0, "format"), (5, "format"), (7, "format"), (-1, "format"), (15, "name")]
)
def test_header_and_footer(place: Place, at: int, kind: str) -> None:
    path = path_of(place, merged(place))
    body = bytearray(path.read_bytes())
    body[at] ^= 1
    path.write_bytes(body)
    report = audited(place)
    assert report.exit_code == 1
    assert (path.name, kind) in found(report)


def test_a_flipped_bit_in_the_records(place: Place) -> None:
    path = path_of(place, merged(place))
    body = bytearray(path.read_bytes())
    body[second_batch(body) + 80] ^= 1
    path.write_bytes(body)
    assert found(audited(place)) == {(path.name, "batch_crc"), (path.name, "segment_crc")}


def test_a_flipped_bit_where_no_batch_checksum_looks(place: Place) -> None:
    path = path_of(place, merged(place))
    body = bytearray(path.read_bytes())
    body[second_batch(body) + 13] ^= 1  # leader epoch
    path.write_bytes(body)
    assert found(audited(place)) == {(path.name, "segment_crc")}


def test_a_batch_checksum_alone(place: Place) -> None:
    def change(body: bytearray) -> None:
        body[second_batch(body) + 80] ^= 1

    entry = merged(place)
    rewrite(place, entry, change)
    assert found(audited(place)) == {(entry.name, "batch_crc")}


def test_another_format_of_batches(place: Place) -> None:
    def change(body: bytearray) -> None:
        body[second_batch(body) + 16] = 1

    entry = merged(place)
    rewrite(place, entry, change)
    assert (entry.name, "format") in found(audited(place))


def test_records_that_contradict_their_lengths(place: Place) -> None:
    def change(body: bytearray) -> None:
        at = second_batch(body)
        body[at + 61] += 2  # the first record's length
        sign(body, at)

    entry = merged(place)
    rewrite(place, entry, change)
    assert found(audited(place)) == {(entry.name, "framing")}


def test_record_offsets_that_do_not_rise(place: Place) -> None:
    def change(body: bytearray) -> None:
        at = second_batch(body)
        first = body[at + 61 :]
        length = 1 + (first[0] >> 1)  # one byte of length, so far are the records short
        body[at + 61 + length + 3] = 0  # the second record's offset delta
        sign(body, at)

    entry = merged(place)
    rewrite(place, entry, change)
    assert found(audited(place)) == {(entry.name, "offsets")}


def test_a_batch_at_the_wrong_offset(place: Place) -> None:
    def change(body: bytearray) -> None:
        body[second_batch(body) + 7] = 0

    entry = merged(place)
    rewrite(place, entry, change)
    names = found(audited(place))
    assert (entry.name, "offsets") in names


def test_records_younger_than_their_batch_says(place: Place) -> None:
    def change(body: bytearray) -> None:
        at = second_batch(body)
        body[at + 42] -= 1  # max timestamp
        sign(body, at)

    entry = merged(place)
    rewrite(place, entry, change)
    report = audited(place)
    assert found(report, "warning") == {(entry.name, "timestamps")}


def test_times_that_the_manifest_has_wrong(place: Place) -> None:
    amend(
        place,
        lambda old: msgspec.structs.replace(
            old,
            segments=[
                msgspec.structs.replace(old.segments[0], max_timestamp_ms=5),
                *old.segments[1:],
            ],
        ),
    )
    assert found(audited(place)) == {(merged(place).name, "timestamps")}


def test_a_batch_that_cannot_be_unpacked(place: Place) -> None:
    entry = place.manifest().segments[2]

    def change(body: bytearray) -> None:
        body[32 + 61 + 6] ^= 0xFF
        sign(body, 32)

    rewrite(place, entry, change)
    assert found(audited(place)) == {(entry.name, "compression")}


def test_a_batch_length_that_cannot_be(place: Place) -> None:
    def change(body: bytearray) -> None:
        body[second_batch(body) + 8] = 0xFF

    entry = merged(place)
    rewrite(place, entry, change)
    assert (entry.name, "framing") in found(audited(place))


def test_a_batch_longer_than_its_lane(place: Place) -> None:
    def change(body: bytearray) -> None:
        body[second_batch(body) + 8] = 0x10

    entry = merged(place)
    rewrite(place, entry, change)
    assert (entry.name, "framing") in found(audited(place))


def test_a_lane_table_that_was_changed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(some(3), lane=4)
    entry = place.manifest().segments[1]
    path = path_of(place, entry)
    body = bytearray(path.read_bytes())
    body[-60] ^= 1
    path.write_bytes(body)
    assert found(audited(place)) == {(entry.name, "format")}


def test_an_object_that_is_cut_off(place: Place) -> None:
    path = path_of(place, merged(place))
    path.write_bytes(path.read_bytes()[:-30])
    assert {(path.name, "size"), (path.name, "format")} <= found(audited(place))


def test_large_objects_are_read_through_a_window(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "WINDOW_BYTES", 200)
    place.write([[(b"large", b"x" * 900)], [(b"small", b"x")]])
    assert found(audited(place)) == set()
    path = path_of(place, merged(place))
    body = bytearray(path.read_bytes())
    body[-40] ^= 1
    path.write_bytes(body)
    assert found(audited(place)) == {(path.name, "batch_crc"), (path.name, "segment_crc")}


# -- the index -----------------------------------------------------------------------------------


def index_path(place: Place) -> Path:
    return place.root / keys.index_of(f"{FOLDER}/{merged(place).name}")


def test_a_missing_index_is_found_and_rebuilt(place: Place) -> None:
    path = index_path(place)
    before = path.read_bytes()
    path.unlink()
    report = audited(place)
    assert found(report) == {(path.name, "index_missing")}
    assert report.exit_code == 1
    assert not path.exists()
    repaired = audited(place, repair=True)
    assert found(repaired, "repaired") == {(path.name, "index_missing")}
    assert (repaired.exit_code, repaired.facts["repaired"]) == (0, 1)
    assert path.read_bytes() == before
    assert found(audited(place)) == set()


@pytest.mark.parametrize("at", [0, 9, -1, 20, 27])
def test_a_wrong_index_is_found_and_rebuilt(place: Place, at: int) -> None:
    path = index_path(place)
    before = path.read_bytes()
    body = bytearray(before)
    body[at] ^= 4
    path.write_bytes(body)
    assert found(audited(place)) == {(path.name, "index")}
    assert found(audited(place, repair=True), "repaired") == {(path.name, "index")}
    assert path.read_bytes() == before


def test_an_index_with_too_few_entries_is_worth_a_warning(place: Place) -> None:
    path = index_path(place)
    body = bytearray(path.read_bytes())
    assert body[9] > 2
    body[9] -= 1
    path.write_bytes(body[:-12])
    report = audited(place)
    assert found(report, "warning") == {(path.name, "index")}
    assert report.exit_code == 0


def test_no_index_is_made_for_damaged_data(place: Place) -> None:
    index_path(place).unlink()
    path = path_of(place, merged(place))
    body = bytearray(path.read_bytes())
    body[100] ^= 1
    path.write_bytes(body)
    report = audited(place, repair=True)
    assert (index_path(place).name, "index_missing") in found(report, "error")
    assert not index_path(place).exists()
    assert path.read_bytes() == body


# -- the manifest and the neighbours -------------------------------------------------------------


def test_an_object_that_is_not_there(place: Place) -> None:
    path = path_of(place, place.manifest().segments[1])
    path.unlink()
    assert found(audited(place)) == {(path.name, "missing")}


def test_another_object_under_the_name(place: Place) -> None:
    entry = merged(place)
    path = path_of(place, entry)
    body = bytearray(path.read_bytes())
    body[31] ^= 1  # the token
    path.write_bytes(body)
    assert found(audited(place)) == {(entry.name, "manifest")}


def without(place: Place, at: int) -> None:
    amend(
        place,
        lambda old: msgspec.structs.replace(
            old, segments=[row for number, row in enumerate(old.segments) if number != at]
        ),
    )


def test_a_gap_between_objects(place: Place) -> None:
    without(place, 1)
    assert found(audited(place)) == {(place.manifest().segments[1].name, "gap")}


def test_a_lane_that_begins_too_late(place: Place) -> None:
    without(place, 0)
    assert found(audited(place)) == {(place.manifest().segments[0].name, "gap")}


def test_objects_that_overlap(place: Place) -> None:
    amend(
        place,
        lambda old: msgspec.structs.replace(old, segments=[old.segments[0], *old.segments]),
    )
    assert {kind for _, kind in found(audited(place))} == {"overlap", "gap"}


def test_a_lane_that_does_not_reach_its_mark(place: Place) -> None:
    def change(old: Manifest) -> Manifest:
        mark = msgspec.structs.replace(old.lanes[0], next=old.lanes[0].next + 100)
        return msgspec.structs.replace(old, lanes={0: mark, 1: LaneMark(5, 2), 2: LaneMark(0, 3)})

    amend(place, change)
    assert {kind for _, kind in found(audited(place))} == {"manifest", "gap"}


def test_a_name_that_is_both_kept_and_dropped(place: Place) -> None:
    entry = merged(place)
    amend(
        place,
        lambda old: msgspec.structs.replace(old, dropped=[Dropped(entry.name, 1)]),
    )
    assert found(audited(place)) == {(entry.name, "manifest")}


def test_a_manifest_that_ends_too_early(place: Place) -> None:
    amend(place, lambda old: msgspec.structs.replace(old, end=old.end - 1))
    assert "manifest" in {kind for _, kind in found(audited(place))}


def test_a_manifest_that_cannot_be_read(place: Place) -> None:
    path = place.root / keys.manifest(FOLDER, place.manifest().generation)
    path.write_bytes(b"{")
    report = audited(place)
    assert found(report) == {("0", "manifest")}
    assert report.exit_code == 1


def test_a_flush_that_nothing_leads_to(place: Place) -> None:
    path = place.root / keys.segment(FOLDER, 900)
    path.write_bytes(path_of(place, place.manifest().segments[1]).read_bytes())
    report = audited(place)
    assert "tail" in {kind for _, kind in found(report)}


def test_a_broken_flush(place: Place) -> None:
    path = place.root / place.snapshot().tail[1].key
    path.write_bytes(b"x" * 100)
    report = audited(place)
    assert found(report, "error") == {(path.name, "tail")}


def test_a_flush_that_was_not_written_after_its_predecessor(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(some(3), lane=2, roll_up=False)
    path = place.root / place.snapshot().tail[1].key
    body = bytearray(path.read_bytes())
    at = len(body) - segment.FOOTER.size - segment.LANE_TAIL.size
    body[at] ^= 1
    start = at - segment.LANE_ENTRY.size
    unsigned = bytes(body[start : at + segment.LANE_TAIL.size - 4])
    body[at + segment.LANE_TAIL.size - 4 : at + segment.LANE_TAIL.size] = crc32c(unsigned).to_bytes(
        4, "big"
    )
    path.write_bytes(body)
    assert found(audited(place)) == {(path.name, "chain")}


def test_what_was_replaced_while_we_looked_is_no_fault(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = place.manifest()
    entry = past.segments[1]

    def meanwhile(spark, units, work, *, progress=None):  # type: ignore[no-untyped-def]
        unit = Merge(place.bucket, FOLDER, 99, tuple(past.segments[1:3]), {}, 200)
        assert commit_replacements(place.bucket, FOLDER, merge(unit).replacements)
        path_of(place, entry).unlink()
        return [work(unit) for unit in units]

    monkeypatch.setattr(commit_waves, "run_units", meanwhile)
    assert found(audited(place)) == set()


def test_a_dry_run_reads_no_segment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_waves, "run_units", None)
    report = audit.audit(Context(place.bucket, dry_run=True))
    assert report.dry_run
    assert report.facts["objects_to_read"] == 6
    assert report.facts["bytes_to_read"] == sum(one.size for one in place.snapshot().pieces)


def test_a_log_that_goes_on_after_all_of_it_expired_is_sound(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write([[(b"k", b"1")], [(b"k", b"2")]])
    assert raise_starts(place.bucket, place.manifest(), FOLDER, {0: 2})
    place.write([[(b"k", b"3")]], roll_up=False)
    assert audited(place).exit_code == 0
