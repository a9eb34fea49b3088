"""DescribeUserScramCredentials: API 50, version 0."""

from collections import Counter
from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import READS_USERS
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

API_KEY: Final = DescribeUserScramCredentialsRequest.api_key
VERSIONS: Final = DescribeUserScramCredentialsRequest.versions
ORDER: Final = READS_USERS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DESCRIBE,
        ResourceType.CLUSTER,
        cluster,
        error_alone(DescribeUserScramCredentialsResponse),
    ),
)


def answer(call: Call) -> Answer:
    """Tell which users have which credentials; never the credentials."""
    return _answer(call)


async def _answer(call: Call) -> DescribeUserScramCredentialsResponse:
    request: DescribeUserScramCredentialsRequest = call.message
    if not request.users:  # as Apache Kafka: none named are all, by null or by an empty list
        names = Counter(call.engine.credentials.users())
    else:
        names = Counter(user.name for user in request.users)
    results = [_row(call, name, count) async for name, count in call.each(names.items())]
    return DescribeUserScramCredentialsResponse(results=results)


def _row(call: Call, name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        why = "Cannot describe SCRAM credentials for the same user twice in a single request."
        return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, why)
    found = call.engine.credentials.of_user(name)
    if not found:
        why = "The user has no SCRAM credentials."
        return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, why)
    infos = [CredentialInfo(mechanism.number, kept.iterations) for mechanism, kept in found]
    return DescribeUserScramCredentialsResult(name, credential_infos=infos)
