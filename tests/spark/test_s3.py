"""The source's reading and planning on a real S3 server; no session needed for that."""

import asyncio

import pytest

from kafscale.objects.s3 import S3ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.source import pins
from tests.contract.conftest import s3_settings
from tests.support.seaweed import SeaweedServer
from tests.support.topics import Log, lay
from tests.unit.spark.source.rows.test_reading import batches, offsets, options, read


@pytest.fixture
def url(seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic of two partitions in a bucket, credentials in the environment."""
    settings = s3_settings(seaweed_server)
    monkeypatch.setenv("KAFSCALE_S3_ENDPOINT", settings.endpoint)
    monkeypatch.setenv("KAFSCALE_S3_ACCESS_KEY", settings.access_key.reveal())
    monkeypatch.setenv("KAFSCALE_S3_SECRET_KEY", settings.secret_key.reveal())

    async def write() -> None:
        store = S3ObjectStore(settings)
        log = Log(
            history=[{0: batches(0, 500)}], tail=[{0: batches(n, 10)} for n in range(500, 700, 10)]
        )
        await lay(store, "t", 2, [log, log], namespace="spark/tests")
        await store.aclose()

    asyncio.run(write())
    return f"s3://{settings.bucket}/spark/tests"


def test_topics_in_a_bucket_are_read_like_files(url: str) -> None:
    found = options(url, minPartitions="3", startingOffsets='{"t": {"0": 7, "1": -2}}')
    rows = read(found)
    assert offsets(rows, 0) == list(range(7, 700))
    assert offsets(rows, 1) == list(range(700))
    pins.take(Bucket(url), "now")
    assert len(read(options(url, asOf="now"))) == 1400
    pins.release(Bucket(url), "now")
