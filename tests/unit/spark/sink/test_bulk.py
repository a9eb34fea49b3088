"""A load makes a whole topic visible, or nothing."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kafscale.log.formats import keys
from kafscale.model.errors import (
    InvalidPartitionCount,
    InvalidRecord,
    InvalidTopicConfig,
    InvalidTopicName,
    TopicExists,
    UnknownTopic,
    UnsupportedCompression,
)
from kafscale.model.topics import TopicDescriptor
from kafscale.spark import leftovers
from kafscale.spark.bucket import Bucket
from kafscale.spark.leftovers import LoadLost
from kafscale.spark.sink import bulk, sealing
from kafscale.spark.sink.staging import stage
from tests.unit.spark.loaded import bucket_in, murmur2, numbered, records_of, sealed, staged

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return bucket_in(tmp_path)


def test_rows_keep_their_order_and_go_where_kafka_would_put_them(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "new", 3, compression="lz4", configs={"segment.bytes": "1048576"})
    tasks = [[numbered(0, 700), numbered(700, 300)], [], [numbered(1000, 500)]]
    loaded = bulk.commit(plan, sealed(plan, staged(plan, tasks)))
    bulk.tidy_up(plan)
    assert (loaded.records, loaded.topic.name, loaded.topic.incarnation) == (1500, "new", 1)
    topic = bucket.topic("new")
    assert topic.folder == f"default/new@{topic.topic_id}"
    logs = records_of(bucket, topic)
    assert loaded.offsets == [len(log) for log in logs]
    for partition, log in enumerate(logs):
        assert [record.offset for record in log] == list(range(len(log)))
        numbers = [int((record.value or b"").split()[1]) for record in log]
        assert numbers == sorted(numbers)
        assert [record.timestamp_ms for record in log] == [1_000_000 + at for at in numbers]
        for record in log:
            if record.key is not None:
                assert (murmur2(record.key) & 0x7FFFFFFF) % 3 == partition
    assert sorted(r.timestamp_ms for log in logs for r in log) == list(range(1000000, 1001500))
    spread = [sum(record.key is None for record in log) for log in logs]
    assert min(spread) > 90
    assert not bucket.run(lambda store: store.find(f"{topic.folder}/staged"))


def test_many_sections_fill_several_segments_with_an_index_each(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "big", 2, configs={"segment.bytes": "1048576"})
    block = b"x" * 1000
    values = pa.RecordBatch.from_pydict({"value": [block] * 700})
    sections = staged(plan, [[values]] * 8)
    made = sealed(plan, sections)
    assert len(made) > 4
    bulk.commit(plan, made)
    for log in bucket.snapshots(bucket.topic("big")):
        assert log.end == 2800
        for piece in log.pieces:
            assert piece.size < 1_100_000
            assert len(bucket.read(keys.index_of(piece.key))) >= 28
            assert segment_is_sound(bucket, piece.key)


def segment_is_sound(bucket: Bucket, key: str) -> bool:
    from kafscale.log.formats import segment

    return segment.parse(bucket.read(key)).content_id.size == len(bucket.read(key))


def test_nothing_can_be_seen_before_the_commit(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "new", 2)
    made = sealed(plan, staged(plan, [[numbered(0, 100)]]))
    assert bucket.topics() == []
    with pytest.raises(UnknownTopic):
        bucket.topic("new")
    bulk.commit(plan, made)
    assert [topic.name for topic in bucket.topics()] == ["new"]


def test_of_two_loads_of_one_name_one_is_told_that_the_topic_exists(bucket: Bucket) -> None:
    one, other = bulk.begin(bucket, "new", 1), bulk.begin(bucket, "new", 1)
    first = sealed(one, staged(one, [[numbered(0, 10)]]))
    second = sealed(other, staged(other, [[numbered(0, 20)]]))
    bulk.commit(other, second)
    with pytest.raises(TopicExists):
        bulk.commit(one, first)
    with pytest.raises(TopicExists):
        bulk.begin(bucket, "new", 1)
    assert [len(log) for log in records_of(bucket, bucket.topic("new"))] == [20]


def test_a_name_used_before_counts_on(bucket: Bucket) -> None:
    tombstone = TopicDescriptor(
        name="old",
        topic_id="0" * 31 + "2",
        incarnation=3,
        folder="default/old",
        partitions=1,
        logs=1,
        created_at="",
        deleted=True,
    )
    bucket.put_new(keys.descriptor("default/old", 4), [tombstone.encode()])
    plan = bulk.begin(bucket, "old", 1)
    made = bulk.commit(plan, sealed(plan, staged(plan, [[numbered(0, 3)]])))
    assert made.topic.incarnation == 4


def test_an_empty_load_makes_an_empty_topic(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "empty", 2)
    assert bulk.commit(plan, []).offsets == [0, 0]
    assert records_of(bucket, bucket.topic("empty")) == [[], []]


def test_a_second_attempt_at_a_segment_leaves_only_an_orphan(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "new", 1)
    works = bulk.seals(plan, staged(plan, [[numbered(0, 10)]]))
    sealing.seal(bucket, works[0])
    bulk.commit(plan, [sealing.seal(bucket, works[0])])
    assert [len(log) for log in records_of(bucket, bucket.topic("new"))] == [10]


def test_what_cannot_become_a_topic_is_refused_at_once(bucket: Bucket) -> None:
    bulk.commit(bulk.begin(bucket, "a.b", 1), [])
    with pytest.raises(InvalidTopicName, match="collides"):
        bulk.begin(bucket, "a_b", 1)
    with pytest.raises(InvalidTopicName):
        bulk.begin(bucket, "a/b", 1)
    with pytest.raises(InvalidPartitionCount):
        bulk.begin(bucket, "new", 0)
    with pytest.raises(InvalidTopicConfig):
        bulk.begin(bucket, "new", 1, configs={"nonsense": "1"})
    with pytest.raises(UnsupportedCompression):
        bulk.begin(bucket, "new", 1, compression="rar")


def test_rows_may_choose_their_partition_but_not_one_that_is_not_there(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "new", 3)
    chosen = pa.array([2, None, 0, 2], pa.int32())
    asked = pa.RecordBatch.from_pydict({"value": ["a", "b", "c", "d"], "partition": chosen})
    sections = staged(plan, [[asked]])
    assert {row.partition: row.records for row in sections if row.partition != 1}[2] >= 2
    outside = pa.RecordBatch.from_pydict({"value": ["a"], "partition": pa.array([3], pa.int32())})
    with pytest.raises(InvalidRecord, match="partition 3"):
        staged(plan, [[outside]])
    with pytest.raises(InvalidRecord, match="value"):
        staged(plan, [[pa.RecordBatch.from_pydict({"key": ["a"]})]])
    with pytest.raises(InvalidRecord, match="timestamp"):
        staged(plan, [[pa.RecordBatch.from_pydict({"value": ["a"], "timestamp": ["now"]})]])


def age(bucket: Bucket, folder: str, days: float) -> None:
    for row in bucket.run(lambda store: store.find(folder)):
        path = Path(bucket.where.root) / row.key
        then = row.modified_ms / 1000 - days * 86400
        os.utime(path, (then, then))


def test_an_abandoned_folder_is_condemned_and_later_deleted(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "dead", 1)
    sealed(plan, staged(plan, [[numbered(0, 10)]]))
    folder = plan.target.folder
    alive = bulk.begin(bucket, "alive", 1)
    bulk.commit(alive, sealed(alive, staged(alive, [[numbered(0, 10)]])))
    assert leftovers.sweep(bucket) == []
    assert not marks(bucket, folder)
    age(bucket, folder, 1.5)
    age(bucket, alive.target.folder, 1.5)
    leftovers.sweep(bucket)
    assert marks(bucket, folder)
    leftovers.sweep(bucket)
    assert marks(bucket, folder)
    age(bucket, folder, 1.5)
    assert leftovers.sweep(bucket) == [folder]
    assert not bucket.run(lambda store: store.find(folder))
    assert [len(log) for log in records_of(bucket, bucket.topic("alive"))] == [10]
    assert not bucket.run(lambda store: store.find(f"{alive.target.folder}/staged"))


def marks(bucket: Bucket, folder: str) -> bool:
    found = bucket.run(lambda store: store.find(folder))
    return f"{folder}/condemned" in [row.key for row in found]


def test_a_load_that_was_taken_for_abandoned_does_not_become_visible(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "slow", 1)
    made = sealed(plan, staged(plan, [[numbered(0, 10)]]))
    age(bucket, plan.target.folder, 2)
    leftovers.sweep(bucket)
    with pytest.raises(LoadLost, match="abandoned"):
        bulk.commit(plan, made)
    assert bucket.topics() == []


def test_a_load_whose_objects_are_gone_does_not_become_visible(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "lost", 1)
    made = sealed(plan, staged(plan, [[numbered(0, 10)]]))
    key = f"{keys.log_folder(plan.target.folder, 0)}/{made[0].entry.name}"
    bucket.run(lambda store: store.delete([key]))
    with pytest.raises(LoadLost, match="gone"):
        bulk.commit(plan, made)
    assert bucket.topics() == []


def test_a_load_with_a_missing_segment_does_not_become_visible(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "holey", 1, configs={"segment.bytes": "1048576"})
    values = pa.RecordBatch.from_pydict({"value": [b"x" * 1000] * 700})
    made = sealed(plan, staged(plan, [[values]] * 3))
    with pytest.raises(LoadLost, match="begins at"):
        bulk.commit(plan, made[1:])
    assert bucket.topics() == []


def test_rows_that_come_from_a_topic_are_mapped(bucket: Bucket) -> None:
    import io

    import pyarrow.parquet as pq

    plan = bulk.begin(bucket, "mapped", 2)
    offsets = np.array([5, 6, 7, 9, 10])
    some = pa.RecordBatch.from_pydict(
        {
            "value": ["a"] * 5,
            "offset": offsets,
            "partition": pa.array([0, 0, 1, 1, 0], pa.int32()),
        }
    )
    loaded = bulk.commit(plan, sealed(plan, stage(plan.target, 0, [some], source=4)))
    found = bucket.run(lambda store: store.find(f"{loaded.topic.folder}/offset-map"))
    tables = [
        pq.read_table(io.BytesIO(bytes(bucket.read(row.key)))).to_pylist()
        for row in found
        if row.key.endswith(".parquet")
    ]
    assert sorted(tuple(row.values()) for table in tables for row in table) == [
        (4, 5, 6, 0, 0),
        (4, 7, 7, 1, 0),
        (4, 9, 9, 1, 1),
        (4, 10, 10, 0, 2),
    ]
