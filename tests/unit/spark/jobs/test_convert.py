"""A converted topic holds what its source held."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from kafscale.model.errors import InvalidRequest, TopicExists
from kafscale.records.record import Record
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution import units
from kafscale.spark.job import Context
from kafscale.spark.jobs import convert
from kafscale.spark.jobs.conversion.steps import NewTopicSpec
from kafscale.spark.source.plan import splits
from kafscale.spark.transfer import offset_map
from tests.unit.spark.conftest import Units
from tests.unit.spark.loaded import (
    load,
    murmur2,
    objects,
    records_of,
    with_old_topic,
)


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return with_old_topic(tmp_path, 3)


@pytest.fixture
def context(bucket: Bucket, local_units: Units, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setattr(convert.splits, "SPLIT_BYTES", 4000)
    monkeypatch.setattr(splits.plan, "__defaults__", (4000,))
    return Context(bucket, ("old",), session=object())  # type: ignore[arg-type]


def test_recompressing_keeps_partitions_and_offsets(context: Context, bucket: Bucket) -> None:
    before = records_of(bucket, bucket.topic("old"))
    report = convert.convert(context, NewTopicSpec("old", "new", compression="gzip"))
    assert report.facts["partitions"] == 3
    made = bucket.topic("new")
    assert records_of(bucket, made) == before
    assert made.configs["retention.ms"] == "-1"
    assert offset_map.translate(bucket, "new", {0: 5}) == {0: 5}
    assert objects(bucket, f"{made.folder}/staged") == []
    assert objects(bucket, "default/@convert") == []


def test_another_number_of_partitions_divides_by_key_and_maps(
    context: Context, bucket: Bucket
) -> None:
    before = records_of(bucket, bucket.topic("old"))
    convert.convert(context, NewTopicSpec("old", "new", 5))
    after = records_of(bucket, bucket.topic("new"))
    places: dict[tuple[int, int], tuple[int, int]] = {}
    table = offset_map.read_map(bucket, "new")
    assert table is not None
    for row in table.to_pylist():
        for step in range(row["last_offset"] - row["first_offset"] + 1):
            old = (row["source_partition"], row["first_offset"] + step)
            assert old not in places
            places[old] = (row["partition"], row["offset"] + step)
    assert len(places) == 2000
    assert len(set(places.values())) == 2000
    for partition, log in enumerate(before):
        for record in log:
            to, at = places[partition, record.offset]
            found = after[to][at]
            assert found == record._replace(offset=at)
            if record.key is not None:
                assert to == (murmur2(record.key) & 0x7FFFFFFF) % 5
    for log in after:
        newest: dict[bytes | None, int] = {}
        for record in log:
            if record.key is not None:
                assert newest.get(record.key, -1) < record.timestamp_ms, "order within a key"
                newest[record.key] = record.timestamp_ms


def test_a_group_misses_nothing_and_repeats_little(context: Context, bucket: Bucket) -> None:
    before = records_of(bucket, bucket.topic("old"))
    convert.convert(context, NewTopicSpec("old", "new", 5))
    after = records_of(bucket, bucket.topic("new"))
    committed = {number: len(log) // 2 for number, log in enumerate(before)}
    translated = offset_map.translate(bucket, "new", committed)
    read = {r.value for n, log in enumerate(before) for r in log[: committed[n]]}
    left = {r.value for n, log in enumerate(after) for r in log[translated[n] :]}
    assert len(read | left) == 2000
    assert len(read & left) < 500
    everything = {number: len(log) for number, log in enumerate(before)}
    ends = {number: len(log) for number, log in enumerate(after)}
    assert offset_map.translate(bucket, "new", everything) == ends
    assert offset_map.translate(bucket, "new", {}) == dict.fromkeys(range(5), 0)


@pytest.mark.parametrize("partitions", [3, 5])
def test_a_run_after_a_crash_goes_on_and_the_result_is_the_same(
    context: Context, bucket: Bucket, local_units: Units, partitions: int
) -> None:
    wanted = NewTopicSpec("old", "new", partitions)
    done: list[int] = []
    for stop in (0, 1, 3, 4):
        local_units.stop_after = local_units.done + stop
        with pytest.raises(KeyboardInterrupt):
            convert.convert(context, wanted)
        assert [topic.name for topic in bucket.topics()] == ["old"], "nothing visible"
        done.append(local_units.done)
    local_units.stop_after = -1
    convert.convert(context, wanted)
    found = records_of(bucket, bucket.topic("new"))
    assert contents(found) == contents(records_of(bucket, bucket.topic("old")))
    once = local_units.done
    report = convert.convert(context, wanted)
    assert "earlier run" in report.notes[0]
    assert local_units.done == once
    assert done == [0, 1, 4, 8]


@pytest.mark.parametrize("partitions", [3, 5])
def test_two_runs_at_once_make_one_topic(
    context: Context, bucket: Bucket, local_units: Units, partitions: int
) -> None:
    wanted = NewTopicSpec("old", "new", partitions)
    honest = local_units.run

    def with_another_run_between(*args: Any, **more: Any) -> list[Any]:
        units.run_units = honest
        convert.convert(context, wanted)
        return honest(*args, **more)

    units.run_units = with_another_run_between  # put back by the fixture
    convert.convert(context, wanted)
    found = records_of(bucket, bucket.topic("new"))
    assert contents(found) == contents(records_of(bucket, bucket.topic("old")))
    assert objects(bucket, "default/@convert") == []
    assert [topic.name for topic in bucket.topics()] == ["new", "old"]


def contents(logs: list[list[Record]]) -> list[tuple[object, ...]]:
    return sorted(tuple(map(str, record[1:])) for log in logs for record in log)


def test_a_name_that_is_taken_by_something_else_is_refused(
    context: Context, bucket: Bucket
) -> None:
    load(bucket, "new", 1, [])
    with pytest.raises(TopicExists, match="not by this conversion"):
        convert.convert(context, NewTopicSpec("old", "new"))


def test_a_plan_costs_nothing(context: Context, bucket: Bucket) -> None:
    context.dry_run = True
    before = objects(bucket, "default")
    report = convert.convert(context, NewTopicSpec("old", "new", 5))
    assert report.dry_run
    assert report.facts["records"] == 2000
    assert report.facts["bytes_written"] > 2000
    assert objects(bucket, "default") == before


def test_the_command_says_what_is_missing(context: Context) -> None:
    parser = argparse.ArgumentParser()
    convert.add_arguments(parser)
    context.topics = ()
    with pytest.raises(InvalidRequest, match="which topic"):
        convert.run(context, parser.parse_args(["--to", "x"]))
    context.topics = ("old",)
    with pytest.raises(InvalidRequest, match="bootstrap"):
        convert.run(context, parser.parse_args(["--to", "x", "--group", "g"]))
    report = convert.run(context, parser.parse_args(["--to", "x", "--compression", "lz4"]))
    assert report.facts["compression"] == "lz4"
