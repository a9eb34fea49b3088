"""DescribeAcls: API 29, versions 0-3. Lists the bindings that a filter selects."""

from typing import Final

from kafscale.gateways.kafka.access.acl_messages import acls_of, read_filter
from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster, error_alone
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

API_KEY: Final = DescribeAclsRequest.api_key
VERSIONS: Final = DescribeAclsRequest.versions
ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DESCRIBE, ResourceType.CLUSTER, cluster, error_alone(DescribeAclsResponse)
    ),
)


def answer(call: Call) -> Answer:
    """List bindings, by resource."""
    return _answer(call)


async def _answer(call: Call) -> DescribeAclsResponse:
    try:
        found = acls_of(call).select(read_filter(call.message))
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return DescribeAclsResponse(error_code=code_of(problem), error_message=words_of(problem))
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    async for one in call.each(found):
        key = (one.kind, one.name, one.pattern)
        if key not in resources:
            resources[key] = DescribeAclsResource(*key, acls=[])
        resources[key].acls.append(
            AclDescription(str(one.principal), one.host, one.operation, one.permission)
        )
    return DescribeAclsResponse(resources=list(resources.values()))
