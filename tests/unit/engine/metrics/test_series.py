"""The broker's series have the names dashboards expect."""

import re
from pathlib import Path

from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.engine.metrics.store_counts import StoreCounts
from kafscale.model.metrics.meters import Registry
from kafscale.model.metrics.metric_names import NO_TOPIC
from tests.support.exposition import parse, series

NAMES = {
    "kafscale_produce_requests_total": {"topic", "partition", "status"},
    "kafscale_produce_latency_seconds": {"topic", "acks"},
    "kafscale_fetch_requests_total": {"topic", "partition", "status"},
    "kafscale_fetch_latency_seconds": {"topic", "cache_hit"},
    "kafscale_s3_operations_total": {"operation", "status"},
    "kafscale_s3_latency_seconds": {"operation"},
    "kafscale_cache_hit_rate": {"topic", "partition"},
    "kafscale_cache_size_bytes": set(),
    "kafscale_buffer_size_bytes": {"topic", "partition"},
    "kafscale_consumer_lag": {"group", "topic", "partition"},
    "kafscale_consumer_lag_untracked_total": set(),
    "kafscale_groups": {"state"},
    "kafscale_group_members": set(),
    "kafscale_group_rebalances_total": set[str](),
    "kafscale_offset_commits_total": {"status"},
    "kafscale_transactions_decided_total": {"outcome"},
    "kafscale_transactions_presumed_aborted_total": set[str](),
    "kafscale_transactions_open": set[str](),
    "kafscale_transactions_oldest_open_seconds": set[str](),
    "kafscale_active_connections": set(),
    "kafscale_produce_requests_per_second": set(),
    "kafscale_s3_requests_total": {"topic", "operation"},
    "kafscale_s3_bytes_total": {"topic", "operation"},
    "kafscale_s3_health_state": {"state"},
    "kafscale_metadata_requests_total": {"operation", "result"},
    "kafscale_metadata_latency_seconds": {"operation"},
    "kafscale_requests_total": {"api"},
    "kafscale_bad_requests_total": {"reason"},
    "kafscale_client_errors_total": {"reason"},
    "kafscale_audit_events_total": {"kind", "outcome"},
    "kafscale_throttled_total": {"quota"},
    "kafscale_throttle_seconds_total": {"quota"},
    "kafscale_log_puts_total": {"topic", "log"},
    "kafscale_flushes_total": {"topic"},
    "kafscale_flush_bytes_total": {"topic"},
    "kafscale_produced_bytes_total": {"topic"},
    "kafscale_produced_records_total": {"topic"},
    "kafscale_fetched_bytes_total": {"topic"},
    "kafscale_rollups_total": set[str](),
    "kafscale_broken_objects_total": set[str](),
    "kafscale_moves": {"phase"},
    "kafscale_move_phase_seconds": {"phase"},
    "kafscale_move_failures_total": set[str](),
    "kafscale_tail_size_bytes": set(),
    "process_resident_memory_bytes": set(),
    "process_cpu_seconds_total": set(),
    "process_start_time_seconds": set(),
}


def full_probe() -> BrokerMetrics:
    metrics = BrokerMetrics(Registry())
    metrics.produced("t", 0, ok=True)
    metrics.produce_latency.labels("t", "all").observe(0.003)
    metrics.reads_of("t").read(0, from_memory=True, took_s=0.003)
    metrics.reads_of("t").read(0, from_memory=False, took_s=0.03)
    metrics.requests.labels("Fetch").inc()
    metrics.bad_requests.labels("frame").inc()
    metrics.client_errors.labels("topic_exists").inc()
    metrics.audit_events.labels("change", "ok").inc()
    metrics.throttled("producer_byte_rate", 0.5)
    metrics.transactions_decided.labels("commit").inc()
    metrics.flushes.labels("t").inc()
    metrics.flush_bytes.labels("t").inc(100)
    counts = StoreCounts(metrics, "default", lambda name: True, lambda: 0)
    counts.observe_store("put", "default/t/0/segment-1.kfs", 0.02, 100, True)
    counts.count_requests("put", "default/t/0/segment-1.kfs", 1)
    metrics.observe_metadata("get", 0.001, "success")
    metrics.sample_store_health(lambda: [(("healthy",), 1)])
    metrics.sample_buffers(lambda: [(("t", "0"), 10)])
    metrics.sample_broker(
        connections=lambda: 1,
        cache_bytes=lambda: 2,
        tail_bytes=lambda: 3,
        resident_bytes=lambda: 4,
        cpu_seconds=lambda: 5,
        started_s=lambda: 6,
        produce_rate=lambda: 7,
    )
    metrics.sample_groups(lambda: [(("Stable",), 1)], lambda: 2)
    metrics.sample_transactions(lambda: 1.0, lambda: 2.0)
    metrics.sample_moves(lambda: [(("copying",), 1)], lambda: [(("copying",), 2)])
    metrics.sample_traffic(
        produced_bytes=lambda: [(("t",), 100)],
        produced_records=lambda: [(("t",), 2)],
        fetched=lambda: [(("t",), 50)],
    )
    metrics.sample_untracked_lag(lambda: 0)
    metrics.sample_consumer_lag(lambda: [(("g", "t", "0"), 7)])
    return metrics


def test_every_series_has_its_name_and_labels() -> None:
    found: dict[str, set[str]] = {}
    for name, labels in parse(full_probe().registry.render()):
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        found.setdefault(family, set()).update(label for label, _ in labels if label != "le")
    assert found == NAMES


def test_buckets_are_those_of_the_dashboards() -> None:
    samples = parse(full_probe().registry.render())

    def ends(name: str) -> list[str]:
        found = [dict(labels) for found, labels in samples if found == f"{name}_bucket"]
        return [row["le"] for row in found if row.get("cache_hit") != "false"]

    request = [
        "0.001",
        "0.005",
        "0.01",
        "0.025",
        "0.05",
        "0.1",
        "0.25",
        "0.5",
        "1.0",
        "2.5",
        "5.0",
        "+Inf",
    ]
    assert ends("kafscale_produce_latency_seconds") == request
    assert ends("kafscale_fetch_latency_seconds") == request
    assert ends("kafscale_s3_latency_seconds") == [*request[2:-1], "10.0", "+Inf"]


def test_reports_of_the_store_are_counted_by_outcome() -> None:
    metrics = BrokerMetrics(Registry())
    counts = StoreCounts(metrics, "default", lambda name: True, lambda: 0)
    counts.observe_store("put", "default/t/0/a", 0.02, 100, True)
    counts.observe_store("put", "default/t/0/a", 3.0, 0, False)
    samples = parse(metrics.registry.render())
    assert samples[series("kafscale_s3_operations_total", operation="put", status="success")] == 1
    assert samples[series("kafscale_s3_operations_total", operation="put", status="error")] == 1
    assert samples[series("kafscale_s3_latency_seconds_count", operation="put")] == 2
    assert samples[series("kafscale_s3_bytes_total", topic="t", operation="put")] == 100


def test_requests_are_counted_by_the_topic_their_key_belongs_to() -> None:
    metrics = BrokerMetrics(Registry())
    counts = StoreCounts(metrics, "team/a", {"orders", "clicks"}.__contains__, lambda: 0)
    for request, key in (
        ("put", "team/a/orders/0/segment-00000000000000000000.kfs"),
        ("put", "team/a/orders@0123/11/segment-00000000000000000000.kfs"),
        ("list", "team/a/orders/0"),
        ("list", "team/a/orders"),
        ("get", "team/a/clicks/descriptor-00000000000000000000"),
        ("list", "team/a"),
        ("list", "team/ab/orders"),
        ("get", "team/a/@snapshots/x"),
        ("get", "team/a/gone/0/segment-00000000000000000000.kfs"),
        ("put", ""),
        ("put", "team/a/@shared/2/segment-00000000000000000000.kfs"),
        ("put", "team/a/@shared/allotment-00000000000000000001"),
        ("put", "team/a/7/descriptor-00000000000000000000"),
    ):
        counts.count_requests(request, key, 1)
    counts.count_requests("delete", "team/a/orders/0/x", 3)
    samples = parse(metrics.registry.render())
    assert {
        (dict(labels)["topic"], dict(labels)["log"]): count
        for (name, labels), count in samples.items()
        if name == "kafscale_log_puts_total"
    } == {("orders", "0"): 1, ("orders", "11"): 1, ("@shared", "2"): 1}
    counts = {
        (dict(labels)["topic"], dict(labels)["operation"]): count
        for (name, labels), count in samples.items()
        if name == "kafscale_s3_requests_total"
    }
    assert counts == {
        ("@shared", "put"): 2,
        ("orders", "put"): 2,
        ("orders", "list"): 2,
        ("orders", "delete"): 3,
        ("clicks", "get"): 1,
        (NO_TOPIC, "list"): 2,
        (NO_TOPIC, "get"): 2,
        (NO_TOPIC, "put"): 2,
    }


def test_a_topic_that_is_created_again_is_counted_from_zero() -> None:
    metrics, topics, revision = BrokerMetrics(Registry()), {"orders"}, [0]
    counts = StoreCounts(metrics, "ns", topics.__contains__, lambda: revision[0])

    def write() -> None:
        counts.count_requests("put", "ns/orders/0/segment-00000000000000000000.kfs", 1)
        counts.observe_store("put", "ns/orders/0/segment-00000000000000000000.kfs", 0.1, 10, True)

    def counted(topic: str) -> tuple[float | None, float | None]:
        samples = parse(metrics.registry.render())
        return (
            samples.get(series("kafscale_s3_requests_total", topic=topic, operation="put")),
            samples.get(series("kafscale_s3_bytes_total", topic=topic, operation="put")),
        )

    write()
    write()
    assert counted("orders") == (2, 20)
    topics.discard("orders")
    revision[0] += 1
    metrics.forget_topic("orders")
    write()
    assert counted("orders") == (None, None)
    assert counted(NO_TOPIC) == (1, 10)
    topics.add("orders")
    revision[0] += 1
    write()
    assert counted("orders") == (1, 10)


def test_a_deleted_topic_leaves_no_counted_series() -> None:
    metrics = full_probe()
    metrics.forget_topic("t")
    left = {name for name, labels in parse(metrics.registry.render()) if ("topic", "t") in labels}
    assert left == {  # these are read from topics that exist
        "kafscale_produced_bytes_total",
        "kafscale_produced_records_total",
        "kafscale_fetched_bytes_total",
        "kafscale_buffer_size_bytes",
        "kafscale_consumer_lag",
    }


def test_the_hit_rate_is_the_share_of_reads_served_from_memory() -> None:
    metrics = full_probe()
    metrics.reads_of("t").answered(0)  # nothing was read
    samples = parse(metrics.registry.render())
    assert samples[series("kafscale_cache_hit_rate", topic="t", partition="0")] == 0.5


def test_no_other_file_invents_a_series() -> None:
    source = Path(__file__).parents[3] / "src/kafscale"
    invented = [
        path.name
        for path in source.rglob("*.py")
        if path.name != "probe.py"
        and re.search(r'"kafscale_\w+_(total|seconds|bytes)"', path.read_text())
    ]
    assert invented == []
