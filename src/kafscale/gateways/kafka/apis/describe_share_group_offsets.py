"""DescribeShareGroupOffsets: API 90, versions 0-1.

v1  how many records the group has not acknowledged, where this broker knows the partition's end
"""

from typing import Final

from kafscale.engine.subscriptions.share_starts import ShareStart
from kafscale.gateways.kafka.access.authorization import may_describe
from kafscale.gateways.kafka.access.requirements import EachRow, are_hidden, by_group
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of, words_of
from kafscale.gateways.kafka.calls.request_order import READS_OFFSETS
from kafscale.gateways.kafka.shares.administration import require_share_group
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareOffsetsGroup,
    ShareOffsetsGroupResponse,
    ShareOffsetsPartitionResponse,
    ShareOffsetsTopicResponse,
)

API_KEY: Final = DescribeShareGroupOffsetsRequest.api_key
VERSIONS: Final = DescribeShareGroupOffsetsRequest.versions
ORDER: Final = READS_OFFSETS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    EachRow(
        AccessOperation.DESCRIBE,
        ResourceType.GROUP,
        "groups",
        by_group,
        "groups",
        lambda row, code: ShareOffsetsGroupResponse(row.group_id, [], code),
    ),
)

_NOT_BEGUN: Final = -1


def answer(call: Call) -> Answer:
    """Describe every group asked for."""
    return _answer(call)


async def _answer(call: Call) -> DescribeShareGroupOffsetsResponse:
    request: DescribeShareGroupOffsetsRequest = call.message
    rows = [await _describe(call, group) async for group in call.each(request.groups)]
    return DescribeShareGroupOffsetsResponse(groups=rows)


async def _describe(call: Call, group: ShareOffsetsGroup) -> ShareOffsetsGroupResponse:
    starts: dict[str, dict[int, ShareStart]] = {}
    try:
        await require_share_group(call, group.group_id)
        async for start in call.engine.share_starts.each(group.group_id):
            starts.setdefault(start.topic.name, {})[start.partition] = start
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return ShareOffsetsGroupResponse(
            group.group_id, [], coordinator_code_of(problem), words_of(problem)
        )
    if group.topics is None:
        wanted = {name: sorted(rows) for name, rows in starts.items() if may_describe(call, name)}
    else:
        wanted = {topic.topic_name: topic.partitions for topic in group.topics}
    topics = [
        _topic(call, name, partitions, starts.get(name, {}))
        async for name, partitions in call.each(wanted.items())
    ]
    return ShareOffsetsGroupResponse(group.group_id, topics)


def _topic(
    call: Call, name: str, partitions: list[int], starts: dict[int, ShareStart]
) -> ShareOffsetsTopicResponse:
    topic = call.engine.topics.find(name)
    code = 0
    if are_hidden(call, [name]):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if code or topic is None:
        rows = [ShareOffsetsPartitionResponse(one, error_code=code) for one in partitions]
        return ShareOffsetsTopicResponse(name, partitions=rows)
    rows = []
    for one in partitions:
        start = starts.get(one)
        if start is None:
            rows.append(ShareOffsetsPartitionResponse(one, _NOT_BEGUN))
        else:
            rows.append(ShareOffsetsPartitionResponse(one, start.start, 0, start.lag))
    return ShareOffsetsTopicResponse(name, topic.topic_id, rows)
