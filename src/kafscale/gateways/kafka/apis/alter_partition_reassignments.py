"""AlterPartitionReassignments: API 45, versions 0-1.

The controller places partitions by the list of brokers: no client can move one.
"""

from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import words_of
from kafscale.gateways.kafka.calls.request_order import READS_TOPICS
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

API_KEY: Final = AlterPartitionReassignmentsRequest.api_key
VERSIONS: Final = AlterPartitionReassignmentsRequest.versions
ORDER: Final = READS_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.ALTER,
        ResourceType.CLUSTER,
        cluster,
        error_alone(AlterPartitionReassignmentsResponse),
    ),
)

_NOTHING_TO_MOVE: Final = (
    "A partition has one replica, which the controller places by the list of brokers: "
    "replicas cannot be reassigned."
)


def answer(call: Call) -> Answer:
    """Refuse every partition that is named, each with its own reason."""
    return _answer(call)


async def _answer(call: Call) -> AlterPartitionReassignmentsResponse:
    request: AlterPartitionReassignmentsRequest = call.message
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [_refuse(call, topic.name, row) async for row in call.each(topic.partitions)],
            )
            async for topic in call.each(request.topics)
        ],
    )


def _refuse(call: Call, name: str, row: ReassignablePartition) -> ReassignablePartitionResponse:
    number = row.partition_index
    try:
        call.engine.topics.get(name).place(number)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ReassignablePartitionResponse(number, code, words_of(problem))
    if row.replicas is None:  # the client takes a reassignment back
        code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        return ReassignablePartitionResponse(number, code, "no reassignment is in progress")
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    return ReassignablePartitionResponse(number, code, _NOTHING_TO_MOVE)
