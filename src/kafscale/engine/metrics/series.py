"""The names of all series of a broker. They are written here and nowhere else.

Here: names, labels and buckets. A part that counts asks for a series once and keeps it.
Next door: the numbers themselves (model/metrics/meters.py), the page they are shown on
(gateways/ops_http.py), requests to the store by topic (store_counts.py). The broker adds
process figures and connections.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kafscale.engine.metrics.fetch_counts import TopicReads
from kafscale.engine.metrics.log_gauges import LogGauges
from kafscale.model.metrics.meters import Counter, Family, Histogram, Registry, SampleSource
from kafscale.model.metrics.metric_names import (
    FETCHED_BYTES,
    PRODUCED_BYTES,
    PRODUCED_RECORDS,
    S3_BYTES,
    S3_REQUESTS,
    STARTED,
)

REQUEST_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
STORE_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
MAX_SERIES: Final = 10_000  # per family; what comes later counts as one series

_PARTITION: Final = ("topic", "partition")
_LOG: Final = ("topic", "log")


def _single(look: Callable[[], float]) -> SampleSource:
    return lambda: [((), float(look()))]


class BrokerMetrics:
    """Everything a broker counts."""

    def __init__(
        self,
        registry: Registry,
        max_series: int = MAX_SERIES,
        *,
        log_received: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """`log_received` gets topic, partition and bytes of every batch, at log level debug."""
        self.registry = registry
        self.log_received = log_received
        self._max_series = max_series
        self._add_requests()
        self._add_groups()
        self._add_store()
        self._add_metadata()
        self._add_memory()
        self._reads: dict[str, TopicReads] = {}

    def observe_metadata(self, operation: str, seconds: float, result: str) -> None:
        """Take a report of the instrumented metadata store."""
        self.metadata_requests.labels(operation, result).inc()
        self.metadata_latency.labels(operation).observe(seconds)

    def throttled(self, quota: str, seconds: float) -> None:
        """Count that a client is over a quota and must wait for so long; 0: it is not."""
        if seconds > 0:
            self._throttles.labels(quota).inc()
            self._throttle_seconds.labels(quota).inc(seconds)

    def produced(self, topic: str, partition: int, ok: bool) -> None:
        """Count one partition's part of a produce request."""
        self.produce_requests.labels(topic, str(partition), "success" if ok else "error").inc()

    def reads_of(self, topic: str) -> TopicReads:
        """The counters of one topic's reads."""
        reads = self._reads.get(topic)
        if reads is None:
            reads = TopicReads(topic, self.fetch_requests, self.fetch_latency)
            self._reads[topic] = reads
        return reads

    def _hit_rates(self) -> Iterator[tuple[Sequence[str], float]]:
        for topic, partitions in self._reads.items():
            for partition, reads in partitions.items():
                if reads.with_data:
                    yield (topic, str(partition)), reads.from_memory / reads.with_data

    def sample_buffers(self, source: SampleSource) -> None:
        """Ask `source` for (topic, partition) -> bytes waiting to be flushed, at each scrape."""
        self.registry.sampled(
            "kafscale_buffer_size_bytes", "Write buffer size per partition", source, _PARTITION
        )

    def sample_store_health(self, source: SampleSource) -> None:
        """Ask for the store's state: 1 for the one it is in, 0 for the others."""
        self.registry.sampled(
            "kafscale_s3_health_state", "State of S3 as this broker sees it", source, ("state",)
        )

    def sample_broker(
        self,
        *,
        connections: Callable[[], float],
        cache_bytes: Callable[[], float],
        tail_bytes: Callable[[], float],
        resident_bytes: Callable[[], float],
        cpu_seconds: Callable[[], float],
        started_s: Callable[[], float],
        produce_rate: Callable[[], float],
    ) -> None:
        """Ask the broker for its own figures at each scrape."""
        gauge, counter = "gauge", "counter"
        for name, explanation, look, kind in (
            (
                "kafscale_active_connections",
                "Number of active client connections",
                connections,
                gauge,
            ),
            ("kafscale_cache_size_bytes", "Current cache size in bytes", cache_bytes, gauge),
            ("kafscale_tail_size_bytes", "New data kept in memory", tail_bytes, gauge),
            ("process_resident_memory_bytes", "Memory in use", resident_bytes, gauge),
            ("process_cpu_seconds_total", "CPU time spent", cpu_seconds, counter),
            (STARTED, "When it began, in Unix time", started_s, gauge),
            (
                "kafscale_produce_requests_per_second",
                "Produce requests, mean of the last minute",
                produce_rate,
                gauge,
            ),
        ):
            self.registry.sampled(name, explanation, _single(look), (), kind)

    def offsets_committed(self, ok: int, refused: int) -> None:
        """Count the partitions of an offset commit."""
        self._commits_written.inc(ok)
        self._commits_refused.inc(refused)

    def sample_groups(self, states: SampleSource, members: Callable[[], float]) -> None:
        """Ask for the groups in memory by state, and for all their members together."""
        self.registry.sampled(
            "kafscale_groups", "Consumer groups in memory by state", states, ("state",)
        )
        self.registry.sampled(
            "kafscale_group_members", "Members of all consumer groups", _single(members)
        )

    def sample_transactions(
        self, count: Callable[[], float], oldest_s: Callable[[], float]
    ) -> None:
        """Ask for the transactions that are open in this broker's logs."""
        self.registry.sampled(
            "kafscale_transactions_open", "Transactions open in partitions here", _single(count)
        )
        self.registry.sampled(
            "kafscale_transactions_oldest_open_seconds",
            "How long this broker has seen the oldest of them open",
            _single(oldest_s),
        )

    def sample_checkpoint_age(self, look: Callable[[], float | None]) -> None:
        """Ask for the age of the newest checkpoint, if this broker takes checkpoints."""

        def source() -> Iterator[tuple[Sequence[str], float]]:
            age_s = look()
            if age_s is not None:
                yield (), age_s

        self.registry.sampled(
            "kafscale_checkpoint_age_seconds",
            "Time since the bucket had all that groups have committed",
            source,
        )

    def sample_fleet(
        self,
        *,
        is_controller: Callable[[], float],
        generation: Callable[[], float],
        logs: Callable[[], float],
        stopped: Callable[[], float],
        handovers: Callable[[], float],
    ) -> None:
        """Ask for this broker's place among the others."""
        for name, explanation, look, kind in (
            (
                "kafscale_is_controller",
                "1 on the controller",
                is_controller,
                "gauge",
            ),
            ("kafscale_members_generation", "Generation of the members", generation, "gauge"),
            ("kafscale_logs_owned", "Logs open on this broker", logs, "gauge"),
            ("kafscale_logs_stopped", "Logs with objects that cannot be right", stopped, "gauge"),
            ("kafscale_handovers_total", "Times that logs changed hands", handovers, "counter"),
        ):
            self.registry.sampled(name, explanation, _single(look), (), kind)

    def sample_logs(self, gauges: LogGauges) -> None:
        """Ask for the open logs and the partitions in them."""
        add = self.registry.sampled
        # A scrape reads them in this order: the first one updates the rows of all.
        for name, explanation, source in (
            ("kafscale_log_lanes", "Lanes of a log", gauges.lanes),
            ("kafscale_log_end_position", "Records ever committed to a log", gauges.end_positions),
            ("kafscale_log_tail_objects", "Flushes not rolled up yet", gauges.tail_objects),
            ("kafscale_log_live_bytes", "Bytes of records in a log", gauges.live_bytes),
            ("kafscale_log_dead_bytes", "Bytes of deleted records in a log", gauges.dead_bytes),
        ):
            add(name, explanation, source, _LOG)
        for name, explanation, source in (
            ("kafscale_partition_records", "Offsets from log start to end", gauges.records),
            ("kafscale_partition_bytes", "Bytes of a partition's records", gauges.partition_bytes),
        ):
            add(name, explanation, source, _PARTITION)
        for name, look in (
            ("kafscale_logs_untracked", lambda: gauges.logs_untracked),
            ("kafscale_partitions_untracked", lambda: gauges.partitions_untracked),
        ):
            add(name, "Those without series because there are too many", _single(look))

    def sample_traffic(
        self, *, produced_bytes: SampleSource, produced_records: SampleSource, fetched: SampleSource
    ) -> None:
        """Ask for what clients wrote to each topic and read of it."""
        for name, explanation, source in (
            (PRODUCED_BYTES, "Bytes of record batches that producers sent", produced_bytes),
            (PRODUCED_RECORDS, "Records that producers sent", produced_records),
            (FETCHED_BYTES, "Bytes of record batches that consumers were handed", fetched),
        ):
            self.registry.sampled(name, explanation, source, ("topic",), "counter")

    def sample_moves(self, counts: SampleSource, ages: SampleSource) -> None:
        """Ask for the topics on their way to another place, and how long that takes, by phase."""
        for name, explanation, source in (
            ("kafscale_moves", "Topics on their way to another place", counts),
            ("kafscale_move_phase_seconds", "Time a topic has been in a phase of its move", ages),
        ):
            self.registry.sampled(name, explanation, source, ("phase",))

    def compacted(self, topic: str, removed_records: int, removed_bytes: int) -> None:
        """Count one key compaction of a log."""
        self.compactions.labels(topic).inc()
        self.compaction_removed_records.labels(topic).inc(removed_records)
        self.compaction_removed_bytes.labels(topic).inc(removed_bytes)

    def sample_compaction(self, source: SampleSource) -> None:
        """Ask for the logs that are due for key compaction and too large for a broker."""
        self.registry.sampled(
            "kafscale_compaction_left_bytes",
            "Bytes to compact by key that are left to the pipeline",
            source,
            _LOG,
        )

    def sample_untracked_lag(self, look: Callable[[], float]) -> None:
        """Ask how many commits found no room among the lag series."""
        self.registry.sampled(
            "kafscale_consumer_lag_untracked_total",
            "Commits without a lag series because there are too many",
            _single(look),
            (),
            "counter",
        )

    def sample_consumer_lag(self, source: SampleSource) -> None:
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
            self.compactions,
            self.compaction_removed_records,
            self.compaction_removed_bytes,
            self.offset_range_exhausted,
            self.log_puts,
            self.s3_requests,
            self.s3_bytes,
        ):
            family.forget("topic", topic)
        self._reads.pop(topic, None)
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
        self.requests: Family[Counter] = add.counter(
            "kafscale_requests_total", "Requests by API, refused ones included", ("api",)
        )
        self.bad_requests: Family[Counter] = add.counter(
            "kafscale_bad_requests_total",
            "Requests and connections refused for what no correct client does",
            ("reason",),
            limit,
        )
        self.client_errors: Family[Counter] = add.counter(
            "kafscale_client_errors_total",
            "Requests with an error that correct clients meet, too",
            ("reason",),
            limit,
        )
        self._throttles: Family[Counter] = add.counter(
            "kafscale_throttled_total", "Requests and connections over a quota", ("quota",)
        )
        self._throttle_seconds: Family[Counter] = add.counter(
            "kafscale_throttle_seconds_total", "Time that clients were told to wait", ("quota",)
        )
        self.audit_events: Family[Counter] = add.counter(
            "kafscale_audit_events_total",
            "Denied requests, failed authentications and administrative changes",
            ("kind", "outcome"),
            limit,
        )
        self.authentications: Family[Counter] = add.counter(
            "kafscale_authentications_total",
            "Logins, by mechanism and how they ended",
            ("mechanism", "outcome"),
            limit,
        )

    def _add_groups(self) -> None:
        add = self.registry
        self.group_rebalances: Counter = add.counter(
            "kafscale_group_rebalances_total", "Rebalances of consumer groups completed"
        ).labels()
        self.transactions_decided: Family[Counter] = add.counter(
            "kafscale_transactions_decided_total", "Transactions decided here", ("outcome",)
        )
        self.transactions_presumed_aborted: Counter = add.counter(
            "kafscale_transactions_presumed_aborted_total",
            "Transactions aborted because no transactional id claimed them",
        ).labels()
        commits: Family[Counter] = add.counter(
            "kafscale_offset_commits_total", "Offsets committed, by partition", ("status",)
        )
        self._commits_written = commits.labels("success")
        self._commits_refused = commits.labels("error")

    def _add_store(self) -> None:
        add, limit = self.registry, self._max_series
        self.s3_operations: Family[Counter] = add.counter(
            "kafscale_s3_operations_total", "S3 operations by type", ("operation", "status")
        )
        self.s3_latency: Family[Histogram] = add.histogram(
            "kafscale_s3_latency_seconds", "S3 operation latency", STORE_SECONDS, ("operation",)
        )
        self.s3_requests: Family[Counter] = add.counter(
            S3_REQUESTS,
            "Requests sent to S3, repeated ones included",
            ("topic", "operation"),
            limit,
        )
        self.s3_bytes: Family[Counter] = add.counter(
            S3_BYTES,
            "Bytes written to and read from S3",
            ("topic", "operation"),
            limit,
        )
        self.log_puts: Family[Counter] = add.counter(
            "kafscale_log_puts_total", "Objects written for a log, as billed", _LOG, limit
        )
        self.flushes: Family[Counter] = add.counter(
            "kafscale_flushes_total", "Segments written by flushes", ("topic",), limit
        )
        self.offset_range_exhausted: Family[Counter] = add.counter(
            "kafscale_offset_range_exhausted_total",
            "Batches refused because their partition has no offsets left",
            ("topic",),
            limit,
        )
        self.broken_objects: Counter = add.counter(
            "kafscale_broken_objects_total", "Objects that housekeeping found broken"
        ).labels()
        self.move_failures: Counter = add.counter(
            "kafscale_move_failures_total", "Steps of moves that failed and are tried again"
        ).labels()
        self.flush_bytes: Family[Counter] = add.counter(
            "kafscale_flush_bytes_total", "Bytes written by flushes", ("topic",), limit
        )
        self.rollups: Counter = add.counter(
            "kafscale_rollups_total", "Roll-ups of small segments into large ones"
        ).labels()

        self.compactions: Family[Counter] = add.counter(
            "kafscale_compactions_total", "Key compactions of logs", ("topic",), limit
        )
        self.compaction_removed_records: Family[Counter] = add.counter(
            "kafscale_compaction_removed_records_total",
            "Records that key compaction removed",
            ("topic",),
            limit,
        )
        self.compaction_removed_bytes: Family[Counter] = add.counter(
            "kafscale_compaction_removed_bytes_total",
            "Bytes that key compaction removed",
            ("topic",),
            limit,
        )

    def _add_metadata(self) -> None:
        add = self.registry
        self.metadata_requests: Family[Counter] = add.counter(
            "kafscale_metadata_requests_total",
            "Requests to etcd, or to the file in its place",
            ("operation", "result"),
        )
        self.metadata_latency: Family[Histogram] = add.histogram(
            "kafscale_metadata_latency_seconds",
            "Latency of etcd, or of the file in its place",
            REQUEST_SECONDS,
            ("operation",),
        )

    def _add_memory(self) -> None:
        self.registry.sampled(
            "kafscale_cache_hit_rate", "Segment cache hit rate", self._hit_rates, _PARTITION
        )
