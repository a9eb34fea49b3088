"""Where each message of a subscription is: acknowledged, with a consumer, waiting, or not read yet.

Here: moving messages between these places. An offset before `read_to` is in exactly one of them:
acknowledged, in flight, waiting, delayed.
Next door: who gets what (dispatch.py), what consumers say (machine.py).
"""

from bisect import insort
from collections.abc import Iterable, Iterator

from kafscale.subscriptions.consumers import Consumer, Consumers
from kafscale.subscriptions.events import (
    ConsumerId,
    MessageDelivery,
    MessageRun,
    OffsetSpan,
    ReturnedSpan,
)
from kafscale.subscriptions.runs import NO_KEY, ByOffset, Delayed, InFlight, Waiting
from kafscale.subscriptions.spans import Acknowledged


class MessagePlaces:
    """The places of messages."""

    __slots__ = (
        "_holders",
        "_lines",
        "acknowledged",
        "consumers",
        "delayed",
        "dropped_acks",
        "in_flight",
        "most_deliveries",
        "most_spans",
        "read_to",
        "unacked",
        "waiting",
    )

    def __init__(self, start: int, most_spans: int, most_deliveries: int = 0) -> None:
        self.acknowledged = Acknowledged(start)
        self.most_deliveries = most_deliveries  # what then comes back is done; 0: no bound
        self.most_spans = most_spans  # an acknowledgement that would need more is not kept
        self.read_to = start  # what lies from here on was not read yet
        self.in_flight: ByOffset[InFlight] = ByOffset()
        self.waiting: ByOffset[Waiting] = ByOffset()
        self.delayed = Delayed()
        self.consumers = Consumers()
        self.unacked = 0  # messages in flight, in all
        self.dropped_acks = 0
        self._holders: dict[int, tuple[ConsumerId, int]] = {}  # by hash: who has runs, how many
        self._lines: dict[int, list[int]] = {}  # by hash: first offsets of what waits

    # -- to a consumer, and back -------------------------------------------------------------

    def give(
        self,
        run: MessageRun,
        first: int,
        after: int,
        consumer: Consumer,
        redeliveries: int,
        key: int,
        until_ms: float,
    ) -> MessageDelivery:
        """These messages are with a consumer now."""
        count = after - first
        given = InFlight(
            first,
            after,
            first if run.is_split else run.first,
            is_split=run.is_split,
            consumer=consumer.consumer_id,
            redeliveries=redeliveries,
            left=count,
            key_hash=key,
            until_ms=until_ms,
        )
        self._hold(given)
        consumer.permits -= count
        consumer.unacked += count
        self.unacked += count
        return MessageDelivery(first, after, run.is_split, redeliveries, run.source)

    def _hold(self, given: InFlight) -> None:
        self.in_flight.add(given)
        if given.hash != NO_KEY:
            _, count = self._holders.get(given.hash, (given.consumer, 0))
            self._holders[given.hash] = (given.consumer, count + 1)

    def _let_go(self, given: InFlight) -> None:
        self.in_flight.remove(given)
        if given.hash != NO_KEY:
            holder, count = self._holders[given.hash]
            if count == 1:
                del self._holders[given.hash]
            else:
                self._holders[given.hash] = (holder, count - 1)

    def holder_of(self, key: int) -> ConsumerId | None:
        """The consumer that has messages of this hash and has not acknowledged them."""
        held = self._holders.get(key)
        return None if held is None else held[0]

    def hand_back(self, given: InFlight, first: int, after: int, redeliveries: int) -> None:
        """These messages of a run wait again; the rest of the run stays where it is.

        They are done if they have come back too often.
        """
        if 0 < self.most_deliveries <= redeliveries:
            self.acknowledge(first, after)
            return
        self._let_go(given)
        self._settle(given.consumer, given.left)
        for part_first, part_after in self.acknowledged.gaps(first, after):
            self.wait(Waiting(part_first, part_after, redeliveries, given.hash))
        if self.consumers.get(given.consumer) is not None:
            for rest in ((given.first, first), (after, given.next)):
                self._hold_part(given, *rest, given.until_ms)

    def renew(self, given: InFlight, first: int, after: int, until_ms: float) -> None:
        """These messages of a run stay with their consumer for longer."""
        self._let_go(given)
        self._settle(given.consumer, given.left)
        self._hold_part(given, given.first, first, given.until_ms)
        self._hold_part(given, first, after, until_ms)
        self._hold_part(given, after, given.next, given.until_ms)

    def _hold_part(self, given: InFlight, first: int, after: int, until_ms: float) -> None:
        """A part of a run is in flight, if any of its messages is not acknowledged."""
        left = after - first - self.acknowledged.count_in(first, after)
        if left > 0:
            part = InFlight(
                first,
                after,
                first,
                is_split=given.is_split,
                consumer=given.consumer,
                redeliveries=given.redeliveries,
                left=left,
                key_hash=given.hash,
                until_ms=until_ms,
            )
            self._hold(part)
            self._settle(given.consumer, -left)

    def is_with(self, consumer: ConsumerId, first: int, after: int) -> bool:
        """Whether a consumer has all of these messages, and none of them is acknowledged."""
        if first >= after or self.acknowledged.count_in(first, after):
            return False
        at = first
        for given in self.in_flight.within(first, after):
            if given.first > at or given.consumer != consumer:
                return False
            at = given.next
        return at >= after

    def _settle(self, consumer_id: ConsumerId, messages: int) -> None:
        """So many messages are not with a consumer any more."""
        self.unacked -= messages
        if (consumer := self.consumers.get(consumer_id)) is not None:
            consumer.unacked -= messages

    # -- acknowledged ------------------------------------------------------------------------

    def acknowledge(self, first: int, after: int) -> bool:
        """These messages are done; False if that was known, or could not be kept."""
        acknowledged = self.acknowledged
        if len(acknowledged.beyond) >= self.most_spans and acknowledged.needs_room(first, after):
            self.dropped_acks += 1
            return False
        for given in self.in_flight.within(first, after):
            part_first, part_after = max(first, given.first), min(after, given.next)
            done = part_after - part_first - acknowledged.count_in(part_first, part_after)
            given.left -= done
            self._settle(given.consumer, done)
            if not given.left:
                self._let_go(given)
        return acknowledged.add(first, after) > 0

    # -- waiting -----------------------------------------------------------------------------

    def wait(self, run: Waiting) -> None:
        """Keep messages that were read, until they can be delivered."""
        self.waiting.add(run)
        if run.hash != NO_KEY:
            insort(self._lines.setdefault(run.hash, []), run.first)

    def unwait(self, run: Waiting) -> None:
        """They wait no longer."""
        self.waiting.remove(run)
        if run.hash != NO_KEY:
            line = self._lines[run.hash]
            line.remove(run.first)
            if not line:
                del self._lines[run.hash]

    def first_in_line(self, key: int) -> int | None:
        """The first offset of this hash that waits."""
        line = self._lines.get(key)
        return line[0] if line else None

    def lines(self) -> list[tuple[int, int]]:
        """Of each hash that waits, the first offset and the hash, the lowest offset first."""
        return sorted((line[0], key) for key, line in self._lines.items())

    # -- all over again ----------------------------------------------------------------------

    def rewind(self) -> None:
        """Read again from the first message that is not acknowledged."""
        self.in_flight.clear()
        self.waiting.clear()
        self.delayed.clear()
        self._holders.clear()
        self._lines.clear()
        self.unacked = 0
        for consumer in self.consumers:
            consumer.unacked = 0
        self.read_to = self.acknowledged.to

    def restart(
        self,
        to: int,
        spans: Iterable[OffsetSpan] = (),
        returned: Iterable[ReturnedSpan] = (),
    ) -> None:
        """Begin anew with this acknowledged, and nothing else.

        `returned` were delivered before: they wait, and so does what lies between them.
        """
        self.acknowledged = Acknowledged(to)
        for first, after in spans:
            self.acknowledged.add(first, after)
        self.rewind()
        for first, after, redeliveries in returned:
            for part in self.acknowledged.gaps(self.read_to, first):
                self.wait(Waiting(*part, 0, NO_KEY))
            for part in self.acknowledged.gaps(first, after):
                self.wait(Waiting(*part, redeliveries, NO_KEY))
            self.read_to = max(self.read_to, after)

    def returned(self) -> Iterator[ReturnedSpan]:
        """What was delivered and is not acknowledged, with how often, by offset."""
        for first, after, redeliveries in sorted(
            [(run.first, run.next, run.redeliveries) for run in (*self.waiting, *self.in_flight)]
        ):
            if redeliveries:
                for part in self.acknowledged.gaps(first, after):
                    yield (*part, redeliveries)

    def forget_lowest(self, most: int) -> None:
        """Keep at most so many runs in flight: in an ordered mode it is known where they are.

        An acknowledgement of one that was forgotten has to be looked up.
        """
        while len(self.in_flight) > most:
            given = self.in_flight.lowest()
            self._settle(given.consumer, given.left)
            self._let_go(given)
