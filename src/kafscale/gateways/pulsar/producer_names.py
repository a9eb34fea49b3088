"""The names of producers: which are in use on which partition, and who may write beside whom.

Here: access modes and name clashes, on this broker. A partition has one owner, so that its
producers all meet here.
Next door: a producer (producing/producers.py).
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from kafscale.engine.cluster.identity import Identity

Partition = tuple[bytes, int]  # topic id and number


class AccessMode(IntEnum):
    """Whether a producer tolerates others on its partition."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3


class NamedProducer(Protocol):
    """A producer as others see it."""

    name: str
    epoch: int
    is_generated: bool
    access_mode: AccessMode
    topic_epoch: int | None  # of the time when it had the partition for itself

    def fence(self) -> None:
        """Another producer takes the partition for itself."""
        ...


class NameTaken(Exception):
    """A live producer has this name."""


class HeldByAnother(Exception):
    """Another producer has the partition for itself."""


class NotAlone(Exception):
    """There are other producers, and this one wants the partition for itself."""


_EPOCH_BITS: Final = 20


class ProducerNames:
    """All producers of a broker."""

    def __init__(self, broker_epoch: int = 0) -> None:
        """`broker_epoch`: of this start of this broker; every later owner has a higher one."""
        # How often a partition was taken by a producer alone: who had it before is fenced.
        self._first_epoch = broker_epoch << _EPOCH_BITS
        self._epochs: dict[Partition, int] = {}
        self._by_partition: dict[Partition, dict[str, NamedProducer]] = {}
        self._waiting: dict[Partition, deque[tuple[NamedProducer, Callable[[], None]]]] = {}
        self._count = 0

    def fresh(self, broker: Identity) -> str:
        """A name that no producer of the cluster has had."""
        self._count += 1
        return f"{broker.cluster_id}-{broker.broker_id}-{broker.epoch}-{self._count}"

    def enter(
        self, partition: Partition, producer: NamedProducer, when_alone: Callable[[], None]
    ) -> bool:
        """Note a producer; False if it must wait until it is alone, and `when_alone` is called.

        Raises NameTaken, HeldByAnother, NotAlone.
        """
        here = self._by_partition.setdefault(partition, {})
        known = here.get(producer.name)
        if known is not None:
            if not (producer.is_generated and producer.epoch > known.epoch):
                raise NameTaken
            del here[producer.name]
            known.fence()
        mode, epoch = producer.access_mode, self._epochs.get(partition, -1)
        if producer.topic_epoch is not None and producer.topic_epoch < epoch:
            raise NotAlone
        if mode is AccessMode.EXCLUSIVE_WITH_FENCING:
            for other in list(here.values()):
                other.fence()
            here.clear()
        elif mode is AccessMode.EXCLUSIVE and here:
            raise NotAlone
        elif mode is AccessMode.WAIT_FOR_EXCLUSIVE and here:
            self._waiting.setdefault(partition, deque()).append((producer, when_alone))
            return False
        elif any(other.access_mode is not AccessMode.SHARED for other in here.values()):
            raise HeldByAnother
        here[producer.name] = producer
        self._give_epoch(partition, producer)
        return True

    def _give_epoch(self, partition: Partition, producer: NamedProducer) -> None:
        """Note that a producer has the partition for itself: from now on, or again."""
        if producer.access_mode is not AccessMode.SHARED:
            last = self._epochs.get(partition, self._first_epoch)
            producer.topic_epoch = max(last, producer.topic_epoch or last + 1)
            self._epochs[partition] = producer.topic_epoch

    def send_away(self, partition: Partition) -> None:
        """Have the clients of all its producers look the partition up again."""
        waiting = [producer for producer, _ in self._waiting.get(partition, ())]
        for producer in [*waiting, *self._by_partition.get(partition, {}).values()]:
            producer.fence()

    def leave(self, partition: Partition, producer: NamedProducer) -> None:
        """Forget a producer; the one that has waited longest for the partition may have it."""
        waiting = self._waiting.get(partition)
        if waiting is not None:
            left = deque(row for row in waiting if row[0] is not producer)
            self._waiting[partition] = left
        here = self._by_partition.get(partition, {})
        if here.get(producer.name) is producer:
            del here[producer.name]
        if here:
            return
        self._by_partition.pop(partition, None)
        waiting = self._waiting.get(partition)
        if waiting:
            next_one, when_alone = waiting.popleft()
            self._by_partition[partition] = {next_one.name: next_one}
            self._give_epoch(partition, next_one)
            when_alone()
        if not waiting:
            self._waiting.pop(partition, None)
