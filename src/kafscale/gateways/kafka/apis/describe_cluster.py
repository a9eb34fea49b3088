"""DescribeCluster: API 60, versions 0-1. v1 may ask for controllers: there are none."""

from typing import Final

from kafscale.gateways.kafka.access.authorization import operations_on_cluster
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

API_KEY: Final = DescribeClusterRequest.api_key
VERSIONS: Final = DescribeClusterRequest.versions
# Like Kafka: every client may know the brokers; operations are shown by what it may do.
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = ()

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def answer(call: Call) -> Answer:
    """List the brokers that the client can reach."""
    request: DescribeClusterRequest = call.message
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if known
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this is a broker",
            endpoint_type=_BROKERS,
        )
    cluster = call.engine.cluster
    return DescribeClusterResponse(
        cluster_id=cluster.identity.cluster_id,
        controller_id=cluster.controller_id(),
        brokers=[
            DescribeClusterBroker(node.broker_id, endpoint.host, endpoint.port, node.rack)
            for node, endpoint in call.reachable(cluster.nodes())
        ],
        cluster_authorized_operations=operations_on_cluster(
            call, asked=request.include_cluster_authorized_operations
        ),
    )
