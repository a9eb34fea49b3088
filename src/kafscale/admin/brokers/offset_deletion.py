"""Deleting single committed offsets of a group.

The client library has no verb for OffsetDelete. So this request goes to the group's coordinator in
Kafka's own words, over a connection of its own.
Next door: what groups have committed (groups.py), moving it (group_resets.py).
Never here: TLS and logins; `delete_offsets` refuses them.
"""

import itertools
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient

from kafscale.admin.brokers import groups
from kafscale.admin.brokers.client import ANSWER_WITHIN_S
from kafscale.admin.brokers.offsets import PartitionName
from kafscale.admin.errors import AdminError
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

_LENGTH: Final = struct.Struct(">i")
_VERSION: Final = 0
_LARGEST_ANSWER: Final = 100 << 20
_WORDS: Final = {
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
    *,
    security: str = "",
) -> list[DeletedOffset]:
    """Delete what a group has committed for these partitions; None: all of the topic's.

    `security` is the client's security.protocol.
    """
    if security.upper() not in ("", "PLAINTEXT"):
        raise AdminError(
            f"{group}: single offsets cannot be deleted over {security}; "
            "kafka-consumer-groups.sh --delete-offsets can do it"
        )
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
    _check(group, _ask(groups.find_coordinator(admin, group), request))
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
    try:
        known = ErrorCode(code)
    except ValueError:
        return f"error {code}"
    return _WORDS.get(known, known.name)


def _ask(address: tuple[str, int], request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Send the request over a connection of its own, and give the answer."""
    sent = b"".join(frame.request_frame(1, request, _VERSION, "kafscale-cli"))
    try:
        with socket.create_connection(address, timeout=ANSWER_WITHIN_S) as connection:
            connection.sendall(sent)
            with connection.makefile("rb") as stream:
                (size,) = _LENGTH.unpack(_exactly(stream.read(_LENGTH.size), _LENGTH.size))
                if not 0 <= size <= _LARGEST_ANSWER:
                    raise AdminError(f"no Kafka broker at {address[0]}:{address[1]}")
                raw = _exactly(stream.read(size), size)
    except OSError as bad:
        reason = bad.strerror or str(bad)
        raise AdminError(f"the coordinator at {address[0]}:{address[1]}: {reason}") from bad
    _, answer = frame.read_response(memoryview(bytearray(raw)), OffsetDeleteResponse, _VERSION)
    return answer


def _exactly(received: bytes, size: int) -> bytes:
    if len(received) < size:
        raise ConnectionError("it closed the connection without an answer")
    return received
