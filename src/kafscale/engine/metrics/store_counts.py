"""Requests to the object store, counted by topic.

Here: from an object's key to the labels of a series.
Next door: the names of the series (series.py), who reports (objects/instrumented.py).
"""

from collections.abc import Callable

from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.log.formats import keys
from kafscale.model.metric_names import NO_TOPIC, SHARED


class StoreCounts:
    """Counts what the instrumented object store reports."""

    def __init__(
        self, metrics: BrokerMetrics, namespace: str, is_topic: Callable[[str], bool]
    ) -> None:
        """`is_topic`: whether a topic of that name exists."""
        self._metrics = metrics
        self._namespace = namespace
        self._is_topic = is_topic
        self._shared = keys.shared_folder(namespace) + "/"

    def observe_store(self, operation: str, key: str, seconds: float, size: int, ok: bool) -> None:
        """Take a report of the instrumented object store."""
        metrics = self._metrics
        metrics.s3_operations.labels(operation, "success" if ok else "error").inc()
        metrics.s3_latency.labels(operation).observe(seconds)
        if size:
            metrics.s3_bytes.labels(self._topic_of(key), operation).inc(size)

    def count_requests(self, request: str, key: str, count: int) -> None:
        """Take requests sent to the object store, as its provider will bill them."""
        topic = self._topic_of(key)
        self._metrics.s3_requests.labels(topic, request).inc(count)
        if request == "put" and topic is not NO_TOPIC:
            log = keys.log_number(self._namespace, key)
            if log is not None:
                self._metrics.log_puts.labels(topic, log).inc(count)

    def _topic_of(self, key: str) -> str:
        if key.startswith(self._shared):
            return SHARED
        # Names that are no topic's have no series: there is no end to such names.
        topic = keys.topic_of(self._namespace, key)
        return topic if topic is not None and self._is_topic(topic) else NO_TOPIC
