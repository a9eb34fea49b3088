"""The bucket as synchronous code sees it."""

import asyncio
import pickle
from pathlib import Path

import pytest

from kafscale.log.catalog import notices
from kafscale.log.formats import keys
from kafscale.model.errors import ObjectExists, UnknownTopic
from kafscale.objects.files import FileObjectStore
from kafscale.spark.bucket import Bucket
from tests.unit.admin.bucket_builder import LOG, TOPIC, built


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    FileObjectStore(tmp_path)
    found = Bucket(f"file://{tmp_path}")
    found.put_new(keys.descriptor("default/orders", 1), [TOPIC.encode()])
    found.put_new(keys.segment(LOG, 0), built(0, 3, 2).body)
    found.put_new(keys.segment(LOG, 5), built(5, 4).body)
    return found


def test_topics_are_found_by_the_bucket_alone(bucket: Bucket) -> None:
    assert [topic.name for topic in bucket.topics()] == ["orders"]
    assert bucket.topic("orders") == TOPIC
    assert bucket.select(pattern="or.*") == [TOPIC]
    assert bucket.select(pattern="or") == []
    with pytest.raises(UnknownTopic, match="no topic 'nothing'"):
        bucket.topic("nothing")


def test_a_snapshot_has_the_tail_with_its_times(bucket: Bucket) -> None:
    [log] = bucket.snapshots(TOPIC)
    assert [(piece.base, piece.end) for piece in log.pieces] == [(0, 5), (5, 9)]
    assert log.lanes() == {0: (0, 9)}
    assert log.pieces[1].spans[0].max_timestamp_ms - log.pieces[0].spans[0].min_timestamp_ms == 8


def test_a_bucket_travels_as_its_url(bucket: Bucket) -> None:
    again = pickle.loads(pickle.dumps(bucket))
    assert again.topics() == bucket.topics()


async def test_it_can_be_used_inside_a_running_loop(bucket: Bucket) -> None:
    assert await asyncio.to_thread(bucket.topics) == bucket.topics()


def test_errors_of_the_store_arrive(bucket: Bucket) -> None:
    with pytest.raises(ObjectExists):
        bucket.put_new(keys.segment(LOG, 0), [b""])


def test_brokers_are_told_of_every_manifest_and_descriptor_that_a_job_creates(
    tmp_path: Path,
) -> None:
    FileObjectStore(tmp_path)
    bucket = Bucket(f"file://{tmp_path}")
    for number in range(3):
        bucket.put_new(f"default/t/{number}/manifest-{1:020d}", [b"{}"])
    bucket.put_new(f"default/t/descriptor-{1:020d}", [b"{}"])
    bucket.put_new("default/t/0/other", [b"{}"])
    bucket.tell()
    told = []
    for number in bucket.run(notices.list_numbers, "default"):
        notice = bucket.run(notices.read, "default", number)
        assert notice is not None
        told += [*notice.logs, *notice.topics]
    assert sorted(told) == ["default/t/0", "default/t/1", "default/t/2", "t"]
