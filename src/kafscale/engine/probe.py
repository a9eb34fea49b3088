"""Which series a broker has: the only place where their names are written.

Here: names, labels and buckets; whoever counts asks for a series once and keeps it.
Next door: the numbers themselves (model/meters.py), the page they are shown on
(broker/ops_http.py). Process figures and connections are added by the broker.
"""

from typing import Final

from kafscale.model.meters import Counter, Family, Gauge, Histogram, Registry, Source

REQUEST_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
STORE_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
MAX_SERIES: Final = 10_000  # per family; what comes later counts as one series

_PARTITION: Final = ("topic", "partition")


class Probe:
    """Everything a broker counts."""

    def __init__(self, registry: Registry, max_series: int = MAX_SERIES) -> None:
        self.registry = registry
        self._max_series = max_series
        self._add_requests()
        self._add_store()
        self._add_memory()

    def observe_store(self, operation: str, seconds: float, size: int, ok: bool) -> None:
        """Take a report of the instrumented object store."""
        self.s3_operations.labels(operation, "success" if ok else "error").inc()
        self.s3_latency.labels(operation).observe(seconds)
        self.s3_bytes.labels(operation).inc(size)

    def sample_buffers(self, source: Source) -> None:
        """Ask `source` for (topic, partition) -> bytes waiting to be flushed, at each scrape."""
        self.registry.sampled(
            "kafscale_buffer_size_bytes", "Write buffer size per partition", source, _PARTITION
        )

    def sample_cache_hit_rate(self, source: Source) -> None:
        """Ask `source` for (topic, partition) -> share of reads served from memory."""
        self.registry.sampled(
            "kafscale_cache_hit_rate", "Segment cache hit rate", source, _PARTITION
        )

    def sample_consumer_lag(self, source: Source) -> None:
        """Ask `source` for (group, topic, partition) -> records not yet consumed."""
        self.registry.sampled(
            "kafscale_consumer_lag",
            "Consumer group lag in messages",
            source,
            ("group", *_PARTITION),
        )

    def forget_topic(self, topic: str) -> None:
        """Drop the series of a deleted topic."""
        for family in (
            self.produce_requests,
            self.fetch_requests,
            self.flushes,
            self.flush_bytes,
        ):
            family.forget("topic", topic)
        for histogram in (self.produce_latency, self.fetch_latency):
            histogram.forget("topic", topic)

    def _add_requests(self) -> None:
        add, limit = self.registry, self._max_series
        self.produce_requests: Family[Counter] = add.counter(
            "kafscale_produce_requests_total",
            "Total number of produce requests",
            (*_PARTITION, "status"),
            limit,
        )
        self.produce_latency: Family[Histogram] = add.histogram(
            "kafscale_produce_latency_seconds",
            "Produce request latency",
            REQUEST_SECONDS,
            ("topic", "acks"),
            limit,
        )
        self.fetch_requests: Family[Counter] = add.counter(
            "kafscale_fetch_requests_total",
            "Total number of fetch requests",
            (*_PARTITION, "status"),
            limit,
        )
        self.fetch_latency: Family[Histogram] = add.histogram(
            "kafscale_fetch_latency_seconds",
            "Fetch request latency",
            REQUEST_SECONDS,
            ("topic", "cache_hit"),
            limit,
        )
        self.bad_requests: Family[Counter] = add.counter(
            "kafscale_bad_requests_total", "Requests refused as malformed", ("reason",), limit
        )
        self.active_connections: Gauge = add.gauge(
            "kafscale_active_connections", "Number of active client connections"
        ).labels()

    def _add_store(self) -> None:
        add, limit = self.registry, self._max_series
        self.s3_operations: Family[Counter] = add.counter(
            "kafscale_s3_operations_total", "S3 operations by type", ("operation", "status")
        )
        self.s3_latency: Family[Histogram] = add.histogram(
            "kafscale_s3_latency_seconds", "S3 operation latency", STORE_SECONDS, ("operation",)
        )
        self.s3_bytes: Family[Counter] = add.counter(
            "kafscale_s3_bytes_total", "Bytes sent to and read from S3", ("operation",)
        )
        self.flushes: Family[Counter] = add.counter(
            "kafscale_flushes_total", "Segments written by flushes", ("topic",), limit
        )
        self.flush_bytes: Family[Counter] = add.counter(
            "kafscale_flush_bytes_total", "Bytes written by flushes", ("topic",), limit
        )
        self.rollups: Counter = add.counter(
            "kafscale_rollups_total", "Roll-ups of small segments into large ones"
        ).labels()

    def _add_memory(self) -> None:
        self.cache_size: Gauge = self.registry.gauge(
            "kafscale_cache_size_bytes", "Current cache size in bytes"
        ).labels()
