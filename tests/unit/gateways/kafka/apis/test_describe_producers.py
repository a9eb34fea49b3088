from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from tests.unit.gateways.kafka.caller import NOW_MS, Caller, make_batch


async def describe(caller: Caller, name: str = "t", partition: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest([TopicRequest(name, [partition])])
    (row,) = (await caller.ask(request, 0)).topics[0].partitions
    assert isinstance(row, PartitionResponse)
    return row


async def test_idempotent_producers_are_told_with_their_last_sequence(
    broker: InProcessBroker, caller: Caller
) -> None:
    await caller.create("t")
    await caller.produce("t", make_batch(b"without an id"))
    await caller.produce(
        "t", make_batch(b"a", b"b", producer_id=7, producer_epoch=2, base_sequence=0)
    )
    await caller.produce("t", make_batch(b"c", producer_id=7, producer_epoch=2, base_sequence=2))
    await broker.restart()
    async with Caller(broker.port) as later:
        row = await describe(later)
    (state,) = row.active_producers
    assert (row.error_code, state.producer_id, state.producer_epoch) == (0, 7, 2)
    assert (state.last_sequence, state.last_timestamp) == (2, NOW_MS)
    assert state.current_txn_start_offset == -1


async def test_unknown_places_are_refused(caller: Caller) -> None:
    await caller.create("t")
    for row in (await describe(caller, "missing"), await describe(caller, partition=1)):
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert row.error_message
