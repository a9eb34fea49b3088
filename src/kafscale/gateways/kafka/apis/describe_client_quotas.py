"""DescribeClientQuotas: API 48, versions 0-1. There are no quotas, whatever the filter."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

API_KEY: Final = DescribeClientQuotasRequest.api_key
VERSIONS: Final = DescribeClientQuotasRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DESCRIBE_CONFIGS,
        ResourceType.CLUSTER,
        cluster,
        error_alone(DescribeClientQuotasResponse),
    ),
)


def answer(call: Call) -> Answer:
    """List nothing."""
    return DescribeClientQuotasResponse()
