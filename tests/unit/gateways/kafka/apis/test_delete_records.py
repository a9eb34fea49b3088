import pytest

from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.unit.gateways.kafka.caller import Caller, make_batch, records_of

EARLIEST, LATEST = -2, -1


async def delete(
    caller: Caller, before: int, name: str = "t", partition: int = 0, version: int = 2
) -> tuple[int, int]:
    """Error code and low watermark."""
    topic = DeleteRecordsTopic(name, [DeleteRecordsPartition(partition, before)])
    answer = await caller.ask(DeleteRecordsRequest([topic], 10_000), version)
    (row,) = answer.topics[0].partitions
    assert row.partition_index == partition
    return row.error_code, row.low_watermark


async def fill(caller: Caller) -> None:
    """Two batches: offsets 0-2 and 3-4."""
    await caller.create("t")
    await caller.produce("t", make_batch(b"a", b"b", b"c"))
    await caller.produce("t", make_batch(b"d", b"e"))


@pytest.mark.parametrize("version", range(3))
async def test_what_lies_before_is_gone_at_once_and_after_a_restart(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    await fill(caller)
    assert await delete(caller, 3, version=version) == (0, 3)
    await broker.restart()
    async with Caller(broker.port) as later:
        for one in (later,):
            assert (await one.offset("t", EARLIEST)).offset == 3
            assert (await one.offset("t", LATEST)).offset == 5
            assert (await one.fetch("t", 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            row = await one.fetch("t", 3)
            assert (row.error_code, row.log_start_offset) == (0, 3)
            assert [record.value for record in records_of(row)] == [b"d", b"e"]


async def test_readers_notice_before_any_restart(caller: Caller) -> None:
    await fill(caller)
    assert await delete(caller, 3) == (0, 3)
    assert (await caller.fetch("t", 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await caller.offset("t", EARLIEST)).offset == 3


async def test_the_middle_of_a_batch_can_be_the_start(
    broker: InProcessBroker, caller: Caller
) -> None:
    await fill(caller)
    assert await delete(caller, 1) == (0, 1)
    await broker.restart()
    async with Caller(broker.port) as later:
        assert (await later.fetch("t", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        found = [record.value for record in records_of(await later.fetch("t", 1))]
        assert found[-4:] == [b"b", b"c", b"d", b"e"]


async def test_minus_one_means_everything_and_the_log_goes_on(
    broker: InProcessBroker, caller: Caller
) -> None:
    await fill(caller)
    assert await delete(caller, -1) == (0, 5)
    assert (await caller.produce("t", make_batch(b"f"))).base_offset == 5
    await broker.restart()
    async with Caller(broker.port) as later:
        row = await later.fetch("t", 5)
        assert [(one.offset, one.value) for one in records_of(row)] == [(5, b"f")]
        assert (await later.offset("t", EARLIEST)).offset == 5


async def test_an_empty_partition_has_nothing_to_delete(caller: Caller) -> None:
    await caller.create("t")
    assert await delete(caller, -1) == (0, 0)
    assert await delete(caller, 0) == (0, 0)


async def test_the_start_never_moves_back(caller: Caller) -> None:
    await fill(caller)
    await delete(caller, 3)
    assert await delete(caller, 1) == (0, 3)


@pytest.mark.parametrize("before", [6, 2**62, -2, -(2**62)])
async def test_what_is_not_there_yet_cannot_be_deleted(caller: Caller, before: int) -> None:
    await fill(caller)
    assert await delete(caller, before) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert (await caller.offset("t", EARLIEST)).offset == 0


async def test_unknown_places_are_refused(caller: Caller) -> None:
    await fill(caller)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await delete(caller, 0, "missing") == unknown
    assert await delete(caller, 0, partition=1) == unknown
    assert await delete(caller, 0, partition=-1) == unknown


async def test_a_topic_that_keeps_the_newest_of_each_key_does_not_delete(caller: Caller) -> None:
    await caller.create("t", configs={"cleanup.policy": "compact"})
    assert await delete(caller, 0) == (ErrorCode.POLICY_VIOLATION, -1)
