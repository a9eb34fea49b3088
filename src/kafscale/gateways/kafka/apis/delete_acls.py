"""DeleteAcls: API 31, versions 0-3. Each filter is answered with the bindings that it removed."""

from typing import Final

from kafscale.access.acls import AclBinding, AclFilter
from kafscale.gateways.kafka.access.acl_messages import acls_of, read_filter
from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.errors import InvalidAcl, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

API_KEY: Final = DeleteAclsRequest.api_key
VERSIONS: Final = DeleteAclsRequest.versions

_TIMEOUT_S: Final = 30.0  # the request has none of its own
_MOST_FILTERS: Final = 1_000  # each is compared with every binding


def _refused(call: Call, code: ErrorCode, why: str | None = None) -> DeleteAclsResponse:
    request: DeleteAclsRequest = call.message
    results = [DeleteAclsFilterResult(code, why) for _ in request.filters]
    return DeleteAclsResponse(filter_results=results)


ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.ALTER, ResourceType.CLUSTER, cluster, _refused),
)


def answer(call: Call) -> Answer:
    """Remove what the valid filters select."""
    return _answer(call)


async def _answer(call: Call) -> DeleteAclsResponse:
    request: DeleteAclsRequest = call.message
    results: list[DeleteAclsFilterResult] = []
    filters: list[AclFilter] = []
    valid: list[DeleteAclsFilterResult] = []
    try:
        acls = acls_of(call)
        if len(request.filters) > _MOST_FILTERS:
            raise InvalidAcl(f"one request has at most {_MOST_FILTERS} filters")
        for row in request.filters:
            result = DeleteAclsFilterResult(matching_acls=[])
            results.append(result)
            try:
                filters.append(read_filter(row))
                valid.append(result)
            except InvalidAcl as problem:
                client_errors.note(call, problem)
                result.error_code, result.error_message = code_of(problem), words_of(problem)
        removed = await in_time(call, acls.delete(filters), _TIMEOUT_S)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return _refused(call, code_of(problem), words_of(problem))
    for result, bindings in zip(valid, removed, strict=True):
        result.matching_acls = [_row(one) async for one in call.each(bindings)]
    return DeleteAclsResponse(filter_results=results)


def _row(one: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=one.kind,
        resource_name=one.name,
        pattern_type=one.pattern,
        principal=str(one.principal),
        host=one.host,
        operation=one.operation,
        permission_type=one.permission,
    )
