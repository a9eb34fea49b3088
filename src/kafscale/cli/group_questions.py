"""Asking a broker about consumer groups, as any Kafka client does.

Next door: what is shown of it (groups.py), moving offsets (group_offsets.py).
"""

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConsumerGroupDescription,
    OffsetSpec,
)

from kafscale.cli.kafka import ANSWER_WITHIN_S, refusal, wait
from kafscale.cli.leaders import Place, list_offsets

_STATES: Final = {
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.DEAD: "Dead",
}


def state_name(state: Any) -> str:
    """A state as the protocol calls it."""
    return _STATES.get(state, "Unknown")


def described(admin: AdminClient, name: str) -> ConsumerGroupDescription:
    """Ask who is in a group."""
    answers = admin.describe_consumer_groups([name], request_timeout=ANSWER_WITHIN_S)
    group: ConsumerGroupDescription = wait(name, answers[name])
    return group


def committed_of(admin: AdminClient, name: str) -> dict[Place, int]:
    """Ask what a group has committed."""
    wanted = [ConsumerGroupTopicPartitions(name)]
    answers = admin.list_consumer_group_offsets(wanted, request_timeout=ANSWER_WITHIN_S)
    found = wait(name, answers[name]).topic_partitions
    return {(row.topic, row.partition): row.offset for row in found if row.offset >= 0}


def ends_of(admin: AdminClient, places: Iterable[Place]) -> dict[Place, int]:
    """Ask for the offset the next record of each partition will get."""
    return offsets_at(admin, places, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def offsets_at(admin: AdminClient, places: Iterable[Place], spec: Any) -> dict[Place, int]:
    """Ask for an offset of each partition; what has been deleted meanwhile is left out."""
    found = {}
    for place, answer in list_offsets(admin, dict.fromkeys(places, spec)).items():
        if not isinstance(answer, KafkaException):
            found[place] = answer
        elif answer.args[0].retriable():
            raise refusal(f"{place[0]}/{place[1]}", answer) from answer
    return found


def lag_of(committed: dict[Place, int], ends: dict[Place, int]) -> int:
    """How many records a group has not come to yet."""
    return sum(max(ends[place] - at, 0) for place, at in committed.items() if place in ends)
