"""DescribeUserScramCredentials: API 50, version 0. No user has credentials."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

API_KEY: Final = DescribeUserScramCredentialsRequest.api_key
VERSIONS: Final = DescribeUserScramCredentialsRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DESCRIBE,
        ResourceType.CLUSTER,
        cluster,
        error_alone(DescribeUserScramCredentialsResponse),
    ),
)


def answer(call: Call) -> Answer:
    """Answer that each user named has no credentials; all users (null) get no rows."""
    request: DescribeUserScramCredentialsRequest = call.message
    names = dict.fromkeys(user.name for user in request.users or ())
    code, why = ErrorCode.RESOURCE_NOT_FOUND, "The user has no SCRAM credentials."
    results = [DescribeUserScramCredentialsResult(name, code, why) for name in names]
    return DescribeUserScramCredentialsResponse(results=results)
