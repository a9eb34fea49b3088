"""Named snapshots: the same answer later, and a clear one when it is too late."""

from pathlib import Path

import pytest

from kafscale.log.formats import keys
from kafscale.log.formats.segment import NOTHING_BEFORE
from kafscale.model.errors import InvalidTopicName, UnknownTopic
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.source import pins
from kafscale.spark.source.pins import SnapshotError, SnapshotExpired
from kafscale.spark.source.rows.columns import WantedColumns
from kafscale.spark.source.rows.tasks import read_rows
from tests.support.topics import Log, build_segment, put_segment
from tests.unit.spark.source.rows.test_reading import (
    batches,
    offsets,
    options,
    planned,
    read,
    store_with,
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    log = Log(history=[{0: batches(0, 50)}], tail=[{0: batches(50, 20)}])
    return store_with(tmp_path, "t", 1, [log])


def append(bucket: Bucket) -> None:
    """The log goes on by ten records."""

    async def write(store: ObjectStore) -> None:
        lanes = {0: batches(70, 10)}
        built = build_segment(70, lanes, NOTHING_BEFORE, token=1)
        await put_segment(store, "default/t/0", keys.segment_name(70), built, lanes)

    bucket.run(write)


def test_a_snapshot_stands_still_while_the_log_goes_on(url: str) -> None:
    bucket = Bucket(url)
    pins.take(bucket, "monday", ["t"])
    append(bucket)
    assert offsets(read(options(url))) == list(range(80))
    assert offsets(read(options(url, asOf="monday"))) == list(range(70))
    by_pattern = options(url, asOf="monday", subscribe="", subscribePattern="t.*")
    assert len(read(by_pattern)) == 70


def test_each_log_of_a_snapshot_has_a_pin(url: str, tmp_path: Path) -> None:
    taken = pins.take(Bucket(url), "monday", kept_ms=1000)
    (pin,) = taken.pins
    assert (tmp_path / "objects" / pin).exists()
    assert keys.parse_pin(pin) == keys.Pin(1, 70, taken.expires_ms)


def test_a_snapshot_can_be_given_up(url: str, tmp_path: Path) -> None:
    bucket = Bucket(url)
    pins.take(bucket, "monday")
    pins.release(bucket, "monday")
    assert not list((tmp_path / "objects").rglob("pin-*"))
    with pytest.raises(SnapshotError, match="no snapshot 'monday'"):
        planned(options(url, asOf="monday"))


def test_an_expired_snapshot_says_so(url: str) -> None:
    pins.take(Bucket(url), "monday", kept_ms=0)
    with pytest.raises(SnapshotExpired, match="'monday' has expired"):
        planned(options(url, asOf="monday"))
    bucket = Bucket(url)
    assert [one.name for one in pins.find_all(bucket)] == ["monday"]
    pins.release(bucket, "monday")
    assert pins.find_all(bucket) == []
    pins.take(bucket, "monday")
    assert len(planned(options(url, asOf="monday"))) == 1


def test_objects_that_are_gone_all_the_same_say_so(url: str, tmp_path: Path) -> None:
    pins.take(Bucket(url), "monday")
    found = options(url, asOf="monday")
    splits = planned(found)
    for path in (tmp_path / "objects/default/t").rglob("*.kfs"):
        path.unlink()
    with pytest.raises(SnapshotExpired, match="'monday' has expired"):
        [list(read_rows(found, WantedColumns(("offset",)), split, None)) for split in splits]


def test_names_are_used_once_and_topics_must_be_in_it(url: str) -> None:
    bucket = Bucket(url)
    pins.take(bucket, "monday")
    with pytest.raises(SnapshotError, match="already"):
        pins.take(bucket, "monday")
    with pytest.raises(UnknownTopic, match="does not hold the topic 'other'"):
        planned(options(url, asOf="monday", subscribe="other"))
    with pytest.raises(InvalidTopicName):
        pins.take(bucket, "../monday")


def test_snapshots_are_no_topics(url: str) -> None:
    bucket = Bucket(url)
    pins.take(bucket, "monday")
    assert [topic.name for topic in bucket.topics()] == ["t"]
