import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.gateways.kafka.caller import Caller, make_batch


async def end_of(
    caller: Caller, epoch: int, *, current: int = -1, partition: int = 0, version: int = 4
) -> tuple[int, int, int]:
    """Error code, epoch and end offset."""
    one = OffsetForLeaderPartition(partition, current, epoch)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", [one])])
    (row,) = (await caller.ask(request, version)).topics[0].partitions
    assert row.partition == partition
    return row.error_code, row.leader_epoch, row.end_offset


@pytest.fixture(autouse=True)
async def not_the_first_epoch(broker: InProcessBroker) -> None:
    """An epoch -1 below the first one would mean: none."""
    await broker.restart()


async def two_epochs(broker: InProcessBroker) -> int:
    """Three records in an epoch, an epoch without any, two records in the present one."""
    async with Caller(broker.port) as caller:
        await caller.create("t")
        await caller.produce("t", make_batch(b"a", b"b", b"c"))
    first = broker.engine.identity.epoch
    await broker.restart()
    await broker.restart()
    async with Caller(broker.port) as later:
        await later.produce("t", make_batch(b"d", b"e"))
    assert broker.engine.identity.epoch == first + 2
    return first


@pytest.mark.parametrize("version", range(5))
async def test_an_epoch_ends_where_the_next_begins(broker: InProcessBroker, version: int) -> None:
    first = await two_epochs(broker)
    async with Caller(broker.port) as later:
        told = [(await end_of(later, first + add, version=version)) for add in (-1, 0, 1, 2, 3)]
    epochs = [first - 1, first, first, first + 2, -1]
    ends = [0, 3, 3, 5, -1]
    if version == 0:
        epochs = [-1] * 5  # not told
    assert told == [(0, epoch, end) for epoch, end in zip(epochs, ends, strict=True)]


async def test_the_present_epoch_is_known_before_anything_is_written_under_it(
    broker: InProcessBroker,
) -> None:
    first = await two_epochs(broker)
    await broker.restart()
    async with Caller(broker.port) as later:
        assert await end_of(later, first + 3) == (0, first + 3, 5)
        assert await end_of(later, first + 2) == (0, first + 2, 5)
        assert await end_of(later, -1) == (0, -1, -1)


async def test_a_client_with_another_idea_of_the_leader_is_told(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    epoch = broker.engine.identity.epoch
    assert await end_of(caller, epoch, current=epoch) == (0, epoch, 0)
    assert await end_of(caller, epoch, current=epoch - 1) == (
        ErrorCode.FENCED_LEADER_EPOCH,
        -1,
        -1,
    )
    assert await end_of(caller, epoch, current=epoch + 1) == (
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        -1,
        -1,
    )


async def test_unknown_places_are_refused(caller: Caller) -> None:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert await end_of(caller, 1) == unknown
    await caller.create("t")
    assert await end_of(caller, 1, partition=7) == unknown
