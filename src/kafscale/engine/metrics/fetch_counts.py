"""Counters of a topic's reads. They are looked up once and kept: fetches add without a search.

Here: the counters of one topic. A fetch of a thousand partitions adds to a thousand of them.
Next door: the names of the series (series.py).
"""

from typing import Final

from kafscale.model.metrics.meters import Counter, Family, Histogram

SUCCESS: Final = "success"
ERROR: Final = "error"


class PartitionReads:
    """The reads of one partition."""

    __slots__ = ("answered", "from_memory", "with_data")

    def __init__(self, answered: Counter) -> None:
        self.answered = answered
        self.from_memory = 0
        self.with_data = 0  # reads that gave records


class TopicReads(dict[int, PartitionReads]):
    """The reads of one topic, by partition. Only partitions that exist may be asked for."""

    __slots__ = ("_latencies", "_latency", "_requests", "_topic")

    def __init__(self, topic: str, requests: Family[Counter], latency: Family[Histogram]) -> None:
        super().__init__()
        self._topic = topic
        self._requests = requests
        self._latency = latency
        self._latencies: dict[bool, Histogram] = {}

    def __missing__(self, partition: int) -> PartitionReads:
        answered = self._requests.labels(self._topic, str(partition), SUCCESS)
        reads = self[partition] = PartitionReads(answered)
        return reads

    def answered(self, partition: int) -> None:
        """Count an answer without records."""
        self[partition].answered.inc()

    def read(self, partition: int, from_memory: bool, took_s: float) -> None:
        """Count an answer with records."""
        reads = self[partition]
        reads.answered.inc()
        reads.from_memory += from_memory
        reads.with_data += 1
        latency = self._latencies.get(from_memory)
        if latency is None:
            hit = "true" if from_memory else "false"
            latency = self._latencies[from_memory] = self._latency.labels(self._topic, hit)
        latency.observe(took_s)

    def refused(self, partition: int) -> None:
        """Count an answer that is an error."""
        self._requests.labels(self._topic, str(partition), ERROR).inc()
