"""Where the offsets of groups come from, and what is said about it."""

from pathlib import Path

import pytest

from kafscale.log.catalog import checkpoints
from kafscale.log.formats import checkpoint
from kafscale.log.formats import keys as log_keys
from kafscale.log.formats.checkpoint import CheckpointHead
from kafscale.metadata import keys
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.metadata.store import Put
from kafscale.spark.report.group_offsets import committed
from kafscale.testing.clock import ManualClock
from tests.unit.spark.topics import Topic

KEY = keys.group_offset("billing/eu", "orders", 1)


def value(offset: int) -> bytes:
    return keys.encode(keys.CommittedOffset(offset=offset, committed_at="", topic_id="ab"))


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    made = Topic(tmp_path / "objects")
    made.bucket.clock = ManualClock(120_000)  # type: ignore[assignment]
    return made


def write_checkpoint(topic: Topic, number: int, offset: int) -> None:
    head = CheckpointHead(
        number=number,
        created_ms=30_000,
        author="me",
        cluster_id="c",
        groups=1,
        offsets=1,
        rows=[
            checkpoint.row(keys.EPOCHS, b'{"next":1}'),
            checkpoint.row(keys.group_metadata("billing/eu"), b"{}"),
            checkpoint.row(KEY, value(offset)),
        ],
    )
    bucket = topic.bucket
    assert bucket.run(
        lambda store: checkpoints.write(store, bucket.namespace, head, [], bucket.dice)
    )


def test_a_bucket_alone_gives_them_as_of_its_last_checkpoint(topic: Topic) -> None:
    write_checkpoint(topic, 1, 5)
    write_checkpoint(topic, 2, 7)
    found = committed(topic.bucket, None)
    assert found.offsets == {("billing/eu", "orders", 1): (7, "ab")}
    assert found.age_s == 90
    assert found.source == (
        "offsets of groups are from the bucket's checkpoint of 1970-01-01T00:00:30.000Z, 90 s ago"
    )


def test_a_broken_checkpoint_is_told_of_and_the_one_before_taken(topic: Topic) -> None:
    write_checkpoint(topic, 1, 5)
    topic.bucket.put_new(log_keys.checkpoint(topic.bucket.namespace, 2), [b"nonsense"])
    found = committed(topic.bucket, None)
    assert found.offsets == {("billing/eu", "orders", 1): (5, "ab")}
    assert "checkpoint 2 cannot be used" in found.source


def test_without_a_checkpoint_there_are_none(topic: Topic) -> None:
    found = committed(topic.bucket, None)
    assert (found.offsets, found.age_s) == ({}, None)
    assert "no checkpoint in the bucket" in found.source


async def test_the_metadata_store_beats_the_checkpoint(topic: Topic, tmp_path: Path) -> None:
    write_checkpoint(topic, 1, 5)
    metadata = EmbeddedMetadataStore(tmp_path / "metadata.db")
    await metadata.commit([Put(KEY, value(9))])
    found = committed(topic.bucket, None)
    assert found.offsets == {("billing/eu", "orders", 1): (9, "ab")}
    assert (found.age_s, found.source) == (
        None,
        f"offsets of groups are from {tmp_path / 'metadata.db'}",
    )
    await metadata.aclose()
