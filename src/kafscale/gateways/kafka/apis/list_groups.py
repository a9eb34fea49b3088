"""ListGroups: API 16, versions 0-5.

v4  only groups in some states; v5 only groups of some types: all are classic here
"""

from typing import Final

from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.errors import coordinator_code_of
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

API_KEY: Final = ListGroupsRequest.api_key
VERSIONS: Final = ListGroupsRequest.versions

_TYPE: Final = "classic"


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
        ListedGroup(group.group_id, group.protocol_type, group.state, _TYPE)
        for group in groups
        if (not states or group.state.lower() in states) and (not types or _TYPE in types)
    ]
    return ListGroupsResponse(groups=rows)
