"""The names of all series of a proxy. They are written here and nowhere else.

Next door: the numbers themselves (model/metrics/meters.py), the page (gateways/ops_http.py).
"""

from collections.abc import Callable
from typing import Final

from kafscale.model.metrics.meters import Counter, Family, Registry, SampleSource
from kafscale.wire.kafka.catalog import BY_KEY

_MOST_SERIES: Final = 1000


class ProxyMetrics:
    """Everything a proxy counts."""

    def __init__(self) -> None:
        self.registry = Registry()
        add = self.registry.counter
        self.requests: Family[Counter] = add(
            "kafscale_proxy_requests_total", "Requests of clients", ("api",), _MOST_SERIES
        )
        self._by_key: dict[int, Counter] = {}
        received = add("kafscale_proxy_received_bytes_total", "Bytes that arrived", ("side",))
        self.from_clients, self.from_upstream = map(received.labels, ("clients", "upstream"))
        sent = add("kafscale_proxy_sent_bytes_total", "Bytes that were sent", ("side",))
        self.to_clients, self.to_upstream = map(sent.labels, ("clients", "upstream"))
        self.refused: Family[Counter] = add(
            "kafscale_proxy_refused_connections_total", "Connections that were ended", ("reason",)
        )
        self.upstream_errors: Family[Counter] = add(
            "kafscale_proxy_upstream_errors_total",
            "Connections to the cluster that failed, and batches that it did not take at once",
            ("kind",),
        )
        for kind in ("connection", "append"):
            self.upstream_errors.labels(kind)
        self.take_overs = add(
            "kafscale_proxy_take_overs_total",
            "Physical partitions that were opened after another proxy had gone",
        ).labels()
        self.audit_events: Family[Counter] = add(
            "kafscale_proxy_audit_events_total",
            "Denied requests and failed logins",
            ("kind", "outcome"),
        )

    def count(self, api_key: int) -> None:
        """Count a request of a client."""
        found = self._by_key.get(api_key)
        if found is None:
            api = BY_KEY.get(api_key)
            found = self.requests.labels(str(api_key) if api is None else api.name)
            self._by_key[api_key] = found
        found.inc()

    def sample(
        self,
        *,
        connections: Callable[[], float],
        partitions: Callable[[], float],
        lanes: Callable[[], float],
        proxies: Callable[[], float],
    ) -> None:
        """Ask for these figures at each scrape."""
        for name, explanation, look in (
            ("kafscale_proxy_connections", "Open connections of clients", connections),
            ("kafscale_proxy_owned_partitions", "Physical partitions that are open", partitions),
            ("kafscale_proxy_owned_virtual_partitions", "Virtual partitions of these", lanes),
            ("kafscale_proxy_proxies", "Proxies that are there, this one included", proxies),
        ):
            self.registry.sampled(name, explanation, _single(look))


def _single(look: Callable[[], float]) -> SampleSource:
    return lambda: [((), float(look()))]
