"""Expiring, rewriting and sweeping by the bucket alone."""

from pathlib import Path

import msgspec
import pytest

from kafscale.log.formats import keys, manifest
from kafscale.log.formats.manifest import Manifest
from kafscale.log.formats.segment import Span
from kafscale.log.protocol import commits
from kafscale.log.upkeep import sweep
from kafscale.model.topics import Move
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs import retain
from kafscale.spark.jobs.compaction import commit_waves
from kafscale.spark.jobs.compaction.commit_waves import commit_replacements
from kafscale.spark.jobs.compaction.merge import Merge, merge
from kafscale.spark.jobs.logs import removal
from kafscale.spark.jobs.logs.log_starts import raise_starts
from kafscale.spark.source import pins
from tests.unit.spark.jobs.place import FOLDER, Pair, Place, local

EACH: list[list[Pair]] = [[(b"k%d" % n, b"x" * 100)] for n in range(10)]


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_waves, "run_units", local)


def run(
    place: Place, *, topics: tuple[str, ...] = (), dry_run: bool = False, **how: float
) -> Report:
    context = Context(place.bucket, topics, dry_run, session=object())  # type: ignore[arg-type]
    return retain.retain(context, **how)  # type: ignore[arg-type]


def starts(place: Place) -> dict[int, int]:
    return {lane: mark.start for lane, mark in place.manifest().lanes.items()}


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    place = Place(tmp_path, retention_ms=str(1000))
    place.write(EACH)  # years old by now
    report = run(place)
    assert report.facts["logs_expired"] == 1
    assert starts(place) == {0: 10}
    assert place.manifest().segments == []
    assert place.manifest().end == 10
    assert run(place).facts["logs_expired"] == 0


def test_what_is_too_much_goes(tmp_path: Path) -> None:
    place = Place(tmp_path, retention_bytes="500", retention_ms="-1")
    place.write(EACH)
    plan = run(place, dry_run=True)
    assert plan.facts["lanes_to_move"] == 1
    assert starts(place) == {0: 0}
    run(place)
    [first, *_] = place.pairs()
    left = sum(entry.spans()[0].length for entry in place.manifest().segments)
    assert 500 <= left < 700
    assert starts(place) == {0: first[0]}
    assert plan.facts["objects_to_drop"] == first[0]


@pytest.mark.parametrize("configs", [{}, {"cleanup_policy": "compact", "retention_ms": "1"}])
def test_topics_without_limits_of_their_own_are_left_alone(
    tmp_path: Path, configs: dict[str, str]
) -> None:
    place = Place(tmp_path, **configs)
    place.write(EACH)
    assert run(place).facts["logs_expired"] == 0
    assert len(place.pairs()) == 10


def test_defaults_apply_when_they_are_given(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    run(place, default_ms=1)
    assert place.pairs() == []


def test_an_idle_tail_is_expired_too(tmp_path: Path) -> None:
    place = Place(tmp_path, retention_ms="1000")
    place.write(EACH, roll_up=False)
    assert run(place, tail_idle_s=1000).facts["logs_expired"] == 0
    assert len(place.snapshot().tail) == 10
    run(place, tail_idle_s=0)
    assert (place.snapshot().tail, place.pairs(), starts(place)) == ([], [], {0: 10})
    place.write(EACH[:1])
    assert place.pairs()[0][0] == 10


def test_a_tail_that_would_stay_is_not_taken_in(tmp_path: Path) -> None:
    place = Place(tmp_path, retention_ms="-1", retention_bytes="1000000")
    place.write(EACH, roll_up=False)
    run(place, tail_idle_s=0)
    assert len(place.snapshot().tail) == 10


def merged(place: Place) -> None:
    past = place.manifest()
    unit = Merge(place.bucket, FOLDER, past.generation + 1, tuple(past.segments), {}, 200)
    assert commit_replacements(place.bucket, FOLDER, merge(unit).replacements)


def test_an_object_that_is_mostly_dead_is_rewritten(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for lane in (0, 1, 2):
        place.write(EACH, lane=lane)
    merged(place)
    [before] = place.manifest().segments
    assert raise_starts(place.bucket, place.manifest(), FOLDER, {0: 10, 1: 7})
    assert run(place, dead_share=0.9).facts["objects_written"] == 0
    report = run(place, dead_share=0.5)
    assert report.facts["objects_written"] == 1
    [after] = place.manifest().segments
    assert after.size < before.size / 2
    assert (after.base, after.end) == (before.base, before.end)
    assert [offset for offset, _, _ in place.pairs(1)] == [7, 8, 9]
    assert place.pairs(2) == place.written[2]
    assert run(place, dead_share=0.5).facts["objects_written"] == 0


def test_a_start_within_one_batch_does_not_cause_endless_rewriting(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write([[(b"k", b"x" * 100)] * 10])
    assert raise_starts(place.bucket, place.manifest(), FOLDER, {0: 9})
    generation = place.manifest().generation
    assert run(place, dead_share=0.5).facts["objects_written"] == 0
    assert place.manifest().generation == generation


def test_dead_bytes_are_those_below_the_log_start() -> None:
    entry = manifest.entry_of(
        "n", 0, 30, manifest.ContentId(0, 4000, 0),
        [Span(1, 0, 9, 32, 1000, 0, 0, 10), Span(2, 5, 14, 1032, 1000, 0, 0, 10),
         Span(3, 0, 9, 2032, 1000, 0, 0, 10)],
        has_index=True,
    )  # fmt: skip
    assert retain.dead_bytes(entry, {1: 100, 2: 10}) == 1500
    assert retain.dead_bytes(entry, {}) == 0


def test_replaced_objects_go_after_the_grace_period_and_not_before(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    merged(place)
    assert run(place, grace_s=600).facts["objects_swept"] == 0
    assert len(place.names()) == 10 + 2 + 2
    plan = run(place, grace_s=0, dry_run=True)
    swept = run(place, grace_s=0).facts["objects_swept"]
    assert swept == plan.facts["objects_to_sweep"] == 11
    assert place.pairs() == place.written[0]
    assert place.manifest().dropped == []  # taken off the list once they are gone
    run(place, grace_s=0)
    assert len([name for name in place.names() if name.endswith(".kfs")]) == 1


def test_orphans_are_condemned_first_and_deleted_later(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    past = place.manifest()
    unit = Merge(place.bucket, FOLDER, past.generation + 1, tuple(past.segments), {}, 200)
    [orphan] = merge(unit).replacements  # whose author was killed before it could commit
    name = orphan.outputs[0].name
    assert removal.sweep(place.bucket, FOLDER, 0) == 0
    assert [row.name for row in place.manifest().dropped] == [name]
    assert name in place.names()
    assert commit_replacements(place.bucket, FOLDER, [orphan]) == []  # its author is too late
    assert removal.sweep(place.bucket, FOLDER, 0) == 3  # with its index, and a manifest
    assert name not in place.names()
    assert place.pairs() == place.written[0]


def test_owner_and_job_sweep_by_the_same_plan(tmp_path: Path) -> None:
    assert sweep.examine is removal.examine
    place = Place(tmp_path)
    assert removal.sweep(place.bucket, FOLDER, 0) == 0  # no manifest: nothing to go by


LAST = [f"manifest-{generation:020d}" for generation in (keys.ENDING, keys.ENDED)]


def test_what_deleted_topics_leave_behind_is_removed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    gone = msgspec.structs.replace(place.topic, deleted=True)
    place.bucket.put_new(keys.descriptor("default/orders", 2), [gone.encode()])
    again = msgspec.structs.replace(
        place.topic, topic_id="f" * 32, incarnation=2, folder=f"default/orders@{'f' * 32}"
    )
    place.bucket.put_new(keys.descriptor("default/orders", 3), [again.encode()])
    other = f"{again.folder}/0/segment-{0:020d}.kfs"
    place.bucket.put_new(other, [b"of the new topic"])
    assert run(place, grace_s=600).facts["objects_of_deleted_topics"] == 0
    assert run(place, topics=("orders",), grace_s=0).facts["objects_of_deleted_topics"] == 0
    # All of it, and what takes the place at its end; that it has ended is remembered for a day.
    assert run(place, grace_s=0).facts["objects_of_deleted_topics"] == 11 + 1
    assert place.names() == LAST
    assert run(place, grace_s=0).facts["objects_of_deleted_topics"] == 0
    assert bytes(place.bucket.read(other)) == b"of the new topic"
    assert place.bucket.topic("orders") == again  # the name remembers how often it was used


def test_what_a_moved_topic_leaves_behind_stays_while_a_snapshot_holds_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    pins.take(place.bucket, "before")
    move = Move(move_id="1", layout="virtual", folder="default/orders@1", logs=1)
    moving = msgspec.structs.replace(place.topic, moving=move)
    for version, topic in ((2, moving), (3, moving.after_move())):
        place.bucket.put_new(keys.descriptor("default/orders", version), [topic.encode()])
    other = "default/orders@1/0/segment-00000000000000000000.kfs"
    place.bucket.put_new(other, [b"in the new place"])
    held = place.names()
    assert removal.remove_deleted(context_of(place), 0) == {}
    assert place.names() == held
    pins.release(place.bucket, "before")
    assert removal.remove_deleted(context_of(place), 600) == {}
    assert removal.remove_deleted(context_of(place), 0) == {"default/orders": len(held)}
    assert place.names() == LAST
    assert bytes(place.bucket.read(other)) == b"in the new place"


def context_of(place: Place) -> Context:
    return Context(place.bucket, session=object())  # type: ignore[arg-type]


def test_a_start_is_raised_on_whatever_has_become_newest(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    seen = place.manifest()
    merged(place)
    assert raise_starts(place.bucket, seen, FOLDER, {0: 4})
    assert starts(place) == {0: 4}
    assert len(place.manifest().segments) == 1


def test_losing_the_race_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    place.write(EACH)

    async def lose(*_: object, **__: object) -> Manifest:
        raise commits.LostRace("another writer")

    seen = place.manifest()
    monkeypatch.setattr(commits, "commit", lose)
    assert not raise_starts(place.bucket, seen, FOLDER, {0: 4})
