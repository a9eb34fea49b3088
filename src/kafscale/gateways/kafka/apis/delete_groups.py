"""DeleteGroups: API 42, versions 0-2."""

from typing import Final

from kafscale.gateways.kafka.access.requirements import EachRow, itself
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.gateways.kafka.calls.request_order import DELETES_GROUPS
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

API_KEY: Final = DeleteGroupsRequest.api_key
VERSIONS: Final = DeleteGroupsRequest.versions
ORDER: Final = DELETES_GROUPS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.DELETE,
        ResourceType.GROUP,
        "groups_names",
        itself,
        "results",
        DeletableGroupResult,
    ),
)


def answer(call: Call) -> Answer:
    """Delete groups and the offsets they have committed."""
    return _answer(call)


async def _answer(call: Call) -> DeleteGroupsResponse:
    request: DeleteGroupsRequest = call.message
    return DeleteGroupsResponse(
        results=[await _delete(call, name) async for name in call.each(request.groups_names)]
    )


async def _delete(call: Call, group_id: str) -> DeletableGroupResult:
    try:
        await call.engine.groups.delete(group_id)
    except KafscaleError as problem:
        return DeletableGroupResult(group_id, coordinator_code_of(problem))
    return DeletableGroupResult(group_id)
