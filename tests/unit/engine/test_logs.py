"""Opening logs in a fleet whose members change meanwhile."""

import asyncio

from kafscale.engine.logs import Logs
from kafscale.engine.lone import Lone
from kafscale.engine.ownership import Identity
from kafscale.engine.topic import Topic
from kafscale.log.log import Log
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.log.bench import FOLDER, Bench, write
from tests.unit.log.conftest import bench

__all__ = ["bench"]


class Changing(Lone):
    """A fleet in which the log is ours whenever it is looked at."""

    is_shared = True


async def test_a_log_that_others_may_have_had_while_it_was_opened_is_looked_at_again(
    bench: Bench,
) -> None:
    fleet = Changing(Identity("cluster", broker_id=0, epoch=1))

    def make(_topic: Topic | None, folder: str) -> Log:
        return bench.make_log(folder, epoch=fleet.generation)

    logs = Logs(make, fleet)
    slow = bench.plan.add(Rule(Fault.STALL_AFTER, "find", times=1))
    opening = asyncio.create_task(logs.open_log(FOLDER, None))
    await slow.reached.wait()
    # In the next generation it is another's, in the one after that it is ours once more.
    other = await bench.open(epoch=2)
    await write(other, b"theirs")
    await other.aclose()
    fleet.generation = 3
    slow.release()
    log = await opening
    assert log.lane(0).high == 1, "what others have shown must not go back"
    assert log.epoch == 3
    await logs.aclose(1.0)


async def test_a_generation_that_stays_is_one_look(bench: Bench) -> None:
    fleet = Changing(Identity("cluster", broker_id=0, epoch=1))
    logs = Logs(lambda _topic, folder: bench.make_log(folder, epoch=1), fleet)
    await logs.open_log(FOLDER, None)
    assert [verb for verb, _ in bench.store.calls] == ["find"]
    await logs.aclose(1.0)
