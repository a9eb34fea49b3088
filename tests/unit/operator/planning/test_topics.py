"""What is asked of brokers so that a topic is as its object says."""

from typing import Any

import msgspec
import pytest

from kafscale.operator.kinds.topic import KafscaleTopic
from kafscale.operator.planning.topics import DescribedTopic, plan_topic


def topic(
    *,
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    generation: int = 1,
    **spec: Any,
) -> KafscaleTopic:
    return msgspec.convert(
        {
            "metadata": {
                "name": "orders",
                "namespace": "team",
                "generation": generation,
                "annotations": annotations or {},
            },
            "spec": {"clusterRef": "production", "partitions": 3, **spec},
            "status": status or {},
        },
        KafscaleTopic,
    )


def described(partitions: int = 3, own: tuple[str, ...] = (), **configs: str) -> DescribedTopic:
    settings = {"retention.ms": "604800000", "retention.bytes": "-1", **configs}
    return DescribedTopic("id", dict.fromkeys(range(partitions), "0"), settings, frozenset(own))


KNOWN = {"topicId": "id", "observedGeneration": 1}


def test_a_topic_that_is_not_there_is_created_with_its_settings() -> None:
    planned = plan_topic(topic(config={"cleanup.policy": "compact"}), None)
    assert planned.create
    assert planned.partitions == 3
    assert planned.changed == {
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "cleanup.policy": "compact",
    }


def test_a_topic_that_is_as_wanted_is_left_alone() -> None:
    planned = plan_topic(topic(status=KNOWN), described())
    assert not planned.asks
    assert planned.told == ()
    assert planned.finding.status is True


def test_missing_partitions_are_added_and_surplus_ones_are_told() -> None:
    assert plan_topic(topic(), described(partitions=1)).partitions == 3
    planned = plan_topic(topic(), described(partitions=4))
    assert not planned.asks
    assert planned.finding.reason == "PartitionsCannotShrink"
    assert "4 partitions" in planned.finding.message


def test_drift_is_put_right_and_told_with_both_values() -> None:
    planned = plan_topic(topic(status=KNOWN), described(**{"retention.ms": "5"}))
    assert planned.changed == {"retention.ms": "604800000"}
    assert planned.told == (("DriftCorrected", "retention.ms: 5 -> 604800000"),)


def test_a_change_by_a_person_is_no_drift() -> None:
    planned = plan_topic(topic(status=KNOWN, generation=2, retentionMs=5), described())
    assert planned.changed == {"retention.ms": "5"}
    assert planned.told == ()


def test_a_topic_that_was_there_is_adopted() -> None:
    assert plan_topic(topic(), described()).told[0][0] == "Adopted"


@pytest.mark.parametrize(("marks", "reset"), [({}, ()), ({"kafscale.io/strict": "true"}, ("a.b",))])
def test_other_settings_are_reset_only_where_that_is_asked_for(
    marks: dict[str, str], reset: tuple[str, ...]
) -> None:
    found = described(own=("a.b", "retention.ms"), **{"a.b": "1"})
    assert plan_topic(topic(annotations=marks, status=KNOWN), found).reset == reset


def test_a_paused_topic_is_not_touched() -> None:
    planned = plan_topic(topic(annotations={"kafscale.io/paused": "true"}), None)
    assert not planned.asks
    assert planned.finding.reason == "Paused"
