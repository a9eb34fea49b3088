"""OffsetCommit: API 8, versions 0-8.

v1  generation and member; v6 leader epochs
Members commit in their generation; other clients can commit only while the group has no members.
Retention times and timestamps are ignored: a setting of the broker says how long offsets are kept.
"""

from typing import Final

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.gateways.kafka import client_errors
from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.errors import coordinator_code_of
from kafscale.gateways.kafka.group_requests import apply, require_claimed
from kafscale.groups.events import CommitOffsets, Rejected
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API_KEY: Final = OffsetCommitRequest.api_key
VERSIONS: Final = OffsetCommitRequest.versions

prepare = require_claimed


def answer(call: Call) -> Answer:
    """Commit offsets; the answer comes when the metadata store has them."""
    return _answer(call, _objection(call))


def _objection(call: Call) -> KafscaleError | None:
    """Why the group refuses this commit, if it does."""
    request: OffsetCommitRequest = call.message
    event = CommitOffsets(
        call=call.engine.groups.new_call(),
        generation=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
    )
    outcome = apply(call, event)
    return outcome.problem if isinstance(outcome, Rejected) else None


async def _answer(call: Call, objection: KafscaleError | None) -> OffsetCommitResponse:
    request: OffsetCommitRequest = call.message
    wishes = [
        OffsetCommit(
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
        if objection is not None:
            raise objection
        problems = await call.engine.offsets.commit(request.group_id, wishes)
        for problem in filter(None, problems):
            client_errors.note(call, problem)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        problems = [problem] * len(wishes)
    refused = sum(problem is not None for problem in problems)
    call.engine.metrics.offsets_committed(len(problems) - refused, refused)
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
