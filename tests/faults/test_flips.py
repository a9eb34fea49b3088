"""Leaders that change and come back, short enough for every day; `flips.py` plays it often."""

import pytest

from tests.faults import flips
from tests.faults.flips import FlipFleet
from tests.support import etcd

pytestmark = pytest.mark.slow


def test_default_clients_keep_every_partition_when_brokers_vanish_and_come_back() -> None:
    if reason := etcd.missing():
        pytest.skip(reason)
    outcome = flips.play(1, 3, [FlipFleet.etcd_away, FlipFleet.paused], print, count=2)
    print(outcome)
    assert outcome.stuck == []
    assert outcome.contradictions == []
    assert outcome.generations >= 3
