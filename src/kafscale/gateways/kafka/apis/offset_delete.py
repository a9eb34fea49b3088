"""OffsetDelete: API 47, version 0.

Any offset of a group without members can be deleted. In a group with members, only offsets of
topics that no member subscribes to can be. If the broker cannot tell what the members subscribe
to, it refuses the whole request.
"""

from typing import Final

from kafscale.engine.coordinator.offsets import CommittedPartition
from kafscale.gateways.kafka.access.requirements import (
    EachRow,
    WholeRequest,
    by_group,
    by_name,
    error_alone,
    partition_indexes_of,
    topic_row,
)
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.gateways.kafka.calls.request_order import DELETES_OFFSETS
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

API_KEY: Final = OffsetDeleteRequest.api_key
VERSIONS: Final = OffsetDeleteRequest.versions
ORDER: Final = DELETES_OFFSETS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(
        AccessOperation.DELETE, ResourceType.GROUP, by_group, error_alone(OffsetDeleteResponse)
    ),
    EachRow(
        AccessOperation.READ,
        ResourceType.TOPIC,
        "topics",
        by_name,
        "topics",
        topic_row(OffsetDeleteResponseTopic, OffsetDeleteResponsePartition, partition_indexes_of),
    ),
)

_AT_ONCE: Final = 512


def answer(call: Call) -> Answer:
    """Delete offsets; each partition gets a result of its own."""
    return _answer(call)


async def _answer(call: Call) -> OffsetDeleteResponse:
    request: OffsetDeleteRequest = call.message
    named = (
        (topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
    )
    places = [place async for place in call.each(named)]
    problems: dict[CommittedPartition, KafscaleError] = {}
    try:
        async for begin in call.each(range(0, max(1, len(places)), _AT_ONCE)):
            some = places[begin : begin + _AT_ONCE]
            problems |= await call.engine.delete_offsets(request.group_id, some, goes_on=begin > 0)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        return OffsetDeleteResponse(coordinator_code_of(problem))
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                topic.name,
                [
                    OffsetDeleteResponsePartition(
                        row.partition_index, _code(problems, (topic.name, row.partition_index))
                    )
                    async for row in call.each(topic.partitions)
                ],
            )
            async for topic in call.each(request.topics)
        ]
    )


def _code(problems: dict[CommittedPartition, KafscaleError], place: CommittedPartition) -> int:
    problem = problems.get(place)
    return 0 if problem is None else coordinator_code_of(problem)
