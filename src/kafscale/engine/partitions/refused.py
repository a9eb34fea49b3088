"""Memory of producers: which batches were refused, and which producers are unknown.

Here: what a producer will send again, so that its later batches do not overtake it; since when a
producer has been unknown.
Next door: who refuses (appends.py), what a lane knows of its producers (log/formats/producers.py).
"""

from typing import Final, NamedTuple

from kafscale.engine.topics.topic import Topic
from kafscale.log.writer.lane import Lane
from kafscale.model.clock import Clock
from kafscale.records import batch
from kafscale.records.batch import BatchHeader

_MOST_REMEMBERED: Final = 10_000
_SENT_AGAIN_S: Final = 120.0  # clients' delivery.timeout.ms
_SEQUENCES: Final = 1 << 31
_MAGIC: Final = 2
# A producer counts as forgotten after this time. A producer whose first batch was refused sends it
# again before that, and must not start again while that batch may have been written.
FORGOTTEN_S: Final = 2.0


class _Refused(NamedTuple):
    """A batch that its producer will send again, and when it was refused."""

    header: BatchHeader
    noted_s: float

    def is_over(self, now_s: float) -> bool:
        """Whether its producer has given up by now."""
        return now_s - self.noted_s > _SENT_AGAIN_S

    def comes_after(self, other: BatchHeader) -> bool:
        """Whether another batch of this producer is an earlier one, or of a newer epoch."""
        if other.producer_epoch != self.header.producer_epoch:
            return other.producer_epoch > self.header.producer_epoch
        ahead = (self.header.base_sequence - other.base_sequence) % _SEQUENCES
        return 0 < ahead < _SEQUENCES // 2


class RefusedBatches:
    """The first refused batch of each producer, by partition.

    Noted where a topic moves away, is being created again, or does not exist yet: there the new
    place cannot know which batch of a producer should come first.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Public, so that the write path asks without a call whether there are any.
        self.by_partition: dict[tuple[str, int], dict[int, _Refused]] = {}

    def note(self, name: str, partition: int, header: BatchHeader) -> None:
        """Remember a refused batch, if no earlier one of its producer is remembered."""
        if header.producer_id < 0:
            return
        now_s = self._clock.elapsed_s()
        refused = self.by_partition.setdefault((name, partition), {})
        if len(self.by_partition) > _MOST_REMEMBERED:  # many producers will go on at another broker
            del self.by_partition[next(iter(self.by_partition))]
        if len(refused) > _MOST_REMEMBERED:
            del refused[next(iter(refused))]
        first = refused.get(header.producer_id)
        if first is None or first.is_over(now_s) or first.comes_after(header):
            refused[header.producer_id] = _Refused(header, now_s)

    def note_records(self, name: str, partition: int, records: memoryview | None) -> None:
        """The same for a record set that has not been validated."""
        if records is not None and len(records) >= batch.HEADER_SIZE:
            header = batch.read_header(records)
            if header.magic == _MAGIC:
                self.note(name, partition, header)

    def expect(self, topic: Topic, partition: int, lane: Lane, now_ms: int) -> None:
        """Let the lane accept each producer's refused batch first, and forget them here.

        Later batches of these producers are already on their way and must not come before it.
        """
        now_s = self._clock.elapsed_s()
        for refused in self.by_partition.pop((topic.name, partition), {}).values():
            if not refused.is_over(now_s):
                header = refused.header
                lane.producers.expect(
                    header.producer_id, header.producer_epoch, header.base_sequence, now_ms
                )


class UnknownProducers:
    """Since when a partition has refused a producer that it does not know."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By topic, partition and producer. Public, so that the write path asks without a call
        # whether there are any.
        self.since_s: dict[tuple[bytes, int, int], float] = {}

    def is_forgotten(self, topic: Topic, partition: int, producer_id: int) -> bool:
        """Note that a producer is unknown. Whether it has been so for long enough."""
        now_s = self._clock.elapsed_s()
        if len(self.since_s) >= _MOST_REMEMBERED:
            self.since_s.clear()
        since_s = self.since_s.setdefault((topic.topic_id, partition, producer_id), now_s)
        return now_s - since_s >= FORGOTTEN_S

    def discard(self, topic: Topic, partition: int, producer_id: int) -> None:
        """Note that a producer is known."""
        self.since_s.pop((topic.topic_id, partition, producer_id), None)
