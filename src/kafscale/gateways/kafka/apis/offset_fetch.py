"""OffsetFetch: API 9, versions 0-8.

v2  null asks for all that a group has committed; an error for the group as a whole
v5  leader epochs; v8 several groups at once
A partition without a committed offset gets -1 and no error, whether or not group and topic exist.
There are no transactions, so every offset is stable.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafscale.engine.coordinator.offsets import CommittedPartition
from kafscale.gateways.kafka.access.api_requirements import FetchedOffsets
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.gateways.kafka.calls.request_order import READS_OFFSETS
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

API_KEY: Final = OffsetFetchRequest.api_key
VERSIONS: Final = OffsetFetchRequest.versions
ORDER: Final = READS_OFFSETS
REQUIREMENTS: Final[tuple[Requirement, ...]] = (FetchedOffsets(),)

_SEVERAL_FROM: Final = 8

_Asked = Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None


class _Row(NamedTuple):
    """A partition's answer, in the order of the fields that both response types have."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error_code: int


def answer(call: Call) -> Answer:
    """Look up what groups have committed."""
    return _answer(call)


async def _answer(call: Call) -> OffsetFetchResponse:
    request: OffsetFetchRequest = call.message
    if call.version < _SEVERAL_FROM:
        code, found = await _look_up(call, request.group_id, request.topics)
        topics = [
            OffsetFetchResponseTopic(
                name, [OffsetFetchResponsePartition(*row) async for row in call.each(rows)]
            )
            async for name, rows in call.each(found.items())
        ]
        return OffsetFetchResponse(topics=topics, error_code=code)
    groups = []
    groups_once = {group.group_id: group for group in request.groups}.values()
    async for group in call.each(groups_once):
        code, found = await _look_up(call, group.group_id, group.topics)
        several = [
            OffsetFetchResponseTopics(
                name, [OffsetFetchResponsePartitions(*row) async for row in call.each(rows)]
            )
            async for name, rows in call.each(found.items())
        ]
        groups.append(OffsetFetchResponseGroup(group.group_id, several, code))
    return OffsetFetchResponse(groups=groups)


async def _look_up(call: Call, group_id: str, asked: _Asked) -> tuple[int, dict[str, list[_Row]]]:
    """The error of the group as a whole, and the rows by topic."""
    wanted: dict[CommittedPartition, None] | None = None  # in the order asked for
    if asked is not None:
        places = ((topic.name, at) for topic in asked for at in topic.partition_indexes)
        wanted = {place: None async for place in call.each(places)}
    code = ErrorCode.NONE
    try:
        await call.engine.cluster.require_group(group_id)
        committed = await call.engine.offsets.committed(group_id, wanted)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        # COORDINATOR_NOT_AVAILABLE makes half of the clients give up looking for an offset.
        code = coordinator_code_of(problem, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        committed = {}
    by_topic: dict[str, list[_Row]] = {topic.name: [] for topic in asked or ()}
    async for name, at in call.each(committed if wanted is None else wanted):
        known = committed.get((name, at))
        row = (
            _Row(at, -1, -1, "", code)
            if known is None
            else _Row(at, known.offset, known.leader_epoch, known.metadata, code)
        )
        by_topic.setdefault(name, []).append(row)
    return code, by_topic
