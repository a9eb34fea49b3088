"""What one look at the metrics costs: CPU time per scrape, beside prometheus_client's.

`python -m benchmarks.scrape [series]` fills both with the same series (three fifths counters, the
rest histograms) and lets both write the same text in one run, in turns, so that a busy machine is
equally unfair to both.
"""

import statistics
import sys
import time
from collections.abc import Callable

import prometheus_client
from prometheus_client.exposition import generate_latest

from kafscale.engine.probe import REQUEST_SECONDS
from kafscale.model.meters import Registry

_ROUNDS = 15
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


def measure(series: int) -> tuple[float, float]:
    """Median CPU milliseconds per scrape, ours and theirs."""
    first, second = ours(series), theirs(series)
    lines = [scrape().count(b"\n") - 4 for scrape in (first, second)]
    assert lines[0] == lines[1], lines
    rounds = [(cpu_ms(first), cpu_ms(second)) for _ in range(_ROUNDS)]
    return statistics.median(one for one, _ in rounds), statistics.median(two for _, two in rounds)


def main() -> None:
    """Print the comparison."""
    series = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    mine, peer = measure(series)
    print(f"{series} series, CPU ms per scrape, median of {_ROUNDS}")
    print(f"  kafscale            {mine:8.2f}")
    print(f"  prometheus_client   {peer:8.2f}   ({peer / mine:.0f} times as much)")


if __name__ == "__main__":
    main()
