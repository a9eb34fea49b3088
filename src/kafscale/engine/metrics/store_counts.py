"""Requests to the object store, counted by topic.

Here: from an object's key to the series that count it. The series of a folder are looked up once
and kept: a broker writes an object per flush.
Next door: the names of the series (series.py), who reports (objects/instrumented.py).
"""

from collections.abc import Callable

from kafscale.engine.metrics.series import BrokerMetrics
from kafscale.log.formats import keys
from kafscale.model.metrics.meters import Counter, Histogram
from kafscale.model.metrics.metric_names import NO_TOPIC, SHARED


class _FolderCounts:
    """The series of the objects in one folder. Each is created when it first counts something."""

    __slots__ = ("bytes_of", "log_number", "log_puts", "requests_of", "topic")

    def __init__(self, topic: str, log_number: str | None) -> None:
        self.topic = topic
        self.log_number = log_number  # None: the folder is no log's, or no topic's
        self.requests_of: dict[str, Counter] = {}  # by kind of request
        self.bytes_of: dict[str, Counter] = {}  # by operation
        self.log_puts: Counter | None = None


class StoreCounts:
    """Counts what the instrumented object store reports."""

    def __init__(
        self,
        metrics: BrokerMetrics,
        namespace: str,
        is_topic: Callable[[str], bool],
        revision: Callable[[], int],
    ) -> None:
        """`is_topic`: whether a topic of that name exists. `revision` changes with the topics."""
        self._metrics = metrics
        self._namespace = namespace
        self._is_topic = is_topic
        self._revision = revision
        self._root = namespace + "/"
        self._shared = keys.shared_folder(namespace) + "/"
        self._results: dict[tuple[str, bool], tuple[Counter, Histogram]] = {}
        self._folders: dict[str, _FolderCounts] = {}
        self._folders_revision = revision()  # of the topics, when the folders were looked up

    def observe_store(self, operation: str, key: str, seconds: float, size: int, ok: bool) -> None:
        """Take a report of the instrumented object store."""
        result = self._results.get((operation, ok))
        if result is None:
            result = self._results[operation, ok] = self._result_of(operation, ok)
        operations, latency = result
        operations.inc()
        latency.observe(seconds)
        if size:
            counts = self._counts_of(key)
            counter = counts.bytes_of.get(operation)
            if counter is None:
                counter = self._metrics.s3_bytes.labels(counts.topic, operation)
                counts.bytes_of[operation] = counter
            counter.inc(size)

    def count_requests(self, request: str, key: str, count: int) -> None:
        """Take requests sent to the object store, as its provider will bill them."""
        counts = self._counts_of(key)
        counter = counts.requests_of.get(request)
        if counter is None:
            counter = self._metrics.s3_requests.labels(counts.topic, request)
            counts.requests_of[request] = counter
        counter.inc(count)
        if request == "put" and counts.log_number is not None:
            if counts.log_puts is None:
                counts.log_puts = self._metrics.log_puts.labels(counts.topic, counts.log_number)
            counts.log_puts.inc(count)

    def _result_of(self, operation: str, ok: bool) -> tuple[Counter, Histogram]:
        metrics = self._metrics
        return (
            metrics.s3_operations.labels(operation, "success" if ok else "error"),
            metrics.s3_latency.labels(operation),
        )

    def _counts_of(self, key: str) -> _FolderCounts:
        if self._folders_revision != (revision := self._revision()):
            self._folders_revision = revision
            self._folders.clear()  # a topic that is gone has lost its series
        folder = key.rpartition("/")[0]
        counts = self._folders.get(folder)
        if counts is None:
            counts = self._look_up(key)
            # All objects in a folder below the namespace have one topic and one log.
            if folder.startswith(self._root):
                self._folders[folder] = counts
        return counts

    def _look_up(self, key: str) -> _FolderCounts:
        log_number = keys.log_number(self._namespace, key)
        if key.startswith(self._shared):
            return _FolderCounts(SHARED, log_number)
        # Names that are no topic's have no series: there is no end to such names.
        topic = keys.topic_of(self._namespace, key)
        if topic is None or not self._is_topic(topic):
            return _FolderCounts(NO_TOPIC, None)
        return _FolderCounts(topic, log_number)
