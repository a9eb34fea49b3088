"""OffsetForLeaderEpoch: API 23, versions 0-4.

v1  the epoch found; v2 fencing by the epoch the client knows
Consumers ask it when a broker was restarted, to learn whether what they have read still stands.
Here it always does.
"""

from typing import Final

from kafscale.gateways.kafka import blame
from kafscale.gateways.kafka.call import Answer, Call
from kafscale.gateways.kafka.errors import code_of
from kafscale.model.errors import KafscaleError
from kafscale.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

API_KEY: Final = OffsetForLeaderEpochRequest.api_key
VERSIONS: Final = OffsetForLeaderEpochRequest.versions


def answer(call: Call) -> Answer:
    """Look up every partition; logs may have to be opened."""
    return _answer(call)


async def _answer(call: Call) -> OffsetForLeaderEpochResponse:
    request: OffsetForLeaderEpochRequest = call.message
    topics = []
    for wanted in request.topics:
        rows = [await _row(call, wanted.topic, one) for one in wanted.partitions]
        topics.append(OffsetForLeaderTopicResult(wanted.topic, rows))
    return OffsetForLeaderEpochResponse(topics=topics)


async def _row(call: Call, name: str, one: OffsetForLeaderPartition) -> EpochEndOffset:
    engine = call.engine
    try:
        topic = engine.topics.get(name)
        epoch, end = await engine.end_of_epoch(
            topic, one.partition, one.current_leader_epoch, one.leader_epoch
        )
    except KafscaleError as problem:
        blame.note(call, problem)
        return EpochEndOffset(code_of(problem), one.partition)
    return EpochEndOffset(0, one.partition, epoch, end)
