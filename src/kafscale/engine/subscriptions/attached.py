"""A consumer of a subscription: the verbs that a door has for it.

Here: one method per thing a consumer says. Those that are not coroutines take effect at once, in
the order of the calls; once the consumer is disconnected they do nothing.
Next door: the subscription itself (serving.py), what the engine tells the door (ports.py).
"""

from collections.abc import Sequence

from kafscale.subscriptions.events import Ack


class Attached:
    """A consumer that is attached until it closes or is disconnected."""

    def permit(self, messages: int) -> None:
        """Take so many more messages."""
        raise NotImplementedError

    def pause(self, is_paused: bool) -> None:
        """Send nothing while the connection is full; permits stay."""
        raise NotImplementedError

    async def acknowledge(self, acks: Sequence[Ack]) -> None:
        """Acknowledge entries or single messages. It waits only for entries of another time."""
        raise NotImplementedError

    async def acknowledge_up_to(self, ack: Ack) -> None:
        """Acknowledge an entry, or a part, and everything before it. Raises InvalidRequest."""
        raise NotImplementedError

    def redeliver(self, offsets: Sequence[int] | None = None, epoch: int = 0) -> None:
        """Hand entries back, named by their offsets; None: all."""
        raise NotImplementedError

    @property
    def acknowledged_to(self) -> int:
        """Everything before this offset is acknowledged."""
        raise NotImplementedError

    async def seek(self, offset: int) -> None:
        """Go on from an offset, EARLIEST or LATEST. All consumers are disconnected first."""
        raise NotImplementedError

    async def seek_time(self, at_ms: int) -> None:
        """Go on from the first message of this time or later."""
        raise NotImplementedError

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription. Raises ConsumerBusy if there are others and not `force`."""
        raise NotImplementedError

    async def close(self) -> None:
        """Detach; what is not acknowledged comes again. Saves what is."""
        raise NotImplementedError
