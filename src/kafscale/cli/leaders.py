"""Asking the brokers that lead partitions for offsets, and outliving the death of one.

In this room: one question, put again until every partition has an answer. What a broker had that
died is led by nobody until its lease has ended (`etcd.leaseTtl`); the client library asks the
dead one all that time, and then gives an offset that is none.
Next door: connections and refusals (kafka.py).
"""

import contextlib
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafscale.cli.errors import CommandError
from kafscale.system import SystemClock

PATIENCE_S: Final = 60.0  # a lease, and what comes after it, several times over
_ASK_FOR_S: Final = 5.0  # then again: the new leader is not found otherwise
_PAUSE_S: Final = 0.25
# Over when the partition has another leader.
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

Place = tuple[str, int]  # topic, partition
Offsets = dict[Place, int | KafkaException]


def list_offsets(admin: AdminClient, wanted: Mapping[Place, Any]) -> Offsets:
    """Ask for an offset of each partition; gives what was answered, or why it was refused."""
    clock = SystemClock()
    give_up_s = clock.elapsed_s() + PATIENCE_S
    found: Offsets = {}
    left = dict(wanted)
    while left:
        why = _ask(admin, left, found)
        left = {place: spec for place, spec in left.items() if place not in found}
        if left and clock.elapsed_s() > give_up_s:
            topic, partition = next(iter(left))
            raise CommandError(
                f"{topic}/{partition}: {why or 'its broker does not answer'}, "
                f"and has not for {PATIENCE_S:.0f} s"
            )
        if left:
            time.sleep(_PAUSE_S)
            _look_again(admin)
    return found


def _look_again(admin: AdminClient) -> None:
    """Have the client library learn who leads what: it goes on asking whom it knows."""
    with contextlib.suppress(KafkaException):  # nobody answers yet
        admin.list_topics(timeout=_ASK_FOR_S)  # of all: to ask for one could create it


def _ask(admin: AdminClient, left: Mapping[Place, Any], found: Offsets) -> str:
    """Ask once; gives the reason why the first of those is missing that are, if it is known."""
    why: list[str] = []
    request = {TopicPartition(*place): spec for place, spec in left.items()}
    for asked, answer in admin.list_offsets(request, request_timeout=_ASK_FOR_S).items():
        try:
            offset = answer.result().offset
        except KafkaException as bad:
            if bad.args[0].code() in PASSING:
                why.append(bad.args[0].str().removeprefix("Broker: "))
            else:
                found[asked.topic, asked.partition] = bad
        else:
            if offset == OFFSET_INVALID:
                why.append("")
            else:
                found[asked.topic, asked.partition] = offset
    return why[0] if why else ""
