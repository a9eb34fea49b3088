"""OffsetFetch: API 9, versions 0-9.

v2  null asks for all that a group has committed; an error for the group as a whole
v5  leader epochs; v8 several groups at once; v9 members of consumer groups say their epoch
A partition without a committed offset gets -1 and no error, whether or not group and topic exist.
v7  require_stable: an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from kafscale.engine.coordinator.offsets import CommittedPartition
from kafscale.gateways.kafka.access.api_requirements import FetchedOffsets
from kafscale.gateways.kafka.calls import client_errors
from kafscale.gateways.kafka.calls.call import Answer, Call, Requirement
from kafscale.gateways.kafka.calls.errors import coordinator_code_of
from kafscale.gateways.kafka.calls.request_order import READS_OFFSETS
from kafscale.groups.consumer.events import FetchOffsets
from kafscale.groups.consumer.machine import ConsumerGroup
from kafscale.groups.events import Rejected
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
        member = None if group.member_id is None else (group.member_id, group.member_epoch)
        code, found = await _look_up(call, group.group_id, group.topics, member)
        several = [
            OffsetFetchResponseTopics(
                name, [OffsetFetchResponsePartitions(*row) async for row in call.each(rows)]
            )
            async for name, rows in call.each(found.items())
        ]
        groups.append(OffsetFetchResponseGroup(group.group_id, several, code))
    return OffsetFetchResponse(groups=groups)


async def _look_up(
    call: Call, group_id: str, asked: _Asked, member: tuple[str, int] | None = None
) -> tuple[int, dict[str, list[_Row]]]:
    """The error of the group as a whole, and the rows by topic."""
    wanted: dict[CommittedPartition, None] | None = None  # in the order asked for
    if asked is not None:
        places = ((topic.name, at) for topic in asked for at in topic.partition_indexes)
        wanted = {place: None async for place in call.each(places)}
    code = ErrorCode.NONE
    unstable: Collection[CommittedPartition] = ()
    try:
        await call.engine.cluster.require_group(group_id)
        if call.message.require_stable:  # before the offsets: a transaction may end meanwhile
            unstable = await call.engine.transactions.unstable(group_id)
        if member is not None:
            await _require_member(call, group_id, *member)
        committed = await call.engine.offsets.committed(group_id, wanted)
    except KafscaleError as problem:
        client_errors.note(call, problem)
        # COORDINATOR_NOT_AVAILABLE makes half of the clients give up looking for an offset.
        code = coordinator_code_of(problem, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        committed = {}
    by_topic: dict[str, list[_Row]] = {topic.name: [] for topic in asked or ()}
    async for name, at in call.each(committed if wanted is None else wanted):
        known = committed.get((name, at))
        if (name, at) in unstable:
            row = _Row(at, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
        elif known is None:
            row = _Row(at, -1, -1, "", code)
        else:
            row = _Row(at, known.offset, known.leader_epoch, known.metadata, code)
        by_topic.setdefault(name, []).append(row)
    return code, by_topic


async def _require_member(call: Call, group_id: str, member_id: str, epoch: int) -> None:
    """Raise an error if a consumer group has no such member of this epoch.

    Members of classic groups may say who they are, too. It does not matter there.
    """
    groups = call.engine.groups
    await groups.load(group_id)
    if not isinstance(groups.in_memory(group_id), ConsumerGroup):
        return
    event = FetchOffsets(call=groups.new_call(), member_id=member_id, epoch=epoch)
    outcome = await groups.ask(group_id, event)
    if isinstance(outcome, Rejected):
        raise outcome.problem
