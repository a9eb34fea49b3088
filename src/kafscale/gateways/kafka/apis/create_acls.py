"""CreateAcls: API 30, versions 0-3. Each binding has its own result."""

from typing import Final

from kafscale.access.acls import AclBinding
from kafscale.gateways.kafka.access.acl_messages import MOST_ROWS, acls_of, read_binding
from kafscale.gateways.kafka.access.requirements import WholeRequest, cluster
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement, in_time
from kafscale.gateways.kafka.calls.errors import code_of, words_of
from kafscale.gateways.kafka.calls.request_order import FREE
from kafscale.model.errors import InvalidAcl, KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

API_KEY: Final = CreateAclsRequest.api_key
VERSIONS: Final = CreateAclsRequest.versions

_TIMEOUT_S: Final = 30.0  # the request has none of its own


def _refused(call: Call, code: ErrorCode, why: str | None = None) -> CreateAclsResponse:
    request: CreateAclsRequest = call.message
    return CreateAclsResponse(results=[AclCreationResult(code, why) for _ in request.creations])


ORDER: Final = FREE
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.ALTER, ResourceType.CLUSTER, cluster, _refused),
)


def answer(call: Call) -> Answer:
    """Add the bindings that are valid."""
    return _answer(call)


async def _answer(call: Call) -> CreateAclsResponse:
    request: CreateAclsRequest = call.message
    bindings: dict[AclBinding, None] = {}
    results: list[AclCreationResult] = []
    try:
        acls = acls_of(call)
        if len(request.creations) > MOST_ROWS:
            raise InvalidAcl(f"one request creates at most {MOST_ROWS} access control lists")
        async for row in call.each(request.creations):
            try:
                bindings[read_binding(row)] = None
                results.append(AclCreationResult())
            except InvalidAcl as problem:
                client_errors.note(call, problem)
                results.append(AclCreationResult(code_of(problem), words_of(problem)))
        await in_time(call, acls.create(bindings), _TIMEOUT_S)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return _refused(call, code_of(problem), words_of(problem))
    return CreateAclsResponse(results=results)
