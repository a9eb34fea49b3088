"""OffsetCommit: API 8, versions 0-9.

v1  generation and member; v6 leader epochs; v9 members of consumer groups
Members commit in their generation; other clients can commit only while the group has no members.
Retention times and timestamps are ignored: a setting of the broker says how long offsets are kept.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.gateways.kafka.access.requirements import (
    EachRow,
    WholeRequest,
    by_group,
    by_name,
    partition_indexes_of,
    topic_row,
)
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.gateways.kafka.calls.request_order import COMMITS_OFFSETS
from kafscale.gateways.kafka.groups.group_requests import apply, require_claimed
from kafscale.groups.events import CommitOffsets, Rejected
from kafscale.model.errors import KafscaleError
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API_KEY: Final = OffsetCommitRequest.api_key
VERSIONS: Final = OffsetCommitRequest.versions
_refused_topic: Final = topic_row(
    OffsetCommitResponseTopic, OffsetCommitResponsePartition, partition_indexes_of
)


def _refused(call: Call, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_refused_topic(row, code) for row in call.message.topics])


ORDER: Final = COMMITS_OFFSETS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    WholeRequest(AccessOperation.READ, ResourceType.GROUP, by_group, _refused),
    EachRow(
        AccessOperation.READ,
        ResourceType.TOPIC,
        "topics",
        by_name,
        "topics",
        _refused_topic,
    ),
)

_AT_ONCE: Final = 256

prepare = require_claimed


def answer(call: Call) -> Answer:
    """Commit offsets; the answer comes when the metadata store has them."""
    return _answer_in_turns(call) if call.is_long else _answer(call, _objection(call))


async def _answer(call: Call, objection: KafscaleError | None) -> OffsetCommitResponse:
    codes = iter(await _commit(call, list(_wishes(call)), objection))
    return OffsetCommitResponse(topics=[_topic(row, codes) for row in call.message.topics])


async def _answer_in_turns(call: Call) -> OffsetCommitResponse:
    """Commit very many offsets, some at a time. The group may refuse the rest after a rebalance."""
    wishes = [wish async for wish in call.each(_wishes(call))]
    every: list[int] = []
    async for begin in call.each(range(0, len(wishes), _AT_ONCE)):
        every += await _commit(call, wishes[begin : begin + _AT_ONCE], _objection(call))
    codes = iter(every)
    topics = [
        OffsetCommitResponseTopic(
            topic.name, [_partition(row, codes) async for row in call.each(topic.partitions)]
        )
        async for topic in call.each(call.message.topics)
    ]
    return OffsetCommitResponse(topics=topics)


def _wishes(call: Call) -> Iterator[OffsetCommit]:
    for topic in call.message.topics:
        for row in topic.partitions:
            yield OffsetCommit(
                topic.name,
                row.partition_index,
                row.committed_offset,
                row.committed_leader_epoch,
                row.committed_metadata or "",
            )


def _topic(asked: OffsetCommitRequestTopic, codes: Iterator[int]) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        asked.name, [_partition(row, codes) for row in asked.partitions]
    )


def _partition(
    asked: OffsetCommitRequestPartition, codes: Iterator[int]
) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(asked.partition_index, next(codes))


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


async def _commit(
    call: Call, wishes: Sequence[OffsetCommit], objection: KafscaleError | None
) -> list[int]:
    """The code of each commit."""
    problems: list[KafscaleError | None]
    try:
        if objection is not None:
            raise objection
        problems = await call.engine.offsets.commit(call.message.group_id, wishes)
        for problem in filter(None, problems):
            client_errors.note(call, problem)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        problems = [problem] * len(wishes)
    refused = sum(problem is not None for problem in problems)
    call.engine.metrics.offsets_committed(len(problems) - refused, refused)
    return [0 if problem is None else coordinator_code_of(problem) for problem in problems]
