"""What one look at the metrics costs: CPU time per scrape, beside prometheus_client's.

    python -m benchmarks.scrape [SERIES] [--quick]

It fills both with the same series (three fifths counters, the rest histograms) and lets both write
the same text in one run, in turns, so that a busy machine is equally unfair to both. Then it
scrapes the open logs of a broker whose small topics share four of them: with as many rows as are
shown, with a row for every lane, and right after a lane was added.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import prometheus_client
from prometheus_client.exposition import generate_latest

from kafscale.engine.metrics.log_gauges import MOST_LOGS, MOST_PARTITIONS, LogGauges
from kafscale.engine.metrics.series import REQUEST_SECONDS, BrokerMetrics
from kafscale.engine.topics.topic import Topic
from kafscale.log.writer.log import Log
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings
from kafscale.model.metrics.meters import Registry
from kafscale.model.topics import TopicDefaults, TopicDescriptor
from kafscale.objects.memory import MemoryObjectStore
from kafscale.system import SystemClock, SystemDice

_LANES = 10_000
_SHARED_LOGS = 4
_LINES_OF_A_HISTOGRAM = len(REQUEST_SECONDS) + 3


def labels(series: int) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """Label values of the counters and of the histograms."""
    counters = series * 3 // 5
    histograms = (series - counters) // _LINES_OF_A_HISTOGRAM
    return (
        [(f"topic-{n // 16}", str(n % 16), "success") for n in range(counters)],
        [(f"topic-{n}", "all") for n in range(histograms)],
    )


def ours(series: int) -> Callable[[], bytes]:
    """Our registry, filled."""
    registry = Registry()
    counter = registry.counter("requests_total", "Requests", ("topic", "partition", "status"))
    histogram = registry.histogram("seconds", "Latency", REQUEST_SECONDS, ("topic", "acks"))
    counted, timed = labels(series)
    for number, values in enumerate(counted):
        counter.labels(*values).inc(number)
    for number, place in enumerate(timed):
        histogram.labels(*place).observe(number / 100)
    return registry.render


def theirs(series: int) -> Callable[[], bytes]:
    """The usual library, filled with the same."""
    prometheus_client.disable_created_metrics()
    registry = prometheus_client.CollectorRegistry()
    counter = prometheus_client.Counter(
        "requests", "Requests", ("topic", "partition", "status"), registry=registry
    )
    histogram = prometheus_client.Histogram(
        "seconds", "Latency", ("topic", "acks"), buckets=REQUEST_SECONDS, registry=registry
    )
    counted, timed = labels(series)
    for number, values in enumerate(counted):
        counter.labels(*values).inc(number)
    for number, place in enumerate(timed):
        histogram.labels(*place).observe(number / 100)
    return lambda: generate_latest(registry)


def cpu_ms(scrape: Callable[[], bytes]) -> float:
    """CPU time of one scrape."""
    began = time.process_time()
    scrape()
    return (time.process_time() - began) * 1000


def measure(series: int, count: int) -> tuple[float, float]:
    """Median CPU milliseconds per scrape, ours and theirs."""
    first, second = ours(series), theirs(series)
    lines = [scrape().count(b"\n") - 4 for scrape in (first, second)]
    assert lines[0] == lines[1], lines
    rounds = [(cpu_ms(first), cpu_ms(second)) for _ in range(count)]
    return statistics.median(one for one, _ in rounds), statistics.median(two for _, two in rounds)


def lanes_ms(most_partitions: int, count: int, *, changing: bool = False) -> float:
    """Median CPU milliseconds of scraping open logs whose lanes are as many small topics."""
    clock, memory = SystemClock(), TailMemory(1 << 20)
    logs: list[tuple[Topic | None, Log]] = [
        (
            None,
            Log(
                MemoryObjectStore(clock.now_ms),
                f"default/@shared/{number}",
                epoch=0,
                author="",
                settings=LogSettings(),
                memory=memory,
                clock=clock,
                dice=SystemDice(),
            ),
        )
        for number in range(_SHARED_LOGS)
    ]
    whose: dict[str, dict[int, tuple[Topic, int]]] = {log.folder: {} for _, log in logs}
    for slot in range(_LANES):
        lane, log = slot // _SHARED_LOGS, logs[slot % _SHARED_LOGS][1]
        log.lane(lane).high = slot
        name = f"small-topic-{slot}"
        descriptor = TopicDescriptor(
            name=name,
            topic_id="0" * 31 + "1",
            incarnation=1,
            folder=f"default/{name}",
            partitions=1,
            logs=0,
            layout="shared",
            created_at="",
        )
        whose[log.folder][lane] = (Topic(descriptor, TopicDefaults()), 0)
    metrics = BrokerMetrics(Registry())
    metrics.sample_logs(
        LogGauges(lambda: logs, whose.__getitem__, lambda: 0, MOST_LOGS, most_partitions)
    )

    def scrape() -> bytes:
        if changing:
            first = logs[0][1]
            first.lane(len(first.lanes))
        return metrics.registry.render()

    scrape()
    return statistics.median(cpu_ms(scrape) for _ in range(count))


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(prog="benchmarks.scrape")
    parser.add_argument("series", nargs="?", type=int, default=5000)
    parser.add_argument("--quick", action="store_true", help="3 scrapes of each, not 15")
    options = parser.parse_args()
    series, count = options.series, 3 if options.quick else 15
    mine, peer = measure(series, count)
    print(f"{series} series, CPU ms per scrape, median of {count}")
    print(f"  kafscale            {mine:8.2f}")
    print(f"  prometheus_client   {peer:8.2f}   ({peer / mine:.0f} times as much)")
    print(f"{_LANES} lanes of {_SHARED_LOGS} shared logs, CPU ms per scrape")
    print(f"  {MOST_PARTITIONS} rows shown      {lanes_ms(MOST_PARTITIONS, count):8.2f}")
    print(f"  with a new lane     {lanes_ms(MOST_PARTITIONS, count, changing=True):8.2f}")
    print(f"  a row for each      {lanes_ms(_LANES, count):8.2f}")


if __name__ == "__main__":
    main()
