"""A bulk load and a mirror's appending on a real S3 server, as on files."""

from pathlib import Path

import pytest

from kafscale.model.errors import TopicExists
from kafscale.spark import leftovers
from kafscale.spark.bucket import Bucket
from kafscale.spark.sink import bulk
from tests.support import seaweed
from tests.unit.spark.loaded import bucket_in, numbered, objects, records_of, sealed, staged


@pytest.fixture(params=["files", pytest.param("s3", marks=pytest.mark.slow)])
def bucket(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    if request.param == "files":
        return bucket_in(tmp_path)
    server: seaweed.SeaweedServer = request.getfixturevalue("seaweed_server")
    monkeypatch.setenv("KAFSCALE_S3_ENDPOINT", server.endpoint)
    monkeypatch.setenv("KAFSCALE_S3_ACCESS_KEY", seaweed.ACCESS_KEY)
    monkeypatch.setenv("KAFSCALE_S3_SECRET_KEY", seaweed.SECRET_KEY)
    return Bucket(f"s3://{seaweed.BUCKET}/{tmp_path.name}-{request.node.name[:20]}")


def test_a_load_is_whole_or_absent(bucket: Bucket) -> None:
    plan = bulk.begin(bucket, "new", 3, compression="zstd")
    late = bulk.begin(bucket, "new", 3)
    sections = staged(plan, [[numbered(0, 3000)], [numbered(3000, 2000)]])
    made = sealed(plan, sections)
    assert bucket.topics() == []
    assert bulk.commit(plan, made).records == 5000
    bulk.tidy_up(plan)
    with pytest.raises(TopicExists):
        bulk.commit(late, [])
    logs = records_of(bucket, bucket.topic("new"))
    assert sum(map(len, logs)) == 5000
    assert all([r.offset for r in log] == list(range(len(log))) for log in logs)
    assert objects(bucket, f"{plan.target.folder}/staged") == []
    assert leftovers.sweep(bucket) == []
