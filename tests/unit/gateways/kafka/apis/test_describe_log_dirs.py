import pytest

from kafscale.model.errors import StoreRefused
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tests.unit.gateways.kafka.caller import Caller, make_batch


async def sizes(
    caller: Caller, topics: dict[str, list[int]] | None = None, version: int = 4
) -> dict[tuple[str, int], int]:
    rows = None
    if topics is not None:
        rows = [DescribableLogDirTopic(*row) for row in topics.items()]
    answer = await caller.ask(DescribeLogDirsRequest(rows), version)
    (directory,) = answer.results
    assert (answer.error_code, directory.error_code, directory.log_dir) == (0, 0, "memory")
    return {
        (topic.name, row.partition_index): row.partition_size
        for topic in directory.topics
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", range(5))
async def test_every_version_tells_what_partitions_take(
    broker: InProcessBroker, caller: Caller, version: int
) -> None:
    await caller.create("t", 2)
    await caller.create("u")
    batch = make_batch(b"x" * 1000)
    await caller.produce("t", batch, partition=1)
    await caller.produce("t", batch, partition=1)
    wanted = {("t", 0): 0, ("t", 1): 2 * len(batch), ("u", 0): 0}
    assert await sizes(caller, version=version) == wanted
    await broker.restart()
    async with Caller(broker.port) as later:
        assert await sizes(later, version=version) == wanted


async def test_only_what_is_asked_for_and_exists_is_told(caller: Caller) -> None:
    await caller.create("t", 2)
    assert await sizes(caller, {"t": [1, 1, 7, -1], "missing": [0]}) == {("t", 1): 0}
    assert await sizes(caller, {}) == {}


async def test_a_store_that_does_not_answer_is_no_empty_partition() -> None:
    plan = FaultPlan()
    store = FaultyObjectStore(MemoryObjectStore(), plan)
    async with InProcessBroker(store=store) as broker, Caller(broker.port) as caller:
        await caller.create("t")
        plan.add(Rule(Fault.FAIL_BEFORE, "find", error=StoreRefused))
        (directory,) = (await caller.ask(DescribeLogDirsRequest(None), 4)).results
        plan.clear()
    assert (directory.error_code, directory.topics) == (ErrorCode.NOT_ENOUGH_REPLICAS, [])
