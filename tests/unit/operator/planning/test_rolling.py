"""A new template reaches one broker at a time, and only a fleet that is well."""

import pytest

from kafscale.operator.planning import rolling
from kafscale.operator.planning.rolling import Roll
from kafscale.operator.planning.seen_cluster import SeenBroker, SeenCluster
from tests.unit.operator.examples import facts, pod, stateful_set


def go_on(
    pods: list[tuple[str, bool]],
    partition: int,
    said: dict[str, SeenBroker] | None = None,
    *,
    observed: bool = True,
) -> Roll:
    """`pods`: revision and readiness of each broker."""
    seen = SeenCluster(
        pods=tuple(pod(n, revision=rev, ready=ok) for n, (rev, ok) in enumerate(pods)),
        facts=facts(len(pods)) if said is None else said,
    )
    live = stateful_set(replicas=len(pods), partition=partition, observed=observed)
    return rolling.go_on(live, seen)


OLD, NEW = ("old", True), ("new", True)
OLD_AWAY, NEW_AWAY, BAD_AWAY = ("old", False), ("new", False), ("bad", False)


@pytest.mark.parametrize(
    ("pods", "partition", "next_partition", "reason"),
    [
        ([OLD, OLD, OLD], 3, 2, "Rolling"),
        ([OLD, OLD, OLD], 2, 2, "Rolling"),  # the controller is at it
        ([OLD, OLD, NEW_AWAY], 2, 2, "HeldByUnreadyBroker"),
        ([OLD, OLD, NEW], 2, 1, "Rolling"),
        ([OLD, NEW, NEW], 1, 0, "Rolling"),
        ([NEW, NEW, NEW], 1, 0, "RolledOut"),
        ([OLD_AWAY, OLD, NEW], 2, 2, "HeldByUnreadyBroker"),
        ([OLD_AWAY, NEW, NEW], 1, 0, "Rolling"),  # replacing it takes nothing away
        ([OLD, OLD, BAD_AWAY], 3, 2, "Rolling"),  # a bad image is corrected
        ([OLD_AWAY, OLD_AWAY, OLD_AWAY], 3, 0, "Rolling"),  # nothing to protect
        ([NEW], 0, 0, "RolledOut"),
    ],
)
def test_how_far_a_roll_goes(
    pods: list[tuple[str, bool]], partition: int, next_partition: int, reason: str
) -> None:
    roll = go_on(pods, partition)
    assert (roll.partition, roll.reason) == (next_partition, reason), roll.message


def test_a_roll_waits_until_its_controller_has_seen_the_template() -> None:
    assert go_on([OLD, OLD, OLD], 3, observed=False).partition == 3


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (facts(2), "HeldByFleet"),  # the third does not answer
        (facts(3, is_store_unavailable=True), "HeldByStore"),
        (facts(3, logs_stopped=1), "HeldByFleet"),
        ({**facts(2), "production-broker-2": SeenBroker(generation=8)}, "HeldByFleet"),
    ],
)
def test_a_fleet_that_has_not_settled_holds_the_roll(
    said: dict[str, SeenBroker], reason: str
) -> None:
    roll = go_on([OLD, OLD, NEW], 2, said)
    assert (roll.partition, roll.reason) == (2, reason)


def test_a_roll_never_takes_two_brokers_away_and_ends() -> None:
    pods = [OLD] * 5
    partition = rolling.begin(5).partition
    for _ in range(50):
        roll = go_on(list(pods), partition)
        assert roll.partition >= partition - 1
        partition = roll.partition
        if roll.is_done:
            break
        for number in range(partition, 5):  # what the StatefulSet's controller does
            if pods[number][0] == "old":
                assert sum(not ok for _, ok in pods) == 0
                pods[number] = NEW_AWAY
                break
        else:
            pods = [(revision, True) for revision, _ in pods]
        if any(one == NEW_AWAY for one in pods):
            assert go_on(list(pods), partition).partition == partition
            pods = [(revision, True) for revision, _ in pods]
    assert pods == [NEW] * 5
    assert roll.is_done
