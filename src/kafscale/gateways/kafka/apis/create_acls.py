"""CreateAcls: API 30, versions 0-3. There is no authorizer: every row is refused."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster
from kafscale.gateways.kafka.apis.describe_acls import NO_AUTHORIZER
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

API_KEY: Final = CreateAclsRequest.api_key
VERSIONS: Final = CreateAclsRequest.versions


def _refused(call: Call, code: ErrorCode, why: str | None = None) -> CreateAclsResponse:
    request: CreateAclsRequest = call.message
    return CreateAclsResponse(results=[AclCreationResult(code, why) for _ in request.creations])


ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.ALTER, ResourceType.CLUSTER, cluster, _refused),
)


def answer(call: Call) -> Answer:
    """Answer as a Kafka broker without an authorizer."""
    return _refused(call, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
