"""A topic moves between layouts: every record at its offset, and no neighbour is disturbed."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from kafscale.log.formats import places
from kafscale.model.errors import InvalidPartitionCount, InvalidRequest, TopicExists
from kafscale.model.topics import Layout
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution import units
from kafscale.spark.job import Context
from kafscale.spark.jobs import convert, retain
from kafscale.spark.jobs.audit import audit
from kafscale.spark.jobs.compaction import commit_waves
from kafscale.spark.jobs.conversion import shared_append
from kafscale.spark.jobs.conversion.steps import NewTopicSpec
from kafscale.spark.jobs.logs.log_starts import raise_starts
from kafscale.spark.source.plan import splits
from kafscale.spark.views import read_views
from tests.unit.spark.conftest import Units
from tests.unit.spark.jobs.place import local
from tests.unit.spark.jobs.test_convert import contents
from tests.unit.spark.loaded import (
    murmur2,
    objects,
    records_of,
    with_old_topic,
)
from tests.unit.spark.shared import Owner, one_record, opened

LAYOUTS: list[tuple[Layout, int]] = [("ordinary", 0), ("virtual", 2), ("shared", 2)]


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return with_old_topic(tmp_path, 5)


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_waves, "run_units", local)
    monkeypatch.setattr(splits.plan, "__defaults__", (4000,))
    monkeypatch.setattr(shared_append, "STEP_BYTES", 3000)
    monkeypatch.setattr(shared_append, "LEAST_STEP", 500)


@pytest.fixture
def context(bucket: Bucket, local_units: Units) -> Context:
    return Context(bucket, ("old",), session=object())  # type: ignore[arg-type]


def made_of(context: Context, *wishes: Any) -> None:
    wanted = NewTopicSpec(*wishes)
    context.topics = (wanted.topic,)
    convert.convert(context, wanted)


def bounds(bucket: Bucket, topic: str) -> list[tuple[int, int]]:
    return [(view.start, view.end) for view in read_views(bucket, bucket.topic(topic))]


def wish(topic: str, to: str, layout: Layout, logs: int, partitions: int = 0) -> tuple[Any, ...]:
    return (topic, to, partitions, "lz4", 1000, layout, logs)


@pytest.mark.parametrize(("layout", "logs"), LAYOUTS)
def test_from_every_layout_to_every_other_offsets_are_kept(
    context: Context, bucket: Bucket, layout: Layout, logs: int
) -> None:
    before = records_of(bucket, bucket.topic("old"))
    made_of(context, *wish("old", "source", layout, logs))
    for number, (next_layout, next_logs) in enumerate(LAYOUTS):
        made_of(context, *wish("source", f"to-{number}", next_layout, next_logs))
        made = bucket.topic(f"to-{number}")
        assert (made.layout, len(places.log_folders(made))) == (next_layout, next_logs or 5)
        assert records_of(bucket, made) == before
    assert made.configs == {
        "retention.ms": "-1", "segment.bytes": "6000", "storage.placement": "shared"
    }  # fmt: skip
    context.topics = ()
    assert audit(context).exit_code == 0


def test_log_starts_and_empty_partitions_go_along(context: Context, bucket: Bucket) -> None:
    folders = places.log_folders(bucket.topic("old"))
    ends = [end for _, end in bounds(bucket, "old")]
    for folder, start in zip(folders, [17, ends[1], 0, 300, ends[4]], strict=True):
        [seen] = bucket.read_logs([folder]).values()
        if start:
            assert raise_starts(bucket, seen.manifest, folder, {0: start})
    expected = bounds(bucket, "old")
    assert expected[1] == (ends[1], ends[1])
    before = records_of(bucket, bucket.topic("old"))
    for layout, logs in LAYOUTS:
        made_of(context, *wish("old", layout, layout, logs))
        assert bounds(bucket, layout) == expected
        assert records_of(bucket, bucket.topic(layout)) == before
        made_of(context, *wish(layout, f"{layout}-back", "ordinary", 0))
        assert bounds(bucket, f"{layout}-back") == expected

    shared = bucket.topic("shared")

    async def go_on(store: ObjectStore) -> list[int]:
        """A broker writes where the history ends."""
        found = []
        for _, place in places.each_place(shared):
            log = await opened(store, place.folder)
            data = one_record(b"new")
            answer = log.append(place.lane, batch.read_header(data), data, acknowledged=False)
            assert answer.committed is not None
            assert await answer.committed is None
            found.append(answer.first)
            await log.aclose()
        return found

    assert bucket.run(go_on) == ends
    context.topics = ()
    assert [row for row in audit(context).rows if row["severity"] == "error"] == []


@pytest.mark.parametrize(("layout", "logs"), LAYOUTS[1:])
def test_another_number_of_partitions_in_another_layout(
    context: Context, bucket: Bucket, layout: Layout, logs: int
) -> None:
    before = records_of(bucket, bucket.topic("old"))
    made_of(context, *wish("old", "new", layout, logs, 3))
    after = records_of(bucket, bucket.topic("new"))
    assert contents(after) == contents(before)
    for partition, rows in enumerate(after):
        assert [row.offset for row in rows] == list(range(len(rows)))
        for row in rows:
            if row.key is not None:
                assert (murmur2(row.key) & 0x7FFFFFFF) % 3 == partition
    table = convert.offset_map.read_map(bucket, "new")
    assert table is not None
    rows_of_map = table.to_pylist()
    assert sum(one["last_offset"] - one["first_offset"] + 1 for one in rows_of_map) == 2000
    for one in rows_of_map:
        for step in range(one["last_offset"] - one["first_offset"] + 1):
            source = before[one["source_partition"]][one["first_offset"] + step]
            assert after[one["partition"]][one["offset"] + step].value == source.value


@pytest.mark.parametrize("partitions", [0, 3])
def test_a_run_after_a_crash_goes_on_in_the_shared_logs(
    context: Context,
    bucket: Bucket,
    local_units: Units,
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
) -> None:
    honest = shared_append.JobAppender.append
    left = [0]

    async def mortal(log: shared_append.JobAppender, lanes: Any) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        await honest(log, lanes)

    monkeypatch.setattr(shared_append.JobAppender, "append", mortal)
    monkeypatch.setattr(Bucket, "run", _on_a_loop_of_its_own(Bucket.run))
    monkeypatch.setattr(Bucket, "wait", lambda bucket, work: bucket.run(lambda _: work))
    for steps in (0, 1, 3, 2):
        left[0] = steps
        with pytest.raises(KeyboardInterrupt):
            made_of(context, *wish("old", "new", "shared", 2, partitions))
        assert [topic.name for topic in bucket.topics()] == ["old"], "nothing visible"
    left[0] = 1 << 30
    made_of(context, *wish("old", "new", "shared", 2, partitions))
    before = records_of(bucket, bucket.topic("old"))
    found = records_of(bucket, bucket.topic("new"))
    assert contents(found) == contents(before)
    assert found == before or partitions
    assert objects(bucket, "default/@convert") == []


def test_a_conversion_that_no_job_goes_on_with_can_be_given_up(
    context: Context, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_of(context, *wish("old", "neighbour", "shared", 2))
    before = records_of(bucket, bucket.topic("neighbour"))
    wanted = NewTopicSpec(*wish("old", "new", "shared", 2))
    honest = shared_append.finish

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shared_append, "finish", stopped)
    with pytest.raises(KeyboardInterrupt):
        convert.convert(context, wanted)
    monkeypatch.setattr(shared_append, "finish", honest)
    everything = context_of_all(context)
    assert retain.retain(everything, grace_s=0).facts["logs_expired"] == 0, "it may go on"
    context.dry_run = True
    assert convert.give_up(context, wanted).facts["lanes_given_up"] == 5
    context.dry_run = False
    assert convert.give_up(context, wanted).facts["lanes_given_up"] == 5
    assert convert.give_up(context, wanted).notes == ["no such conversion has been begun"]
    assert objects(bucket, "default/@convert") == []
    for _ in range(2):
        retain.retain(everything, grace_s=0)
    for log in bucket.snapshots(bucket.topic("neighbour")):
        lanes = {span.lane for piece in log.pieces for span in piece.spans}
        assert lanes <= {0, 1, 2}, "slots 5 to 9 were the other's"
    assert records_of(bucket, bucket.topic("neighbour")) == before
    convert.convert(context, wanted)
    assert records_of(bucket, bucket.topic("new")) == before


def test_what_is_finished_is_not_given_up(
    context: Context, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = NewTopicSpec(*wish("old", "new", "shared", 2))
    with monkeypatch.context() as patch:
        patch.setattr(convert.JobNotes, "forget", lambda _: None)  # it dies right before
        convert.convert(context, wanted)
    with pytest.raises(TopicExists, match="delete it instead"):
        convert.give_up(context, wanted)
    retain.retain(context_of_all(context), grace_s=0)
    assert records_of(bucket, bucket.topic("new")) == records_of(bucket, bucket.topic("old"))


def context_of_all(context: Context) -> Context:
    return Context(context.bucket, session=context.session)


def _on_a_loop_of_its_own(run: Any) -> Any:
    """A KeyboardInterrupt would end the loop that all buckets share: hand it over as a value."""

    def carefully(bucket: Bucket, work: Any, *args: Any) -> Any:
        async def caught(store: ObjectStore) -> Any:
            try:
                return await work(store, *args)
            except KeyboardInterrupt as stop:
                return stop

        found = run(bucket, caught)
        if isinstance(found, KeyboardInterrupt):
            raise found
        return found

    return carefully


@pytest.mark.parametrize("partitions", [0, 3])
def test_two_runs_at_once_add_everything_once(
    context: Context, bucket: Bucket, local_units: Units, partitions: int
) -> None:
    wanted = NewTopicSpec(*wish("old", "new", "shared", 2, partitions))
    honest = local_units.run

    def with_another_run_between(*args: Any, **more: Any) -> list[Any]:
        units.run_units = honest
        convert.convert(context, wanted)
        return honest(*args, **more)

    units.run_units = with_another_run_between  # put back by the fixture
    convert.convert(context, wanted)
    found = records_of(bucket, bucket.topic("new"))
    assert contents(found) == contents(records_of(bucket, bucket.topic("old")))
    assert [topic.name for topic in bucket.topics()] == ["new", "old"]


def test_a_broker_that_writes_all_the_time_loses_nothing_and_gets_out_of_the_way(
    context: Context, bucket: Bucket
) -> None:
    made_of(context, *wish("old", "neighbour", "shared", 1))
    [place, *_] = [place for _, place in places.each_place(bucket.topic("neighbour"))]
    owner = Owner(bucket, place.folder, place.lane)
    try:
        made_of(context, *wish("old", "new", "shared", 1))
    finally:
        owner.stop()
    before = records_of(bucket, bucket.topic("old"))
    assert records_of(bucket, bucket.topic("new")) == before
    first, *others = records_of(bucket, bucket.topic("neighbour"))
    assert others == before[1:]
    assert [row.value for row in first[len(before[0]) :]] == owner.acknowledged
    assert owner.refused > 0, "the two have met"
    context.topics = ()
    assert audit(context).exit_code == 0


def test_what_cannot_be_laid_out_is_refused(context: Context) -> None:
    parser = argparse.ArgumentParser()
    convert.add_arguments(parser)
    for words, text in [
        (["--layout", "virtual"], "physical-partitions"),
        (["--physical-partitions", "2"], "--layout virtual"),
    ]:
        with pytest.raises(InvalidRequest, match=text):
            convert.run(context, parser.parse_args(["--to", "x", *words]))
    words = ["--to", "x", "--layout", "virtual", "--physical-partitions", "9"]
    with pytest.raises(InvalidPartitionCount, match="1 to 5 logs"):
        convert.run(context, parser.parse_args(words))
    words = ["--to", "x", "--layout", "shared"]
    report = convert.run(context, parser.parse_args(words))
    assert report.facts["layout"] == "shared"
