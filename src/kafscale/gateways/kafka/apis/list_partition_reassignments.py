"""ListPartitionReassignments: API 46, version 0.

A partition has one replica, and no client can move it: no reassignment is ever under way.
"""

from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

API_KEY: Final = ListPartitionReassignmentsRequest.api_key
VERSIONS: Final = ListPartitionReassignmentsRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DESCRIBE,
        ResourceType.CLUSTER,
        cluster,
        error_alone(ListPartitionReassignmentsResponse),
    ),
)


def answer(call: Call) -> Answer:
    """List nothing."""
    return ListPartitionReassignmentsResponse()
