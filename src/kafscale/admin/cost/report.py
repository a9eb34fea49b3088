"""What each topic costs, by what brokers did and by what lies in the bucket.

Here: reading brokers' metrics pages and listing the bucket. Next door: the arithmetic
(spending.py), the command (cli/brokers/cost.py).
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafscale.admin.bucket.holdings import list_shared_bytes
from kafscale.admin.cost import metrics_page, spending
from kafscale.admin.cost.spending import BrokerCounters, TopicUse
from kafscale.log.formats import keys
from kafscale.model.clock import Clock
from kafscale.model.metrics.metric_names import NO_TOPIC, S3_BYTES, S3_REQUESTS, SHARED, STARTED
from kafscale.settings.locations import locate, open_location

_NAMES: Final = frozenset((S3_REQUESTS, S3_BYTES, STARTED))


@dataclass(frozen=True, slots=True)
class CostReport:
    """Every topic's use of the bucket, and how much time each broker's counters cover."""

    uses: dict[str, TopicUse]
    windows_s: list[float]
    is_between_readings: bool  # else since each broker's start
    shared_bytes: dict[str, int]  # by topic, of the logs that topics share


async def measure_cost(
    urls: Sequence[str],
    clock: Clock,
    *,
    wait_s: float | None = None,
    store_url: str = "",
    trust: ssl.SSLContext | None = None,
) -> CostReport:
    """Read the pages of all brokers once, or twice with `wait_s` between; count stored bytes.

    `trust`: for https, what a page's certificate must fit; None: the system's authorities.
    """
    counters = await _read_all(urls, clock, trust)
    before: list[BrokerCounters | None] = [None] * len(urls)
    if wait_s is not None:
        await asyncio.sleep(wait_s)
        before, counters = list(counters), await _read_all(urls, clock, trust)
    uses: dict[str, TopicUse] = {}
    for now, earlier in zip(counters, before, strict=True):
        spending.add_rates(uses, now, earlier)
    shared_bytes: dict[str, int] = {}
    if store_url:
        sizes, shared_bytes = await stored_bytes(store_url)
        for topic, size in sizes.items():
            uses.setdefault(topic, TopicUse()).stored_bytes = size
    windows_s = [spending.window_s(*pair) for pair in zip(counters, before, strict=True)]
    return CostReport(uses, windows_s, wait_s is not None, shared_bytes)


async def _read_all(
    urls: Sequence[str], clock: Clock, trust: ssl.SSLContext | None
) -> list[BrokerCounters]:
    async def read(url: str) -> BrokerCounters:
        text = await asyncio.to_thread(metrics_page.fetch, url, trust)
        return BrokerCounters.of(metrics_page.parse_samples(text, _NAMES), clock.now_ms() / 1000)

    return await asyncio.gather(*map(read, urls))


async def stored_bytes(url: str) -> tuple[dict[str, int], dict[str, int]]:
    """Count bytes per topic, everything that lies there: also what waits to be deleted.

    Topics that share logs are counted as one. What each of them has there comes second, without
    what waits to be deleted.
    """
    where = locate(url)
    store = open_location(where)
    sizes: dict[str, int] = {}
    try:
        for folder in await store.folders(where.namespace):
            path = f"{where.namespace}/{folder}"
            objects = await store.find(path)
            is_topic = not folder.startswith(("@", "."))
            topic = (keys.topic_of(where.namespace, path) if is_topic else None) or NO_TOPIC
            if path == keys.shared_folder(where.namespace):
                topic = SHARED
            sizes[topic] = sizes.get(topic, 0) + sum(stored.size for stored in objects)
        shared = await list_shared_bytes(store, where.namespace) if SHARED in sizes else {}
    finally:
        await store.aclose()
    return sizes, shared
