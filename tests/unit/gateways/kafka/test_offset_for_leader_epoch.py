import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.gateways.kafka.caller import Caller, make_batch


async def ends(
    caller: Caller, *epochs: int, current: int = -1, topic: str = "t", version: int = 4
) -> list[EpochEndOffset]:
    rows = [OffsetForLeaderPartition(0, current, epoch) for epoch in epochs]
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, rows)])
    rows = (await caller.ask(request, version)).topics[0].partitions
    assert all(isinstance(row, EpochEndOffset) for row in rows)
    return list(rows)


@pytest.mark.parametrize("version", range(5))
async def test_an_epoch_ends_where_the_next_one_has_written(
    broker: InProcessBroker, version: int
) -> None:
    await broker.restart()  # so that there is an earlier epoch
    async with Caller(broker.port) as caller:
        await caller.create("t")
        await caller.produce("t", make_batch(b"1", b"2"))
        first = broker.engine.identity.epoch
    await broker.restart()
    await broker.restart()  # an epoch that writes nothing
    async with Caller(broker.port) as caller:
        last = broker.engine.identity.epoch
        assert last > first + 1
        asked = (first - 1, first, first + 1, last, last + 1, -1)
        rows = await ends(caller, *asked, version=version)
        assert [row.end_offset for row in rows] == [0, 2, 2, 2, -1, -1]
        if version >= 1:
            found = [first - 1, first, first, last, -1, -1]
            assert [row.leader_epoch for row in rows] == found
        await caller.produce("t", make_batch(b"3"))
        assert [row.end_offset for row in await ends(caller, first, last)] == [2, 3]


async def test_who_knows_another_epoch_is_told(broker: InProcessBroker) -> None:
    await broker.restart()
    now = broker.engine.identity.epoch
    async with Caller(broker.port) as caller:
        await caller.create("t")
        for current, code in (
            (now - 1, ErrorCode.FENCED_LEADER_EPOCH),
            (now + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (now, 0),
        ):
            (row,) = await ends(caller, now, current=current)
            assert row.error_code == code
        (row,) = await ends(caller, now, topic="nobody")
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
