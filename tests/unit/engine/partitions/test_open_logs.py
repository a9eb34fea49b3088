"""Opening logs in a fleet whose members change meanwhile; logs that are of no use."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kafscale.engine.cluster.identity import Identity
from kafscale.engine.cluster.single import SingleBroker
from kafscale.engine.partitions.open_logs import OpenLogs
from kafscale.engine.topics.topic import Topic
from kafscale.log.writer.log import Log
from kafscale.model.errors import LogStopped
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.log.log_harness import FOLDER, LogHarness, write


@pytest.fixture
async def log_harness() -> AsyncIterator[LogHarness]:
    made = LogHarness(MemoryObjectStore)
    yield made
    await made.aclose()


class Changing(SingleBroker):
    """A fleet in which the log is ours whenever it is looked at."""

    has_peers = True


async def test_a_log_that_others_may_have_had_while_it_was_opened_is_looked_at_again(
    log_harness: LogHarness,
) -> None:
    fleet = Changing(Identity("cluster", broker_id=0, epoch=1))

    def make(_topic: Topic | None, folder: str) -> Log:
        return log_harness.make_log(folder, epoch=fleet.generation)

    logs = OpenLogs(make, fleet, lambda *_: None)
    slow = log_harness.plan.add(Rule(Fault.STALL_AFTER, "find", times=1))
    opening = asyncio.create_task(logs.open_log(FOLDER, None))
    await slow.reached.wait()
    # In the next generation it is another's, in the one after that it is ours once more.
    other = await log_harness.open(epoch=2)
    await write(other, b"theirs")
    await other.aclose()
    fleet.generation = 3
    slow.release()
    log = await opening
    assert log.lane(0).high == 1, "what others have shown must not go back"
    assert log.epoch == 3
    await logs.aclose(1.0)


async def test_a_generation_that_stays_is_one_look(log_harness: LogHarness) -> None:
    fleet = Changing(Identity("cluster", broker_id=0, epoch=1))
    logs = OpenLogs(
        lambda _topic, folder: log_harness.make_log(folder, epoch=1), fleet, lambda *_: None
    )
    await logs.open_log(FOLDER, None)
    assert [verb for verb, _ in log_harness.store.calls] == ["find"]
    await logs.aclose(1.0)


async def test_logs_with_broken_objects_are_counted_until_they_are_whole(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 2, {})
    await harness.append("t", b"x")
    assert harness.parts.logs.stopped() == 0
    topic = harness.engine.topics.get("t")
    (segment,) = await harness.store.find(topic.folder(0))
    whole = bytes(await harness.store.read(segment.key))
    await harness.reopen()
    await harness.store.delete([segment.key])
    await harness.store.put_new(segment.key, [whole[:60] + b"?" + whole[61:]])
    for _ in range(2):
        with pytest.raises(LogStopped):
            await harness.parts.logs.open(topic, 0)
    await harness.parts.logs.open(topic, 1)
    assert (harness.parts.logs.count(), harness.parts.logs.stopped()) == (1, 1)
    await harness.store.delete([segment.key])
    await harness.store.put_new(segment.key, [whole])
    await harness.parts.logs.open(topic, 0)
    assert (harness.parts.logs.count(), harness.parts.logs.stopped()) == (2, 0)
