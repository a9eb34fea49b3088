"""The job as a whole, without Spark: rounds, tails, plans, races."""

import argparse
from pathlib import Path

import pytest

from kafscale.log.protocol.commits import LostRace
from kafscale.spark import job
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs import compact
from kafscale.spark.jobs.arguments import share_of, size_of
from kafscale.spark.jobs.compaction import commit_waves, merge
from kafscale.spark.jobs.logs import idle_tails, selection
from tests.unit.spark.jobs.place import FOLDER, Pair, Place, local

EACH: list[list[Pair]] = [[(b"k%d" % (n % 5), b"x" * 100)] for n in range(20)]


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_waves, "run_units", local)


def run(place: Place, *words: str, dry_run: bool = False) -> Report:
    """Type the command."""
    parser = argparse.ArgumentParser()
    compact.add_arguments(parser)
    context = Context(place.bucket, dry_run=dry_run, session=object())  # type: ignore[arg-type]
    return compact.run(context, parser.parse_args(words))


def test_objects_are_joined_until_nothing_is_left_to_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    monkeypatch.setattr(compact, "plan", lambda past, target: merge.plan(past, target, 5))
    report = run(place)
    assert (report.facts["objects_replaced"], report.facts["objects_written"]) == (24, 5)
    assert [(row["objects_before"], row["objects_after"]) for row in report.rows] == [(20, 1)]
    assert place.pairs() == place.written[0]
    assert run(place).facts["objects_replaced"] == 0


def test_little_work_is_done_without_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    monkeypatch.setattr(commit_waves, "run_units", None)
    context = Context(place.bucket)
    assert compact.compact(context, tail_idle_s=0).facts["objects_written"] > 0
    assert "spark" not in context.__dict__


@pytest.mark.parametrize("limit", ["NEAR_BYTES", "NEAR_OBJECTS"])
def test_more_work_is_sparks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    monkeypatch.setattr(commit_waves, limit, 1)
    asked: list[str] = []

    def open_session(name: str, *_: object) -> object:
        asked.append(name)
        return object()

    monkeypatch.setattr(job, "open_session", open_session)
    compact.compact(Context(place.bucket), tail_idle_s=0)
    assert asked == ["kafscale"]


def test_a_target_is_heeded(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    run(place, "--target", "1K")
    sizes = [entry.size for entry in place.manifest().segments]
    assert len(sizes) > 2
    assert max(sizes) <= 1024
    assert place.pairs() == place.written[0]


def test_a_tail_is_taken_in_when_it_is_idle(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH, roll_up=False, producer=7)
    assert run(place).rows[0]["objects_after"] == 20  # just written: a writer may be alive
    assert run(place, "--tail-idle", "-1").rows[0]["objects_after"] == 20
    report = run(place, "--tail-idle", "0", dry_run=True)
    assert (report.rows[0]["tail_to_take_in"], report.rows[0]["to_join"]) == (20, 20)
    assert place.manifest().generation == 0
    report = run(place, "--tail-idle", "0")
    assert report.rows[0]["objects_after"] == 1
    assert place.pairs() == place.written[0]
    past = place.manifest()
    assert (past.end, past.lanes[0].next) == (20, 20)
    assert past.lanes[0].producers[0].marks[-1].first_offset == 19
    place.write(EACH[:3])  # an owner goes on where the job left off
    assert place.pairs() == place.written[0]


def test_a_tail_with_a_contradiction_is_left_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH, roll_up=False)
    path = place.root / place.snapshot().tail[7].key
    body = bytearray(path.read_bytes())
    body[100] ^= 1
    path.write_bytes(body)
    report = run(place, "--tail-idle", "0")
    assert "left alone" in report.notes[0]
    path.write_bytes(b"too short")
    report = run(place, "--tail-idle", "0")
    assert path.name in report.notes[0]
    assert place.manifest().generation == 0


def test_an_owner_that_is_faster_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.write(EACH, roll_up=False)
    place.write([], roll_up=True)  # the owner rolls up
    generation = place.manifest().generation
    assert idle_tails.roll_up(place.bucket, FOLDER)
    assert place.manifest().generation == generation

    def lose(*_: object, **__: object) -> None:
        raise LostRace("always")

    monkeypatch.setattr(commit_waves.commits, "commit", lose)
    report = run(place)
    assert report.facts["groups_lost_to_others"] == 1
    assert report.exit_code == 0
    assert place.pairs() == place.written[0]


def test_damaged_data_is_reported_and_the_rest_is_done(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    path = place.root / FOLDER / place.manifest().segments[1].name
    body = bytearray(path.read_bytes())
    body[100] ^= 1
    path.write_bytes(body)
    report = run(place, "--target", "1K")
    assert report.exit_code == 1
    assert path.name in report.notes[0]
    assert report.facts["objects_written"] > 0


def test_by_key_only_topics_that_want_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(EACH)
    report = run(place, "--by-key")
    assert report.notes == ["no chosen topic has cleanup.policy=compact"]
    assert len(place.pairs()) == 20


def test_by_key_in_as_many_rounds_as_the_keys_need(tmp_path: Path) -> None:
    place = Place(tmp_path, cleanup_policy="compact")
    place.write(EACH, roll_up=False)
    plan = run(place, "--by-key", "--tail-idle", "0", dry_run=True)
    assert plan.rows[0]["objects_to_read"] == 40
    report = run(place, "--by-key", "--tail-idle", "0", "--most-keys", "2")
    assert [offset for offset, _, _ in place.pairs()] == [15, 16, 17, 18, 19]
    assert report.rows[-1]["complete"] is True
    assert sum(row["records_removed"] for row in report.rows) == 15
    assert place.manifest().lanes[0].cleaned[-1][0] == 20
    assert run(place, "--by-key").rows == []


def test_small_units_share_a_task_and_waves_are_bounded() -> None:
    class Unit:
        folder = "f"

        def __init__(self, size: int, count: int = 1) -> None:
            self.size = size
            self.inputs = [0] * count

    mib = 1 << 20
    packs = commit_waves.packed([Unit(30 * mib), Unit(30 * mib), Unit(30 * mib), Unit(900 * mib)])
    assert [len(pack) for pack in packs] == [2, 1, 1]
    packs = commit_waves.packed([Unit(1, 1500), Unit(1, 500), Unit(1, 500)])
    assert [len(pack) for pack in packs] == [2, 1]
    waves = list(commit_waves.waves([(Unit(5),), (Unit(5),), (Unit(11),), (Unit(1),)], 10))
    assert [[unit.size for (unit,) in wave] for wave in waves] == [[5, 5], [11], [1]]
    assert list(commit_waves.waves([], 10)) == []


@pytest.mark.parametrize("word", ["", "0", "-1", "1T", "x", "1.5M"])
def test_sizes_that_are_none(word: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size_of(word)


def test_words_of_the_command_line() -> None:
    assert [size_of(word) for word in ("7", "2K", "3MiB", "1g")] == [7, 2048, 3 << 20, 1 << 30]
    assert share_of("0.25") == 0.25
    for word in ("x", "1.1", "-0.1"):
        with pytest.raises(argparse.ArgumentTypeError):
            share_of(word)


def test_settings_of_key_compaction_have_defaults(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert selection.settings_of(place.topic).delete_retention_ms == 86_400_000
