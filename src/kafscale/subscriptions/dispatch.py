"""Which consumer gets which of the messages that the log has.

Here: one strategy per mode. Each is given a run of the log and places as much of it as consumers
take now.
Next door: where messages are (places.py), whose turn it is (consumers.py), keys (key_ranges.py).
"""

import math

from kafscale.subscriptions.consumers import Consumer
from kafscale.subscriptions.events import (
    ConsumerId,
    Found,
    MessageDelivery,
    MessageRun,
    Mode,
    SubscriptionRules,
)
from kafscale.subscriptions.key_ranges import KeyRanges
from kafscale.subscriptions.places import MessagePlaces
from kafscale.subscriptions.runs import NO_KEY, Waiting


class Dispatch:
    """Places messages. `active` is the one consumer of an ordered mode."""

    __slots__ = ("_given", "_places", "_until_ms", "active", "keys", "mode", "rules")

    def __init__(self, places: MessagePlaces, rules: SubscriptionRules, mode: Mode) -> None:
        self._places = places
        self.rules = rules
        self._given: dict[ConsumerId, list[MessageDelivery]] = {}
        self._until_ms = math.inf  # when the locks end of what is placed now
        self.mode = mode
        self.keys = KeyRanges()
        self.active: Consumer | None = None

    # -- what to read ------------------------------------------------------------------------

    def next_read(self) -> int | None:
        """The offset to read at; None if no consumer takes anything now."""
        places = self._places
        if self.mode.is_ordered:
            is_wanted = self.active is not None and self.active.wants and self._may_read_on()
            return places.read_to if is_wanted else None
        if not any(self._takes(consumer) for consumer in places.consumers):
            return None
        if self.mode is Mode.SHARED and len(places.waiting):
            return places.waiting.lowest().first
        if self.mode is Mode.KEY_SHARED:
            for first, key in places.lines():
                if self._consumer_of(key, first) is not None:
                    return first
        return places.read_to if self._may_read_on() else None

    def _takes(self, consumer: Consumer) -> bool:
        rules = self.rules
        is_below = (
            consumer.unacked < rules.most_unacked
            and self._places.unacked < rules.most_unacked_in_all
        )
        return consumer.wants and is_below

    def _may_read_on(self) -> bool:
        """Whether there is room to remember what becomes of messages that were not read yet.

        Messages between acknowledged ones are always read: they make spans fewer, never more.
        """
        places, rules, spans = self._places, self.rules, self._places.acknowledged.beyond
        has_room = len(places.waiting) + len(places.delayed) < rules.most_waiting
        return has_room and (len(spans) < rules.most_spans or places.read_to < spans.end)

    # -- what was found ----------------------------------------------------------------------

    def place(self, found: Found, now_ms: int) -> dict[ConsumerId, list[MessageDelivery]]:
        """Place what was found; gives the deliveries of each consumer, by offset."""
        self._given = {}
        self._until_ms = now_ms + self.rules.lock_ms if self.rules.lock_ms else math.inf
        places = self._places
        has_new = found.at <= places.read_to
        for run in found.runs:
            if not self.mode.is_ordered and len(places.waiting):
                self._place_waiting(run)
            if has_new and run.next > places.read_to:
                has_new = self._place_new(run, now_ms)
        if has_new:
            places.read_to = max(places.read_to, found.next)
        return self._given

    def _place_waiting(self, run: MessageRun) -> None:
        places = self._places
        for waiting in places.waiting.within(run.first, run.next):
            first, after = max(waiting.first, run.first), min(waiting.next, run.next)
            reached = self._place_parts(run, first, after, waiting)
            if reached == first:
                continue
            places.unwait(waiting)
            for rest in ((waiting.first, first), (reached, waiting.next)):
                for part in places.acknowledged.gaps(*rest):
                    places.wait(Waiting(*part, waiting.redeliveries, waiting.hash))

    def _place_new(self, run: MessageRun, now_ms: int) -> bool:
        """Place what was not read before; False if something of it must be read again."""
        places = self._places
        if not self._may_read_on():
            return False
        first = max(run.first, places.read_to)
        if not self.mode.is_ordered and run.deliver_at_ms > now_ms:
            for part_first, part_after in places.acknowledged.gaps(first, run.next):
                at = part_first
                while at < part_after:
                    end = self._key_end(run, at, part_after)
                    held = Waiting(at, end, 0, self._key_at(run, at))
                    places.delayed.add(run.deliver_at_ms, held)
                    at = end
            places.read_to = run.next
            return True
        places.read_to = self._place_parts(run, first, run.next, None)
        return places.read_to == run.next

    def _place_parts(self, run: MessageRun, first: int, after: int, waiting: Waiting | None) -> int:
        """Place what is not acknowledged of these offsets; gives where it had to stop."""
        for part_first, part_after in self._places.acknowledged.gaps(first, after):
            if self.mode is Mode.KEY_SHARED:
                reached = self._place_by_key(run, part_first, part_after, waiting)
            else:
                redeliveries = 0 if waiting is None else waiting.redeliveries
                reached = self._place_in_turn(run, part_first, part_after, redeliveries)
            if reached < part_after:
                return reached
        return after

    # -- one consumer, or each in turn -------------------------------------------------------

    def _place_in_turn(self, run: MessageRun, first: int, after: int, redeliveries: int) -> int:
        while first < after:
            consumer = self._next_consumer()
            if consumer is None:
                return first
            is_cut = run.is_split or consumer.is_exact
            end = min(after, first + self._room(consumer)) if is_cut else after
            self._give(run, first, end, consumer, redeliveries, NO_KEY)
            first = end
        return after

    def _next_consumer(self) -> Consumer | None:
        if self.mode.is_ordered:
            return self.active if self.active is not None and self.active.wants else None
        if self._places.unacked >= self.rules.most_unacked_in_all:
            return None
        return self._places.consumers.next_shared(self.rules)

    def _room(self, consumer: Consumer) -> int:
        """How many single messages a consumer can be given in its turn."""
        room = consumer.permits
        if self.mode.is_ordered:
            return room
        room = min(room, self.rules.most_unacked - consumer.unacked)
        return min(room, self.rules.most_at_once) if len(self._places.consumers) > 1 else room

    # -- by key ------------------------------------------------------------------------------

    def _consumer_of(self, key: int, first: int | None) -> Consumer | None:
        """The consumer that can be given a message of this hash now.

        None if an earlier message of the hash waits, or is with another consumer: the order of a
        key's messages is kept while hashes change hands. `first`: None for a message that is new.
        """
        places = self._places
        owner = self.keys.owner_of(key)
        consumer = None if owner is None else places.consumers.get(owner)
        if consumer is None or not self._takes(consumer):
            return None
        if places.holder_of(key) not in (None, owner):
            return None
        return consumer if places.first_in_line(key) == first else None

    def _place_by_key(
        self, run: MessageRun, first: int, after: int, waiting: Waiting | None
    ) -> int:
        while first < after:
            key = self._key_at(run, first)
            consumer = self._consumer_of(key, None if waiting is None else waiting.first)
            end = after
            if run.is_split:
                most = after if consumer is None else min(after, first + self._room(consumer))
                end = self._key_end(run, first, most)
            if consumer is not None:
                redeliveries = 0 if waiting is None else waiting.redeliveries
                self._give(run, first, end, consumer, redeliveries, key)
            elif waiting is None and self._may_read_on():
                self._places.wait(Waiting(first, end, 0, key))
            else:
                return first
            first = end
        return after

    def _key_end(self, run: MessageRun, first: int, most: int) -> int:
        """Where the messages end that have the key of the first one."""
        if self.mode is not Mode.KEY_SHARED or not run.is_split:
            return most
        end, key = first + 1, self._key_at(run, first)
        while end < most and self._key_at(run, end) == key:
            end += 1
        return end

    def _key_at(self, run: MessageRun, offset: int) -> int:
        if self.mode is not Mode.KEY_SHARED:
            return NO_KEY
        if not run.hashes:
            return 0
        return run.hashes[offset - run.first if run.is_split else 0]

    def _give(
        self,
        run: MessageRun,
        first: int,
        after: int,
        consumer: Consumer,
        redeliveries: int,
        key: int,
    ) -> None:
        until_ms = self._until_ms
        delivery = self._places.give(run, first, after, consumer, redeliveries, key, until_ms)
        given = self._given.setdefault(consumer.consumer_id, [])
        last = given[-1] if given else None
        if (
            last is not None
            and run.is_split
            and last.source is run.source
            and last.next == first
            and last.redeliveries == redeliveries
            and last.is_split
        ):
            given[-1] = last._replace(next=after)
        else:
            given.append(delivery)
