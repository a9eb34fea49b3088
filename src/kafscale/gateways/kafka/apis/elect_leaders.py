"""ElectLeaders: API 43, versions 0-2.

A partition has one replica, which leads already: no election is ever needed.
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
from kafscale.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

API_KEY: Final = ElectLeadersRequest.api_key
VERSIONS: Final = ElectLeadersRequest.versions
ORDER: Final = READS_TOPICS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.ALTER, ResourceType.CLUSTER, cluster, error_alone(ElectLeadersResponse)
    ),
)

_KINDS: Final = (0, 1)  # preferred, unclean


def answer(call: Call) -> Answer:
    """Answer that every partition named has its leader; all partitions (null) get no rows."""
    request: ElectLeadersRequest = call.message
    if request.election_type not in _KINDS:
        client_errors.note_bad(call, "invalid_request", f"election type {request.election_type}")
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    return _answer(call)


async def _answer(call: Call) -> ElectLeadersResponse:
    request: ElectLeadersRequest = call.message
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                row.topic,
                [
                    _result(call, row.topic, partition)
                    async for partition in call.each(row.partitions)
                ],
            )
            async for row in call.each(request.topic_partitions or ())
        ]
    )


def _result(call: Call, name: str, partition: int) -> PartitionResult:
    try:
        call.engine.topics.get(name).place(partition)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return PartitionResult(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, words_of(problem))
    return PartitionResult(
        partition, ErrorCode.ELECTION_NOT_NEEDED, "the partition has its only leader"
    )
