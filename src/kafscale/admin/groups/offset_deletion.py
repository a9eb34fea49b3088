"""Deleting single committed offsets of a group.

The client library has no verb for OffsetDelete. So this request goes to the group's coordinator in
Kafka's own words (wire_requests.py).
Next door: what groups have committed (groups.py), moving it (group_resets.py).
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient

from kafscale.admin.brokers.offsets import PartitionName
from kafscale.admin.brokers.wire_requests import ask_broker, error_name
from kafscale.admin.errors import AdminError
from kafscale.admin.groups import groups
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

_VERSION: Final = 0
_WORDS: Final[dict[int, str]] = {
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read this topic; stop them first",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition any more",
    ErrorCode.NON_EMPTY_GROUP: "the group has members, and it is not known what they read",
}


class DeletedOffset(NamedTuple):
    """A partition for which the group has no offset any more, and the one it had."""

    topic: str
    partition: int
    committed: int


def delete_offsets(
    admin: AdminClient,
    group: str,
    partitions: Mapping[str, Sequence[int] | None],
    settings: Mapping[str, Any],
) -> list[DeletedOffset]:
    """Delete what a group has committed for these partitions; None: all of the topic's.

    `settings` are those of the client.
    """
    committed = groups.list_committed(admin, group)
    chosen = {
        key: committed[key]
        for key in sorted(committed)
        if key[0] in partitions and _is_named(partitions[key[0]], key[1])
    }
    if not chosen:
        raise AdminError(f"{group}: the group has committed nothing for these partitions")
    request = OffsetDeleteRequest(
        group,
        [
            OffsetDeleteRequestTopic(
                topic, [OffsetDeleteRequestPartition(number) for _, number in keys]
            )
            for topic, keys in itertools.groupby(chosen, lambda key: key[0])
        ],
    )
    coordinator = groups.find_coordinator(admin, group)
    _check(group, ask_broker(coordinator, settings, request, OffsetDeleteResponse, _VERSION))
    return [DeletedOffset(*key, offset) for key, offset in chosen.items()]


def _is_named(numbers: Sequence[int] | None, partition: int) -> bool:
    return numbers is None or partition in numbers


def _check(group: str, answer: OffsetDeleteResponse) -> None:
    """Raise what the coordinator refused."""
    if answer.error_code:
        raise AdminError(f"{group}: {_text(answer.error_code)}")
    refused = {
        (topic.name, row.partition_index): row.error_code
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code
    }
    if refused:
        raise AdminError("; ".join(_refusals(refused.items())))


def _refusals(rows: Iterable[tuple[PartitionName, int]]) -> Iterable[str]:
    return (f"{topic}/{partition}: {_text(code)}" for (topic, partition), code in rows)


def _text(code: int) -> str:
    return _WORDS.get(code) or error_name(code)
