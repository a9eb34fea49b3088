"""DeleteAcls: API 31, versions 0-3. There is no authorizer: every filter is refused."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster
from kafscale.gateways.kafka.apis.describe_acls import NO_AUTHORIZER
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

API_KEY: Final = DeleteAclsRequest.api_key
VERSIONS: Final = DeleteAclsRequest.versions


def _refused(call: Call, code: ErrorCode, why: str | None = None) -> DeleteAclsResponse:
    request: DeleteAclsRequest = call.message
    results = [DeleteAclsFilterResult(code, why) for _ in request.filters]
    return DeleteAclsResponse(filter_results=results)


ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.ALTER, ResourceType.CLUSTER, cluster, _refused),
)


def answer(call: Call) -> Answer:
    """Answer as a Kafka broker without an authorizer."""
    return _refused(call, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
