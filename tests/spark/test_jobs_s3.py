"""The jobs on a real S3 server; what Spark would schedule is done in turn."""

import pytest

from kafscale.spark.job import Context
from kafscale.spark.jobs.audit import audit
from kafscale.spark.jobs.compact import compact
from kafscale.spark.jobs.compaction import commit_waves
from kafscale.spark.jobs.compaction.by_key import compact_by_key
from kafscale.spark.jobs.retain import retain
from tests.contract.conftest import s3_settings
from tests.support.seaweed import SeaweedServer
from tests.unit.spark.jobs.place import Place, local


@pytest.fixture
def place(seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> Place:
    settings = s3_settings(seaweed_server)
    monkeypatch.setenv("KAFSCALE_S3_ENDPOINT", settings.endpoint)
    monkeypatch.setenv("KAFSCALE_S3_ACCESS_KEY", settings.access_key.reveal())
    monkeypatch.setenv("KAFSCALE_S3_SECRET_KEY", settings.secret_key.reveal())
    monkeypatch.setattr(commit_waves, "run_units", local)
    return Place(f"s3://{settings.bucket}", cleanup_policy="compact,delete")


def test_a_bucket_is_kept_in_shape(place: Place) -> None:
    for lane in (0, 1):
        place.write([[(b"k%d" % (n % 9), b"x" * 50)] * 3 for n in range(40)], lane=lane)
    place.write([[(b"tail", b"1")]], roll_up=False)
    context = Context(place.bucket, session=object())  # type: ignore[arg-type]
    before = place.pairs(1)
    assert compact(context, target=4000, tail_idle_s=0).facts["objects_written"] > 4
    assert place.pairs(1) == before
    assert compact_by_key(context, dirty_ratio=0).exit_code == 0
    assert len(place.pairs(1)) == 9
    found = audit(context)
    assert (found.exit_code, found.facts["errors"]) == (0, 0)
    assert retain(context, grace_s=0).facts["objects_swept"] > 80
    assert audit(context).exit_code == 0
    assert [offset for offset, key, _ in place.pairs(0) if key == b"tail"] == [120]
