"""OffsetCommit: API 8, versions 0-8.

v1  generation and member; v6 leader epochs
Only commits from outside a group's membership are taken: there are no members yet. Retention
times and timestamps are passed over: an offset is kept until its topic is deleted.
"""

from typing import Final

from kafscale.engine.offsets import Wish
from kafscale.gateways.kafka import blame
from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.errors import coordinator_code_of
from kafscale.model.errors import KafscaleError, UnknownMember
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API_KEY: Final = OffsetCommitRequest.api_key
VERSIONS: Final = OffsetCommitRequest.versions


def answer(call: Call) -> Answer:
    """Remember offsets; the store must have them before the client hears of it."""
    return _answer(call)


async def _answer(call: Call) -> OffsetCommitResponse:
    request: OffsetCommitRequest = call.message
    wishes = [
        Wish(
            topic.name,
            row.partition_index,
            row.committed_offset,
            row.committed_leader_epoch,
            row.committed_metadata or "",
        )
        for topic in request.topics
        for row in topic.partitions
    ]
    problems: list[KafscaleError | None]
    try:
        _check_membership(request)
        problems = await call.engine.offsets.commit(request.group_id, wishes)
    except KafscaleError as problem:
        blame.note(call, problem)
        problems = [problem] * len(wishes)
    codes = iter([0 if problem is None else coordinator_code_of(problem) for problem in problems])
    topics = [
        OffsetCommitResponseTopic(
            topic.name,
            [
                OffsetCommitResponsePartition(row.partition_index, next(codes))
                for row in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)


def _check_membership(request: OffsetCommitRequest) -> None:
    if request.member_id or request.generation_id_or_member_epoch >= 0:
        raise UnknownMember(f"no group has a member {request.member_id!r}")
