"""Asking the brokers that lead partitions for offsets, also while one of them has died.

Here: one question, put again until every partition has an answer. The partitions of a dead broker
have no leader until its lease has ended (`etcd.leaseTtl`). All that time the client library asks
the dead broker, and then answers with an invalid offset.
Next door: connections and refusals (client.py).
"""

import contextlib
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafscale.admin.errors import AdminError
from kafscale.system import SystemClock

PATIENCE_S: Final = 60.0  # several times a lease and the take-over after it
_ASK_FOR_S: Final = 5.0  # then it asks again: else it does not find the new leader
_PAUSE_S: Final = 0.25
# Errors that end when the partition has another leader.
PASSING: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._NOENT,  # none of the partitions asked for has a leader
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)

PartitionName = tuple[str, int]  # topic, partition
OffsetAnswers = dict[PartitionName, int | KafkaException]


def list_offsets(admin: AdminClient, wanted: Mapping[PartitionName, Any]) -> OffsetAnswers:
    """Ask for an offset of each partition; gives what was answered, or why it was refused."""
    clock = SystemClock()
    give_up_s = clock.elapsed_s() + PATIENCE_S
    answers: OffsetAnswers = {}
    left = dict(wanted)
    while left:
        why = _ask(admin, left, answers)
        left = {key: spec for key, spec in left.items() if key not in answers}
        if left and clock.elapsed_s() > give_up_s:
            topic, partition = next(iter(left))
            raise AdminError(
                f"{topic}/{partition}: {why or 'its broker does not answer'}, "
                f"and has not for {PATIENCE_S:.0f} s"
            )
        if left:
            time.sleep(_PAUSE_S)
            _refresh_leaders(admin)
    return answers


def _refresh_leaders(admin: AdminClient) -> None:
    """Let the client library read the leaders again: else it asks the old ones."""
    with contextlib.suppress(KafkaException):  # no broker answers yet
        admin.list_topics(timeout=_ASK_FOR_S)  # of all topics: to ask for one could create it


def _ask(admin: AdminClient, left: Mapping[PartitionName, Any], answers: OffsetAnswers) -> str:
    """Ask once; gives why the first missing answer is missing, if that is known."""
    why: list[str] = []
    request = {TopicPartition(*key): spec for key, spec in left.items()}
    for asked, answer in admin.list_offsets(request, request_timeout=_ASK_FOR_S).items():
        try:
            offset = answer.result().offset
        except KafkaException as bad:
            if bad.args[0].code() in PASSING:
                why.append(bad.args[0].str().removeprefix("Broker: "))
            else:
                answers[asked.topic, asked.partition] = bad
        else:
            if offset == OFFSET_INVALID:
                why.append("")
            else:
                answers[asked.topic, asked.partition] = offset
    return why[0] if why else ""
