"""What a request must be authorized for, in the forms that many APIs share.

Here: a request loses the rows that are denied, so that its handler never sees them, and the
answer gets a row with the protocol's own error for each. Where Kafka answers a request as a whole
with one error, the handler is not asked at all.
Next door: forms of single APIs (api_requirements.py), which API asks for what (apis/).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Call, Requirement
from kafscale.model.security.access import CLUSTER_NAME, AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.schema import Message

CODE_OF: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

_Row = TypeVar("_Row")


def is_denied(call: Call, operation: AccessOperation, kind: ResourceType, name: str | None) -> bool:
    """Whether the client may not do this; counted if so. Nothing to name: nothing to deny."""
    if name is None or call.allows(operation, kind, name):
        return False
    client_errors.note_denied(call, CODE_OF[kind].name.lower(), operation, kind, name)
    return True


def are_hidden(call: Call, topics: Iterable[str]) -> bool:
    """Whether the client may not know of one of the topics; counted if so."""
    operation, kind = AccessOperation.DESCRIBE, ResourceType.TOPIC
    hidden = [name for name in topics if is_denied(call, operation, kind, name)]
    return bool(hidden)


def split(
    call: Call,
    operation: AccessOperation,
    kind: ResourceType,
    rows: Iterable[_Row],
    name_of: Callable[[_Row], str | None],
) -> tuple[list[_Row], list[_Row]]:
    """The rows that are allowed, and those that are denied."""
    allowed: list[_Row] = []
    denied: list[_Row] = []
    for row in rows:
        (denied if is_denied(call, operation, kind, name_of(row)) else allowed).append(row)
    return allowed, denied


@dataclass(frozen=True, slots=True)
class EachRow:
    """Every row of a request names a resource and gets an answer of its own."""

    operation: AccessOperation
    kind: ResourceType
    rows: str  # the field of the request
    name_of: Callable[[Any], str | None]
    answers: str  # the field of the response
    refused: Callable[[Any, ErrorCode], Any]  # the answer to a row that is denied

    def check(self, call: Call) -> Message | None:
        """Take denied rows out of the request, and answer them beside the others."""
        rows = getattr(call.message, self.rows)
        allowed, denied = split(call, self.operation, self.kind, rows, self.name_of)
        if denied:
            setattr(call.message, self.rows, allowed)
            answers = [self.refused(row, CODE_OF[self.kind]) for row in denied]
            call.amend(lambda response: getattr(response, self.answers).extend(answers))
        return None


@dataclass(frozen=True, slots=True)
class WholeRequest:
    """A request is about one resource and is refused as a whole."""

    operation: AccessOperation
    kind: ResourceType
    name_of: Callable[[Any], str]
    refused: Callable[[Call, ErrorCode], Message]

    def check(self, call: Call) -> Message | None:
        """Answer at once if the client may not do this."""
        if is_denied(call, self.operation, self.kind, self.name_of(call.message)):
            return self.refused(call, CODE_OF[self.kind])
        return None


@dataclass(frozen=True, slots=True)
class UnlessOnCluster:
    """A client that may do something to the cluster needs no leave for single resources."""

    operation: AccessOperation
    otherwise: Requirement

    def check(self, call: Call) -> Message | None:
        """Ask for the rest where the client may not do this."""
        if call.allows(self.operation, ResourceType.CLUSTER, CLUSTER_NAME):
            return None
        return self.otherwise.check(call)


def by_name(row: Any) -> str:
    """The resource of a row that calls it `name`."""
    name: str = row.name
    return name


def by_topic(row: Any) -> str:
    """The resource of a row that calls it `topic`."""
    name: str = row.topic
    return name


def by_group(request: Any) -> str:
    """The group of a request about one."""
    name: str = request.group_id
    return name


def by_transactional_id(request: Any) -> str:
    """The transactional id of a request about one."""
    name: str = request.transactional_id
    return name


def partition_indexes_of(row: Any) -> list[int]:
    """The partitions of a topic whose rows call their number `partition_index`."""
    return [partition.partition_index for partition in row.partitions]


def itself(row: str) -> str:
    """The resource of a row that is nothing but a name."""
    return row


def cluster(request: Any) -> str:
    """The cluster, whatever the request is."""
    return CLUSTER_NAME


def error_alone(response_type: Callable[..., Message]) -> Callable[[Call, ErrorCode], Message]:
    """The response of an API that has a field for the error of the whole request."""
    return lambda call, code: response_type(error_code=code)


def topic_row(
    topic_type: Callable[[str, list[Any]], Any],
    partition_type: Callable[..., Any],
    partitions: Callable[[Any], Iterable[int]],
    name_of: Callable[[Any], str] = by_name,
    number: str = "partition_index",
    **facts: object,
) -> Callable[[Any, ErrorCode], Any]:
    """The answer to a topic whose partitions each have an error of their own."""

    def refused(row: Any, code: ErrorCode) -> Any:
        return topic_type(
            name_of(row),
            [
                partition_type(**{number: one, "error_code": code}, **facts)
                for one in partitions(row)
            ],
        )

    return refused
