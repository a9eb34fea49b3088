"""What sleeping partitions cost on S3: requests per hour by kind, and money per month.

    python -m benchmarks.idle [--quick]

A broker in this process keeps 10, 1,000 and 10,000 partitions, in each layout, in the bucket of a
real S3 server. Nothing is written. An exporter asks for the bounds of every partition before each
housekeeping pass, and a consumer polls the ends of all of them. Time is not waited for: passes
follow each other at once, and what they send is multiplied by the passes of an hour at the default
settings (housekeeping every 30 s, a checkpoint a minute, topic names every 5 minutes per page). The
requests are those that the S3 adapter counts as it sends them, and the prices are S3's list prices.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

from benchmarks import run
from kafscale.admin.cost import metrics_page, spending
from kafscale.admin.cost.spending import BrokerCounters, TopicUse
from kafscale.engine.engine import Engine
from kafscale.engine.partitions.reads import PartitionRead
from kafscale.model.metrics.metric_names import S3_REQUESTS
from kafscale.settings import locations, stores
from kafscale.settings.sections import PricesSection
from kafscale.testing.in_process import InProcessBroker
from tests.support.seaweed import BUCKET, SeaweedServer

LAYOUTS: Final[Mapping[str, Mapping[str, str]]] = {
    "dedicated": {},
    "virtual": {"physical.partitions": "10"},
    "shared": {"storage.placement": "shared"},
}
PER_TOPIC: Final = 1000
PASSES: Final = 10
SETTLING: Final = 3  # passes in which what was begun comes to its end
PASSES_AN_HOUR: Final = 120
SCANS_AN_HOUR: Final = 12  # by one page of names; more pages are listed as much more rarely
KINDS: Final = ("list", "get", "put", "head", "delete")
HOURS_A_DAY: Final = 24


async def measure(partitions: int, layout: str, server: SeaweedServer) -> Counter[str]:
    """Requests in an hour."""
    environment = server.broker_environment("default")
    store = stores.open_bucket(locations.s3_settings(f"s3://{BUCKET}", environment))
    async with InProcessBroker(store=store) as broker:
        names = [f"{layout}-{partitions}-{n}" for n in range(-(-partitions // PER_TOPIC))]
        for name in names:
            await broker.engine.topics.create(
                name, min(partitions, PER_TOPIC), dict(LAYOUTS[layout])
            )
        for _ in range(SETTLING):
            await _pass(broker.engine, names)
        before = _requests(broker)
        for _ in range(PASSES):
            await _pass(broker.engine, names)
        after = _requests(broker)
        pages = await broker.engine._parts.topics.discovery.scan()
        scanned = _requests(broker)
    await store.aclose()
    hour: Counter[str] = Counter()
    for kind in KINDS:
        hour[kind] += (after[kind] - before[kind]) * PASSES_AN_HOUR // PASSES
        hour[kind] += (scanned[kind] - after[kind]) * SCANS_AN_HOUR // pages
    hour["list"] += 1  # for notices that were missed
    return hour


async def _pass(engine: Engine, names: list[str]) -> None:
    """One round of an exporter and a consumer, and one of everything that the broker does."""
    reads = []
    for name in names:
        topic = engine.topics.get(name)
        for partition in range(topic.partitions):
            bounds = await engine.partitions.bounds(topic, partition, -1)
            reads.append(PartitionRead(topic, partition, bounds.end, 1 << 20))
    await engine.partitions.fetch(reads, 1 << 20, 1, 0.1)
    await engine._parts.log_upkeep.tidy()
    await engine._parts.compactions.compact_due()
    await engine._parts.checkpoints.write()


def _requests(broker: InProcessBroker) -> Counter[str]:
    page = metrics_page.parse_samples(broker.metrics().decode(), {S3_REQUESTS})
    sums: Counter[str] = Counter()
    for (_, _, operation), count in BrokerCounters.of(page, 0.0).counts.items():
        sums[operation] += int(count)
    return sums


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What sleeping partitions cost on S3.")
    parser.add_argument("--quick", action="store_true", help="10 partitions only")
    sizes = (10,) if parser.parse_args().quick else (10, 1000, 10_000)
    run.hide_log_lines()
    kinds = " ".join(f"{kind + '/h':>9}" for kind in KINDS)
    print(f"{'layout':<10} {'partitions':>10} {kinds}  USD/month")
    for layout in LAYOUTS:
        for partitions in sizes:
            run.show_progress(f"{layout}, {partitions} partitions")
            with SeaweedServer() as server:
                hour = asyncio.run(measure(partitions, layout, server))
            use = TopicUse({kind: float(count * HOURS_A_DAY) for kind, count in hour.items()})
            month = spending.daily_cost(use, PricesSection()).month
            figures = " ".join(f"{hour[kind]:>9}" for kind in KINDS)
            print(f"{layout:<10} {partitions:>10} {figures}  {month:>9.3f}", flush=True)


if __name__ == "__main__":
    main()
