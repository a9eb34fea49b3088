"""The simulated event loop: time, processes, crashes, the wall around it."""

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from kafscale.testing.simulated.clock import SimulatedClock
from kafscale.testing.simulated.isolation import TouchedTheRealWorld, isolated
from kafscale.testing.simulated.loop import SimulatedLoop, SimulationStuck


def play(loop: SimulatedLoop, work: Coroutine[Any, Any, Any]) -> Any:
    with isolated():
        try:
            return loop.run_until_complete(work)
        finally:
            loop.close()


def test_sleeping_takes_virtual_time_only() -> None:
    loop = SimulatedLoop(1)

    async def sleep() -> float:
        began_s = loop.time()
        await asyncio.sleep(600)
        return loop.time() - began_s

    began_s = time.monotonic()
    assert play(loop, sleep()) == 600
    assert time.monotonic() - began_s < 60


def test_what_is_soon_runs_in_the_order_of_asyncio() -> None:
    loop = SimulatedLoop(1)
    told: list[str] = []

    async def tell(name: str) -> None:
        told.append(f"{name} 1")
        await asyncio.sleep(0)
        told.append(f"{name} 2")

    async def both() -> None:
        await asyncio.gather(tell("a"), tell("b"))

    play(loop, both())
    assert told == ["a 1", "b 1", "a 2", "b 2"]


def test_a_crashed_process_does_not_run_its_finally() -> None:
    loop = SimulatedLoop(1)
    told: list[str] = []

    async def live() -> None:
        try:
            told.append("began")
            await asyncio.sleep(10)
        finally:
            told.append("ended")

    async def world() -> None:
        process = loop.process("victim")
        process.start(live())
        await asyncio.sleep(1)
        process.crash()
        await asyncio.sleep(20)
        assert told == ["began"]

    play(loop, world())


def test_a_crashed_process_is_not_woken_by_what_it_waited_for() -> None:
    loop = SimulatedLoop(1)
    told: list[str] = []

    async def live(answer: "asyncio.Future[None]") -> None:
        await answer
        told.append("heard")

    async def world() -> None:
        process, answer = loop.process("victim"), loop.create_future()
        process.start(live(answer))
        await asyncio.sleep(1)
        process.crash()
        answer.set_result(None)
        await asyncio.sleep(1)

    play(loop, world())
    assert told == []


def test_a_paused_process_is_late_and_others_are_not() -> None:
    loop = SimulatedLoop(1)
    told: list[tuple[str, int]] = []

    async def tick(name: str) -> None:
        await asyncio.sleep(1)
        told.append((name, round(loop.time() - 1000)))

    async def world() -> None:
        slow, quick = loop.process("slow"), loop.process("quick")
        slow.start(tick("slow"))
        quick.start(tick("quick"))
        await asyncio.sleep(0.5)
        slow.pause(5)
        await asyncio.sleep(10)

    play(loop, world())
    assert told == [("quick", 1), ("slow", 6)]


def test_the_steady_clock_of_a_suspended_machine_stands_still() -> None:
    loop = SimulatedLoop(1)

    async def world() -> None:
        process = loop.process("laptop")
        clock = SimulatedClock(process)
        before_s, before_ms = clock.elapsed_s(), clock.now_ms()
        process.pause(60, suspended=True)
        await asyncio.sleep(61)
        assert clock.elapsed_s() - before_s == pytest.approx(1)
        assert clock.now_ms() - before_ms == 61_000

    play(loop, world())


def test_work_for_threads_is_done_here_and_later() -> None:
    loop = SimulatedLoop(1)

    async def ask() -> tuple[int, float]:
        began_s = loop.time()
        number = await asyncio.to_thread(lambda: 42)
        return number, loop.time() - began_s

    number, took_s = play(loop, ask())
    assert number == 42
    assert 0 < took_s < 0.01


def test_waiting_for_nothing_is_an_error_and_ends() -> None:
    loop = SimulatedLoop(1)

    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(SimulationStuck):
        play(loop, wait())


@pytest.mark.parametrize(
    "touch",
    [time.time, time.monotonic, lambda: time.sleep(0), lambda: os.urandom(1)],
    ids=["time", "monotonic", "sleep", "urandom"],
)
def test_the_real_world_is_out_of_reach(touch: Any) -> None:
    with isolated(), pytest.raises(TouchedTheRealWorld):
        # Looked up by name, as code under test does.
        touch() if touch.__name__ == "<lambda>" else getattr(time, touch.__name__)()
    assert time.time() > 0


def test_other_threads_keep_the_real_world() -> None:
    seen: list[float] = []
    begun, go_on = threading.Event(), threading.Event()

    def look() -> None:
        begun.set()
        go_on.wait(10)
        seen.append(time.monotonic())

    thread = threading.Thread(target=look)
    thread.start()
    begun.wait(10)
    with isolated():
        go_on.set()
        while thread.is_alive():
            pass
    thread.join()
    assert seen


def test_sockets_and_subprocesses_raise() -> None:
    loop = SimulatedLoop(1)

    async def connect() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    with pytest.raises(NotImplementedError):
        play(loop, connect())
