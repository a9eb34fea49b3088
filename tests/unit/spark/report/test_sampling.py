"""A look into partitions: codecs, frequent keys, how many keys there are."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.records.compression import Codec
from kafscale.spark.report import sampling
from kafscale.spark.report.sampling import RecordSample, look_at_all, sampled_ranges
from kafscale.spark.views import read_views
from tests.unit.spark.topics import Topic


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    made = Topic(tmp_path / "objects", partitions=1)
    made.flush(0, [b"a" * 100] * 50, codec=Codec.ZSTD)
    made.flush(0, [b"b" * 100] * 50)
    return made


def test_a_look_at_everything_counts_everything(topic: Topic) -> None:
    (view,) = read_views(topic.bucket, topic.descriptor)
    chosen = sampled_ranges(topic.bucket, view, 1 << 30)
    assert [one.length for one in chosen] == [one.length for one in view.stored_ranges]
    found = look_at_all(chosen)["orders", 0]
    assert (found.records, found.batches) == (100, 2)
    assert set(found.codecs) == {"zstd", "none"}
    assert sum(found.codecs.values()) == found.stored_bytes
    assert found.ratio is not None
    assert found.ratio > 1.5
    assert found.without_key == 20
    assert abs(found.distinct_keys - 80) <= 4
    assert found.top(1)[0][1] == pytest.approx(1 / 80)


def test_a_small_budget_is_spread_over_the_objects(topic: Topic) -> None:
    for _ in range(30):
        topic.flush(0, [b"c" * 1000] * 200)
    (view,) = read_views(topic.bucket, topic.descriptor)
    chosen = sampled_ranges(topic.bucket, view, 2 << 20)
    assert 1 < len(chosen) < len(view.stored_ranges)
    assert chosen[0].key != chosen[-1].key
    found = look_at_all(chosen)["orders", 0]
    assert 0 < found.records < 6100


def test_a_cut_batch_at_the_end_of_a_look_is_left_out(topic: Topic) -> None:
    (view,) = read_views(topic.bucket, topic.descriptor)
    one = sampled_ranges(topic.bucket, view, 1 << 30)[1]
    assert look_at_all([one._replace(length=one.length - 1)])["orders", 0].records == 0


@given(st.lists(st.lists(st.integers(0, 30), max_size=60), max_size=8))
def test_counts_of_frequent_keys_are_never_too_high_and_too_low_by_the_slack_at_most(
    parts: list[list[int]],
) -> None:
    kept, sampling.KEPT = sampling.KEPT, 4
    try:
        total = RecordSample()
        for part in parts:
            keys = pa.chunked_array([pa.array([b"%d" % n for n in part], pa.binary())])
            counts, slack = sampling._frequent(keys)
            total += RecordSample(len(part), keys=counts, slack=slack)
    finally:
        sampling.KEPT = kept
    true = Counter(b"%d" % n for part in parts for n in part)
    for key, count in true.items():
        assert total.keys[key] <= count <= total.keys[key] + total.slack


def test_many_keys_are_estimated_within_a_few_percent() -> None:
    keys = pa.chunked_array([pa.array([b"key-%d" % n for n in range(50_000)], pa.binary())])
    found = RecordSample(50_000, registers=sampling._registers(keys).tobytes())
    assert abs(found.distinct_keys - 50_000) < 3_000
    assert (found + found).distinct_keys == found.distinct_keys
