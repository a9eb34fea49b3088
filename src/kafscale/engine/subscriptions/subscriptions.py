"""The facade of this sub-room: what a door may do with subscriptions.

Next door: a consumer's verbs (attached.py), what doors implement (ports.py).
"""

from kafscale.engine.subscriptions.attached import Attached
from kafscale.engine.subscriptions.ports import (
    Description,
    Framing,
    Receiver,
    SubscriptionName,
    Wish,
)
from kafscale.engine.topics.topic import Topic


class Subscriptions:
    """The subscriptions of the partitions that this broker owns."""

    async def attach(
        self, name: SubscriptionName, wish: Wish, framing: Framing, receiver: Receiver
    ) -> Attached:
        """Attach a consumer, after creating the subscription if it is new.

        It gets nothing before its first `permit`. Raises NotTheOwner, ConsumerBusy,
        KeyRangeTaken, SubscriptionNotFound (if it may not be created).
        """
        raise NotImplementedError

    async def create(self, name: SubscriptionName, start: int, properties: dict[str, str]) -> None:
        """Create a durable subscription without a consumer. Raises SubscriptionExists."""
        raise NotImplementedError

    async def delete(self, name: SubscriptionName, *, force: bool = False) -> None:
        """Delete a subscription. Raises ConsumerBusy if it has consumers and not `force`."""
        raise NotImplementedError

    async def reset(self, name: SubscriptionName, offset: int) -> None:
        """Have it go on from an offset, EARLIEST or LATEST; its consumers are disconnected."""
        raise NotImplementedError

    async def reset_time(self, name: SubscriptionName, at_ms: int) -> None:
        """Have it go on from the first message of this time or later."""
        raise NotImplementedError

    async def skip(self, name: SubscriptionName, messages: int) -> None:
        """Acknowledge the next messages of the backlog."""
        raise NotImplementedError

    async def list(self, topic: Topic) -> list[tuple[str, int]]:
        """Group ids and partitions of all subscriptions of a topic, on any broker."""
        raise NotImplementedError

    async def describe(self, name: SubscriptionName) -> Description:
        """A subscription as it is now. Raises SubscriptionNotFound."""
        raise NotImplementedError
