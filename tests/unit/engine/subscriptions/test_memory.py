"""What a subscription costs that has a consumer and nothing to do."""

import asyncio
import gc
import tracemalloc

from kafscale.engine.subscriptions.ports import LATEST
from kafscale.subscriptions.events import Mode
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.engine.subscriptions.consumer import attach

COUNT = 300
MOST_BYTES = 10_000


async def test_an_idle_subscription_with_a_consumer_takes_less_than_10_kb(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"v")
    takers = [await attach(harness.engine, group_id="first", start=LATEST)]
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(COUNT):
            name = f"public/default/subscription-{number}"
            takers.append(
                await attach(harness.engine, group_id=name, start=LATEST, mode=Mode.SHARED)
            )
        await asyncio.sleep(0.1)
        gc.collect()
        each = tracemalloc.get_traced_memory()[0] / COUNT
    finally:
        tracemalloc.stop()
    print(f"{each:.0f} bytes of Python objects for each idle subscription")
    assert each < MOST_BYTES
    for taker in takers:
        await taker.attached.close()
    await asyncio.sleep(0.1)
    assert len(harness.engine.subscriptions) == 0
