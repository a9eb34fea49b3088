"""The consumers of a subscription, and whose turn it is.

Here: the roster, the round of shared consumers, the choice of the active one.
Next door: keys (key_ranges.py), what consumers are given (machine.py).
"""

from collections.abc import Iterator

from kafscale.subscriptions.events import ConsumerId, SubscriptionRules


class Consumer:
    """A consumer, what it may still be given, and what it has not acknowledged."""

    __slots__ = (
        "consumer_id",
        "epoch",
        "is_exact",
        "is_paused",
        "name",
        "permits",
        "priority",
        "unacked",
    )

    def __init__(self, consumer_id: ConsumerId, name: str, priority: int, epoch: int) -> None:
        self.consumer_id = consumer_id
        self.name = name
        self.priority = priority
        self.epoch = epoch
        self.permits = 0  # a whole entry can drive them below 0
        self.unacked = 0  # messages
        self.is_paused = False
        self.is_exact = False  # entries are cut so that it gets no more than its permits

    @property
    def wants(self) -> bool:
        """Whether it takes messages."""
        return self.permits > 0 and not self.is_paused


class Consumers:
    """All consumers, those of the best priority first, then in the order they came."""

    __slots__ = ("_by_id", "_order", "_turn")

    def __init__(self) -> None:
        self._by_id: dict[ConsumerId, Consumer] = {}
        self._order: list[Consumer] = []
        self._turn = 0

    def __len__(self) -> int:
        """Count them."""
        return len(self._order)

    def __iter__(self) -> Iterator[Consumer]:
        """Each of them."""
        return iter(self._order)

    def get(self, consumer_id: ConsumerId) -> Consumer | None:
        """A consumer that is attached."""
        return self._by_id.get(consumer_id)

    def add(self, consumer: Consumer) -> None:
        """Add one."""
        self._by_id[consumer.consumer_id] = consumer
        self._order.append(consumer)
        self._order.sort(key=lambda one: (one.priority, one.consumer_id))

    def remove(self, consumer: Consumer) -> None:
        """Remove one."""
        del self._by_id[consumer.consumer_id]
        self._order.remove(consumer)
        self._turn = 0

    def next_shared(self, rules: SubscriptionRules) -> Consumer | None:
        """The consumer whose turn it is among those of the best priority that take messages."""
        best: Consumer | None = None
        count = len(self._order)
        for step in range(count):
            consumer = self._order[(self._turn + step) % count]
            is_better = best is None or consumer.priority < best.priority
            if is_better and consumer.wants and consumer.unacked < rules.most_unacked:
                best = consumer
        if best is not None:
            self._turn = (self._order.index(best) + 1) % count
        return best

    def preferred(self, seat: int) -> Consumer | None:
        """The consumer that should be active: `seat` spreads partitions over the best ones."""
        if not self._order:
            return None
        best = [one for one in self._order if one.priority == self._order[0].priority]
        best.sort(key=lambda one: (one.name, one.consumer_id))
        return best[seat % len(best)]
