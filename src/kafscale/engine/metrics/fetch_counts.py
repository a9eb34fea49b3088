"""What is counted of a topic's reads: asked for once, kept, and added to without a search.

Here: the series of one topic. A fetch of a thousand partitions adds to a thousand of them.
Next door: their names (series.py).
"""

from typing import Final

from kafscale.model.meters import Counter, Family, Histogram

SUCCESS: Final = "success"
ERROR: Final = "error"


class PartitionReads:
    """Of one partition."""

    __slots__ = ("answered", "from_memory", "looks")

    def __init__(self, answered: Counter) -> None:
        """Begin with what was counted before."""
        self.answered = answered
        self.from_memory = 0
        self.looks = 0  # reads that found something


class TopicReads(dict[int, PartitionReads]):
    """Of one topic, by partition. Only of partitions that exist: anybody may ask for others."""

    __slots__ = ("_latencies", "_latency", "_requests", "_topic")

    def __init__(self, topic: str, requests: Family[Counter], latency: Family[Histogram]) -> None:
        super().__init__()
        self._topic = topic
        self._requests = requests
        self._latency = latency
        self._latencies: dict[bool, Histogram] = {}

    def __missing__(self, partition: int) -> PartitionReads:
        answered = self._requests.labels(self._topic, str(partition), SUCCESS)
        found = self[partition] = PartitionReads(answered)
        return found

    def answered(self, partition: int) -> None:
        """Nothing was read, and that is the answer."""
        self[partition].answered.inc()

    def read(self, partition: int, from_memory: bool, took_s: float) -> None:
        """Data was found."""
        one = self[partition]
        one.answered.inc()
        one.from_memory += from_memory
        one.looks += 1
        latency = self._latencies.get(from_memory)
        if latency is None:
            hit = "true" if from_memory else "false"
            latency = self._latencies[from_memory] = self._latency.labels(self._topic, hit)
        latency.observe(took_s)

    def refused(self, partition: int) -> None:
        """The answer was an error."""
        self._requests.labels(self._topic, str(partition), ERROR).inc()
