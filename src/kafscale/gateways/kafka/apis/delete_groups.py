"""DeleteGroups: API 42, versions 0-2."""

from typing import Final

from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.errors import coordinator_code_of
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

API_KEY: Final = DeleteGroupsRequest.api_key
VERSIONS: Final = DeleteGroupsRequest.versions


def answer(call: Call) -> Answer:
    """Delete groups and the offsets they have committed."""
    return _answer(call)


async def _answer(call: Call) -> DeleteGroupsResponse:
    request: DeleteGroupsRequest = call.message
    return DeleteGroupsResponse(
        results=[await _delete(call, name) for name in request.groups_names]
    )


async def _delete(call: Call, group_id: str) -> DeletableGroupResult:
    try:
        await call.engine.groups.delete(group_id)
    except KafscaleError as problem:
        return DeletableGroupResult(group_id, coordinator_code_of(problem))
    return DeletableGroupResult(group_id)
