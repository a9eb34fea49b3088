"""OffsetDelete: API 47, version 0.

Any offset of a group without members can be deleted. In a group with members, only offsets of
topics that no member subscribes to can be. If the broker cannot tell what the members subscribe
to, it refuses the whole request.
"""

from typing import Final

from kafscale.engine.coordinator.offsets import CommittedPartition
from kafscale.gateways.kafka import client_errors
from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.errors import coordinator_code_of
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

API_KEY: Final = OffsetDeleteRequest.api_key
VERSIONS: Final = OffsetDeleteRequest.versions


def answer(call: Call) -> Answer:
    """Delete offsets; each partition gets a result of its own."""
    return _answer(call)


async def _answer(call: Call) -> OffsetDeleteResponse:
    request: OffsetDeleteRequest = call.message
    places = [
        (topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
    ]
    try:
        problems = await call.engine.delete_offsets(request.group_id, places)
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
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _code(problems: dict[CommittedPartition, KafscaleError], place: CommittedPartition) -> int:
    problem = problems.get(place)
    return 0 if problem is None else coordinator_code_of(problem)
