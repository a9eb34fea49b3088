"""The debug switch tells which turns of the loop were long, and what the loop did in them."""

import asyncio
import threading
import time

from kafscale.broker.operating.turn_watch import TurnWatch


async def test_a_long_turn_is_reported_with_its_place_and_task() -> None:
    reports: list[dict[str, object]] = []
    heard = threading.Event()

    def report(**facts: object) -> None:
        reports.append(facts)
        heard.set()

    watch = TurnWatch(0.02, report)
    watch.start()

    def hold_up_the_loop() -> None:
        end = time.perf_counter() + 0.2
        while time.perf_counter() < end:
            pass

    async def work() -> None:
        hold_up_the_loop()

    while not any("hold_up_the_loop" in str(facts["at"]) for facts in reports):
        await asyncio.get_running_loop().create_task(work(), name="culprit")
        await asyncio.to_thread(heard.wait, 10)
    watch.stop()
    (found, *_) = (facts for facts in reports if "hold_up_the_loop" in str(facts["at"]))
    assert found["task"] == "culprit"
    assert int(str(found["turn_ms"])) >= 20
