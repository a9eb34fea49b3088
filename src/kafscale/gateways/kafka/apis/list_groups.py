"""ListGroups: API 16, versions 0-5.

v4  only groups in some states; v5 only groups of some types
"""

from typing import Final

from kafscale.gateways.kafka.access.api_requirements import ListedGroups
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.gateways.kafka.calls.request_order import READS_GROUPS
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

API_KEY: Final = ListGroupsRequest.api_key
VERSIONS: Final = ListGroupsRequest.versions
ORDER: Final = READS_GROUPS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (ListedGroups(),)


def answer(call: Call) -> Answer:
    """List the groups that pass the filters."""
    return _answer(call)


async def _answer(call: Call) -> ListGroupsResponse:
    request: ListGroupsRequest = call.message
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    try:
        groups = await call.engine.groups.list()
    except KafscaleError as problem:
        return ListGroupsResponse(error_code=coordinator_code_of(problem))
    rows = [
        ListedGroup(group.group_id, group.protocol_type, group.state, group.group_type)
        async for group in call.each(groups)
        if (not states or group.state.lower() in states)
        and (not types or group.group_type in types)
    ]
    return ListGroupsResponse(groups=rows)
