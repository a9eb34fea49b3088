"""Work beside the event loop: few threads, and connections take turns."""

import asyncio
import threading
from collections.abc import Callable

from kafscale.gateways.workers import Workers


async def test_few_threads_work_at_once() -> None:
    most = running = 0
    lock = threading.Lock()
    gate = threading.Event()

    def work() -> int:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(5)
        with lock:
            running -= 1
        return 1

    workers = Workers()
    tasks: list[Callable[[], int]] = [work] * 5
    async with asyncio.TaskGroup() as group:
        done = [group.create_task(workers.new_queue().run(one)) for one in tasks]
        await asyncio.sleep(0.05)
        gate.set()
    assert sum(one.result() for one in done) == 5
    assert most == 2


async def test_a_connection_with_much_work_does_not_hold_up_one_with_little() -> None:
    workers = Workers()
    busy, other = workers.new_queue(), workers.new_queue()
    order: list[str] = []
    gates = [threading.Event() for _ in range(6)]

    def work(number: int) -> None:
        gates[number].wait(5)
        order.append(f"busy {number}")

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(busy.run(lambda number=number: work(number)))  # type: ignore[misc]
        await asyncio.sleep(0)
        await other.run(lambda: order.append("other"))
        assert order == ["other"]  # none of the busy connection's six pieces is done
        for gate in gates:
            gate.set()
    assert order == ["other", *(f"busy {number}" for number in range(6))]
