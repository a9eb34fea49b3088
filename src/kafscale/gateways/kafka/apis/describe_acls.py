"""DescribeAcls: API 29, versions 0-3. There is no authorizer: no access control list exists."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

API_KEY: Final = DescribeAclsRequest.api_key
VERSIONS: Final = DescribeAclsRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DESCRIBE, ResourceType.CLUSTER, cluster, error_alone(DescribeAclsResponse)
    ),
)

NO_AUTHORIZER: Final = "No authorizer is configured: every client may do everything."


def answer(call: Call) -> Answer:
    """Answer as a Kafka broker without an authorizer."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
