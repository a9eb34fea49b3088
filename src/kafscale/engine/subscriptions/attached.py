"""A consumer of a subscription: the verbs that a door has for it.

Here: one method per thing a consumer says. Those that are not coroutines take effect at once, in
the order of the calls; once the consumer is disconnected they do nothing.
Next door: the subscription itself (serving.py), what the engine tells the door (ports.py).
"""

from collections.abc import Sequence
from typing import Protocol

from kafscale.engine.subscriptions.serving import Serving
from kafscale.model.errors import ConsumerBusy, InvalidRecordState, NotTheOwner
from kafscale.subscriptions.events import (
    Ack,
    Acknowledge,
    AcknowledgeUpTo,
    Ask,
    ChangeRules,
    ConsumerId,
    Detach,
    Fate,
    OffsetSpan,
    Pause,
    Permit,
    Redeliver,
    Settle,
    SubscriptionEvent,
    SubscriptionRules,
)


class ServingChanges(Protocol):
    """What concerns a subscription as a whole."""

    async def seek(self, serving: Serving, offset: int) -> None:
        """Go on from an offset."""

    async def seek_time(self, serving: Serving, at_ms: int) -> None:
        """Go on from a time."""

    async def remove(self, serving: Serving) -> None:
        """Delete it."""

    async def settle(self, serving: Serving) -> None:
        """Save what has changed."""


class Attached:
    """A consumer that is attached until it closes or is disconnected."""

    __slots__ = ("_changes", "_consumer", "_serving")

    def __init__(self, serving: Serving, consumer: ConsumerId, changes: ServingChanges) -> None:
        self._serving = serving
        self._consumer = consumer
        self._changes = changes

    @property
    def is_attached(self) -> bool:
        """Whether the consumer is still there."""
        return self._serving.has(self._consumer)

    @property
    def acknowledged_to(self) -> int:
        """Everything before this offset is acknowledged."""
        return self._serving.machine.acknowledged_to

    def permit(self, messages: int) -> None:
        """Take so many more messages."""
        self._say(Permit(self._consumer, messages))

    def ask(self, messages: int, *, is_exact: bool = False) -> None:
        """Take so many messages and no others, whatever was asked for before; see `Ask`."""
        self._say(Ask(self._consumer, messages, is_exact))

    def change_rules(self, rules: SubscriptionRules) -> None:
        """Have other bounds, for all consumers."""
        if rules != self._serving.machine.rules:
            self._say(ChangeRules(rules))

    def pause(self, is_paused: bool) -> None:
        """Send nothing while the connection is full; permits stay."""
        self._say(Pause(self._consumer, is_paused))

    def redeliver(self, offsets: Sequence[int] | None = None, epoch: int = 0) -> None:
        """Hand entries back, named by their offsets; None: all."""
        self._say(Redeliver(self._consumer, offsets, epoch))

    def _say(self, event: SubscriptionEvent) -> None:
        if self.is_attached:
            self._serving.handle(event)

    async def acknowledge(self, acks: Sequence[Ack]) -> None:
        """Acknowledge entries or single messages.

        It waits only for entries that were delivered long ago, or by another broker.
        """
        await self._acknowledge(Acknowledge(self._consumer, acks))

    async def acknowledge_up_to(self, ack: Ack) -> None:
        """Acknowledge an entry, or a part of it, and everything before it.

        Raises InvalidRequest in modes that are not ordered.
        """
        await self._acknowledge(AcknowledgeUpTo(self._consumer, ack))

    async def _acknowledge(self, event: SubscriptionEvent) -> None:
        if self.is_attached:
            for look_up in self._serving.handle(event):
                await self._serving.look_up(look_up)

    def give_back(self, first: int, after: int) -> None:
        """Have messages that were delivered just now delivered again, as if they never were."""
        self._say(Settle(self._consumer, [((first, after), Fate.UNTOUCHED)]))

    async def settle(self, fates: Sequence[tuple[OffsetSpan, Fate]]) -> None:
        """Decide about messages; returns when what is done is saved: it never comes again.

        Raises InvalidRecordState if the consumer does not have one of them, and then decides
        nothing. After any other error it is not known whether it is saved.
        """
        if not self.is_attached:
            raise InvalidRecordState("the consumer has nothing any more")
        self._serving.handle(Settle(self._consumer, fates))
        if any(fate is Fate.DONE for _, fate in fates):
            await self._changes.settle(self._serving)
            if self._serving.is_over:
                raise NotTheOwner("another broker has the partition")
            if not self.is_attached:
                raise InvalidRecordState("a tool has reset the subscription meanwhile")

    async def seek(self, offset: int) -> None:
        """Go on from an offset, EARLIEST or LATEST. All consumers are disconnected first."""
        await self._changes.seek(self._serving, offset)

    async def seek_time(self, at_ms: int) -> None:
        """Go on from the first message of this time or later."""
        await self._changes.seek_time(self._serving, at_ms)

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription. Raises ConsumerBusy if there are others and not `force`."""
        if self._serving.machine.consumer_count > 1 and not force:
            raise ConsumerBusy("the subscription has other consumers")
        self.detach()
        await self._changes.remove(self._serving)

    def detach(self) -> None:
        """Go, now; what is not acknowledged comes again."""
        if self.is_attached:
            self._serving.handle(Detach(self._consumer))
            self._serving.drop_receiver(self._consumer)

    async def close(self) -> None:
        """Go, and save what was acknowledged."""
        if self.is_attached:
            self.detach()
            await self._changes.settle(self._serving)
