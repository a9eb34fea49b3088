"""What the operator counts. The names are written here and nowhere else."""

from collections.abc import Callable
from typing import Final

from kafscale.model.metrics.meters import Counter, Family, Gauge, Histogram, Registry

SECONDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_CLUSTER: Final = ("namespace", "cluster")


class OperatorMetrics:
    """All series of the operator."""

    def __init__(self) -> None:
        self.registry = Registry()
        add = self.registry
        self.reconcile_seconds: Family[Histogram] = add.histogram(
            "kafscale_operator_reconcile_seconds", "Time for one look", SECONDS, ("kind",)
        )
        self.reconcile_errors: Family[Counter] = add.counter(
            "kafscale_operator_reconcile_errors_total", "Looks that failed", ("kind",)
        )
        self.requests: Family[Counter] = add.counter(
            "kafscale_operator_requests_total", "Requests to the API server", ("verb", "kind")
        )
        self.watch_restarts: Family[Counter] = add.counter(
            "kafscale_operator_watch_restarts_total", "Watches that broke", ("kind",)
        )
        self.ready: Family[Gauge] = add.gauge(
            "kafscale_operator_cluster_ready",
            "1 for a cluster that is ready, 0 for one that is not; none for one that is stopped",
            _CLUSTER,
        )
        self.snapshot_time: Family[Gauge] = add.gauge(
            "kafscale_operator_etcd_snapshot_last_success_timestamp",
            "When the last snapshot of etcd was made, in Unix time",
            _CLUSTER,
        )
        self.snapshot_success: Family[Gauge] = add.gauge(
            "kafscale_operator_etcd_snapshot_success",
            "1 if the last snapshot of etcd was made, 0 if its job failed",
            _CLUSTER,
        )
        self.snapshot_stale: Family[Gauge] = add.gauge(
            "kafscale_operator_etcd_snapshot_stale",
            "1 if no snapshot of etcd was made for more than two periods of its schedule",
            _CLUSTER,
        )
        self.snapshot_access: Family[Gauge] = add.gauge(
            "kafscale_operator_etcd_snapshot_access_ok",
            "0 if the bucket of the snapshots refused the last one",
            _CLUSTER,
        )

    def sample(
        self,
        *,
        clusters: Callable[[], float],
        topics: Callable[[], float],
        queue_depth: Callable[[], float],
        is_leader: Callable[[], float],
    ) -> None:
        """Ask for these figures at each scrape."""
        for name, explanation, look in (
            ("kafscale_operator_clusters", "Clusters there are", clusters),
            ("kafscale_operator_topics", "Topic objects there are", topics),
            ("kafscale_operator_queue_depth", "Keys that wait to be looked at", queue_depth),
            ("kafscale_operator_is_leader", "1 on the operator that leads", is_leader),
        ):
            self.registry.sampled(name, explanation, _single(look), (), "gauge")

    def forget(self, namespace: str, cluster: str) -> None:
        """Drop the series of a cluster that is gone."""
        self.ready.drop(namespace, cluster)
        self.forget_snapshots(namespace, cluster)

    def forget_snapshots(self, namespace: str, cluster: str) -> None:
        """Drop the series about snapshots of a cluster that makes none."""
        for family in (
            self.snapshot_time,
            self.snapshot_success,
            self.snapshot_stale,
            self.snapshot_access,
        ):
            family.drop(namespace, cluster)


def _single(look: Callable[[], float]) -> Callable[[], list[tuple[tuple[str, ...], float]]]:
    return lambda: [((), float(look()))]
