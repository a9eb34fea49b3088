"""What a partition costs: PUTs per second by number of partitions, with and without shared logs.

    python -m benchmarks.partitions [--counts 10,100,1000,10000] [--seconds 6] [--most-dedicated N]

Three brokers in this process share one bucket, kept in memory and counted, and one metadata store.
Every partition gets a record in every flush interval. The figures are counts of requests per second
of that traffic; where the brokers cannot keep up the traffic takes longer than asked for, and the
time it took is printed beside it.
"""

import argparse
import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import structlog

from kafscale.broker.config import Config
from kafscale.broker.config_sections import BrokerSection, EtcdSection, StorageSection
from kafscale.broker.config_values import BrokerId, Seconds
from kafscale.engine.topic import Topic
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.objects.memory import MemoryObjectStore
from kafscale.objects.store import Buffer
from kafscale.system import SystemClock
from kafscale.testing.in_process import FOR_TESTS, InProcessBroker
from tests.unit.gateways.kafka.caller import make_batch

BROKERS = 3
FLUSH_MS = 250
LOGS = 3
MOST_LOGS = 1000  # a topic of dedicated logs; more partitions are several topics


class CountedStore(MemoryObjectStore):
    """Counts what would be paid for."""

    puts = 0

    async def put_new(self, key: str, body: Sequence[Buffer]) -> None:
        self.puts += 1
        await super().put_new(key, body)


def _config(number: int) -> Config:
    return msgspec.structs.replace(
        FOR_TESTS,
        broker=BrokerSection(id=BrokerId(number), port=0),
        storage=StorageSection(flush_interval_ms=FLUSH_MS),
        etcd=EtcdSection(lease_ttl=Seconds(300)),  # three brokers share one loop with the load
    )


async def _run(count: int, logs: int | None, seconds: float) -> tuple[float, float, float]:
    """PUTs per second of traffic, how long that traffic took, and CPU-seconds."""
    store = CountedStore()
    with TemporaryDirectory() as folder:
        metadata = EmbeddedMetadataStore(Path(folder) / "metadata.db", "OFF", SystemClock())
        brokers = [
            await InProcessBroker(
                config=_config(number), store=store, metadata=metadata, is_shared=True
            ).start()
            for number in range(BROKERS)
        ]
        try:
            return await _traffic(brokers, store, count, logs, seconds)
        finally:
            for broker in brokers:
                await broker.stop()
            await metadata.aclose()


async def _traffic(
    brokers: list[InProcessBroker],
    store: CountedStore,
    count: int,
    logs: int | None,
    seconds: float,
) -> tuple[float, float, float]:
    places = await _places(brokers, count, logs)
    await _round(places)  # opens every log
    rounds = round(seconds * 1000 / FLUSH_MS)
    before, began, cpu = store.puts, time.perf_counter(), time.process_time()
    for turn in range(rounds):
        await _round(places)
        await asyncio.sleep(max(0.0, began + (turn + 1) * FLUSH_MS / 1000 - time.perf_counter()))
    took_s = time.perf_counter() - began
    return (store.puts - before) / seconds, took_s, time.process_time() - cpu


Placed = tuple[InProcessBroker, Topic, int]


async def _places(brokers: list[InProcessBroker], count: int, logs: int | None) -> list[Placed]:
    """Every partition with the broker that owns it."""
    if logs is None:
        sizes = [min(MOST_LOGS, count - at) for at in range(0, count, MOST_LOGS)]
        configs: dict[str, str | None] = {}
    else:
        sizes, configs = [count], {"physical.partitions": str(logs)}
    placed: list[Placed] = []
    for broker in brokers:
        while len(broker.engine.fleet.nodes()) < BROKERS or broker.engine.fleet.why_not_ready():
            await asyncio.sleep(0.05)
    await asyncio.sleep(1)  # the last generation settles
    for number, size in enumerate(sizes):
        name = f"t{number}"
        await brokers[0].engine.create_topic(name, size, configs)
        for broker in brokers:
            while broker.engine.topics.find(name) is None:
                await asyncio.sleep(0.01)
        for partition in range(size):
            for broker in brokers:
                topic = broker.engine.topics.get(name)
                if broker.engine.fleet.may_open(topic.folder(partition)):
                    placed.append((broker, topic, partition))
    assert len(placed) == count, "every partition has one owner"
    return placed


async def _round(places: list[Placed]) -> None:
    """One record into every partition, and wait until all are committed."""
    waiting = []
    for broker, topic, partition in places:
        engine = broker.engine
        await engine.logs.open(topic, partition)
        data = memoryview(bytearray(make_batch(b"x" * 100)))
        done = engine.appends.append(topic, partition, data, acknowledged=False).appended.committed
        if done is not None:
            waiting.append(asyncio.shield(done))
    problems = [problem for problem in await asyncio.gather(*waiting) if problem is not None]
    assert not problems, problems[:3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--counts", default="10,100,1000,10000")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--most-dedicated", type=int, default=1000, help="more takes minutes")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(f"PUTs per second, {BROKERS} brokers in one process, flush every {FLUSH_MS} ms,")
    print(
        f"one record per partition and flush, {options.seconds:g} s of traffic; objects in memory"
    )
    print(f"{'partitions':>10}  {'two per flush':>13}  {'dedicated':>22}  {f'on {LOGS} logs':>22}")
    for count in map(int, options.counts.split(",")):
        cells = []
        for logs in (None, LOGS):
            if logs is None and count > options.most_dedicated:
                cells.append("not run")
                continue
            puts, took_s, cpu_s = asyncio.run(_run(count, logs, options.seconds))
            cells.append(f"{puts:.1f} (in {took_s:.1f} s, {cpu_s:.1f} CPU)")
        print(f"{count:>10}  {2 * count * 1000 // FLUSH_MS:>13}  {cells[0]:>22}  {cells[1]:>22}")


if __name__ == "__main__":
    main()
