"""DeleteShareGroupOffsets: API 92, version 0.

Only a group without members forgets a topic. If a member subscribes to it again, the group begins
where a new group would.
"""

from typing import Final

from kafscale.gateways.kafka.access.requirements import EachRow, WholeRequest, by_group, error_alone
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import code_of, coordinator_code_of, words_of
from kafscale.gateways.kafka.calls.request_order import DELETES_OFFSETS
from kafscale.gateways.kafka.shares.administration import (
    by_topic_name,
    id_of,
    require_empty_share_group,
)
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.delete_share_group_offsets import (
    DeletedShareTopic,
    DeletedShareTopicResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)

API_KEY: Final = DeleteShareGroupOffsetsRequest.api_key
VERSIONS: Final = DeleteShareGroupOffsetsRequest.versions
ORDER: Final = DELETES_OFFSETS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DELETE,
        ResourceType.GROUP,
        by_group,
        error_alone(DeleteShareGroupOffsetsResponse),
    ),
    EachRow(
        AccessOperation.READ,
        ResourceType.TOPIC,
        "topics",
        by_topic_name,
        "responses",
        lambda row, code: DeletedShareTopicResponse(row.topic_name, error_code=code),
    ),
)


def answer(call: Call) -> Answer:
    """Forget the topics; each gets a result of its own."""
    return _answer(call)


async def _answer(call: Call) -> DeleteShareGroupOffsetsResponse:
    request: DeleteShareGroupOffsetsRequest = call.message
    try:
        await require_empty_share_group(call, request.group_id)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return DeleteShareGroupOffsetsResponse(
            error_code=coordinator_code_of(problem), error_message=words_of(problem)
        )
    rows = [await _delete(call, topic) async for topic in call.each(request.topics)]
    return DeleteShareGroupOffsetsResponse(responses=rows)


async def _delete(call: Call, topic: DeletedShareTopic) -> DeletedShareTopicResponse:
    row = DeletedShareTopicResponse(topic.topic_name, id_of(call, topic.topic_name))
    try:
        await call.engine.share_starts.remove(call.message.group_id, topic.topic_name)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        row.error_code, row.error_message = code_of(problem), words_of(problem)
    return row
