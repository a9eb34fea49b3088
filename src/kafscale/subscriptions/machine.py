"""One subscription of one partition: its consumers, and what each message's fate is.

Here: the state machine. Events come in with the time. Effects go out in the order in which the
shell must carry them out. The shell also asks `next_read` after each event, reads there, and says
what it Found.
Next door: where messages are (places.py), which consumer gets them (dispatch.py), events and
effects (events.py), the shell (engine/subscriptions/serving.py).
Never here: the bytes of messages, or how an entry looks to a client.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Final

from kafscale.model.errors import (
    ConsumerBusy,
    InvalidRecordState,
    InvalidRequest,
    KafscaleError,
)
from kafscale.subscriptions.consumers import Consumer
from kafscale.subscriptions.dispatch import Dispatch
from kafscale.subscriptions.events import (
    DEFAULT_RULES,
    Ack,
    Acknowledge,
    AcknowledgeSpans,
    AcknowledgeUpTo,
    Activity,
    Ask,
    Attach,
    Census,
    ChangeRules,
    ConsumerCensus,
    Deliver,
    Detach,
    Disconnect,
    End,
    Fate,
    Found,
    LogStart,
    LookUp,
    Mode,
    OffsetSpan,
    Pause,
    Permit,
    Redeliver,
    Refuse,
    Save,
    Seek,
    Settle,
    SubscriptionEffect,
    SubscriptionEvent,
    SubscriptionRules,
    TimePassed,
    WakeUpAt,
)
from kafscale.subscriptions.key_ranges import KeyRanges
from kafscale.subscriptions.places import MessagePlaces
from kafscale.subscriptions.runs import InFlight, Waiting
from kafscale.subscriptions.snapshot import CursorSnapshot
from kafscale.subscriptions.spans import clear_bits

_SHORTEST_LOCK_MS: Final = 100


class SubscriptionMachine:
    """The machine. `handle` is the only way in."""

    __slots__ = (
        "_dispatch",
        "_effects",
        "_locks_end_ms",
        "_pauses_until_ms",
        "_places",
        "_rules",
        "_seat",
    )

    def __init__(
        self,
        saved: CursorSnapshot,
        mode: Mode = Mode.EXCLUSIVE,
        *,
        seat: int = 0,
        rules: SubscriptionRules = DEFAULT_RULES,
    ) -> None:
        """`seat`: a number of the partition, for spreading active consumers over partitions."""
        self._rules = rules
        self._seat = seat
        self._effects: list[SubscriptionEffect] = []
        start = saved.acknowledged_to
        self._places = MessagePlaces(start, 2 * rules.most_spans, rules.most_deliveries)
        self._places.restart(start, saved.spans, saved.returned)
        self._dispatch = Dispatch(self._places, rules, mode)
        self._pauses_until_ms = 0  # a change of the active consumer is under way
        self._locks_end_ms = 0  # no lock ends before; 0: nothing is locked

    @property
    def mode(self) -> Mode:
        """How consumers share; the first consumer says it."""
        return self._dispatch.mode

    @property
    def rules(self) -> SubscriptionRules:
        """The bounds that hold now."""
        return self._rules

    @property
    def consumer_count(self) -> int:
        """How many consumers are attached."""
        return len(self._places.consumers)

    @property
    def acknowledged_to(self) -> int:
        """Everything before this offset is acknowledged."""
        return self._places.acknowledged.to

    @property
    def acknowledged_beyond(self) -> int:
        """How many messages after that offset are acknowledged."""
        return self._places.acknowledged.beyond.covered

    def next_read(self, now_ms: int) -> int | None:
        """The offset to read at next; None if no consumer takes anything now."""
        return None if now_ms < self._pauses_until_ms else self._dispatch.next_read()

    def snapshot(self) -> CursorSnapshot:
        """What is to be saved: of the spans only the lowest, the others come again."""
        acknowledged = self._places.acknowledged
        most = self._rules.most_saved_spans
        lowest = list(islice(acknowledged.beyond, most))
        if not self._rules.most_deliveries:
            return CursorSnapshot(acknowledged.to, lowest)
        return CursorSnapshot(acknowledged.to, lowest, list(islice(self._places.returned(), most)))

    def unacknowledged(self, first: int, after: int) -> Iterator[OffsetSpan]:
        """Which of these offsets are not acknowledged."""
        return self._places.acknowledged.gaps(first, after)

    def census(self) -> Census:
        """The subscription as tools show it."""
        places, dispatch = self._places, self._dispatch
        is_single = dispatch.mode.is_ordered
        return Census(
            dispatch.mode,
            places.acknowledged.to,
            places.acknowledged.beyond.covered,
            len(places.acknowledged.beyond),
            places.read_to,
            places.unacked,
            len(places.waiting) + len(places.delayed),
            len(places.delayed),
            tuple(
                ConsumerCensus(
                    one.consumer_id,
                    one.name,
                    one.priority,
                    one.permits,
                    one.unacked,
                    one is dispatch.active or not is_single,
                    not is_single and one.unacked >= self._rules.most_unacked,
                )
                for one in places.consumers
            ),
        )

    def handle(self, event: SubscriptionEvent, now_ms: int) -> list[SubscriptionEffect]:
        """Handle one event; gives the effects, in the order in which to carry them out."""
        self._effects = []
        self._handlers[type(event)](self, event, now_ms)
        effects, self._effects = self._effects, []
        return effects

    # -- consumers ---------------------------------------------------------------------------

    def _attach(self, event: Attach, now_ms: int) -> None:
        try:
            self._require_place(event)
            if event.mode is Mode.KEY_SHARED:
                self._dispatch.keys.add(event.consumer, event.key_ranges)
        except KafscaleError as problem:
            self._effects.append(Refuse(problem))
            return
        consumer = Consumer(event.consumer, event.name, event.priority, event.epoch)
        self._places.consumers.add(consumer)
        self._elect(consumer, now_ms)

    def _require_place(self, event: Attach) -> None:
        consumers = self._places.consumers
        if not len(consumers):
            self._dispatch.mode = event.mode
            self._dispatch.keys = KeyRanges()
        if event.mode is not self.mode:
            raise ConsumerBusy(f"the subscription is {self.mode.value} now")
        if self.mode is Mode.EXCLUSIVE and len(consumers):
            raise ConsumerBusy("an exclusive subscription has a consumer")
        if len(consumers) >= self._rules.most_consumers:
            raise ConsumerBusy(f"the subscription has {len(consumers)} consumers")

    def _detach(self, event: Detach, now_ms: int) -> None:
        consumer = self._places.consumers.get(event.consumer)
        if consumer is None:
            return
        places = self._places
        if self.mode.is_ordered:
            if consumer is self._dispatch.active:
                places.rewind()
        else:
            for given in [one for one in places.in_flight if one.consumer == event.consumer]:
                places.hand_back(given, given.first, given.next, given.redeliveries)
        places.consumers.remove(consumer)
        if self.mode is Mode.KEY_SHARED:
            self._dispatch.keys.remove(event.consumer)
        if not len(places.consumers) and not self._rules.most_deliveries:
            places.rewind()  # nothing is remembered of deliveries while there is no consumer
        self._elect(None, now_ms)

    def _elect(self, newcomer: Consumer | None, now_ms: int) -> None:
        """Choose the active consumer of an ordered mode, and tell who was and who is."""
        dispatch, consumers = self._dispatch, self._places.consumers
        if not self.mode.is_ordered:
            dispatch.active = None
            return
        before, active = dispatch.active, consumers.preferred(self._seat)
        dispatch.active = active
        if active is not before:
            is_there = before is not None and consumers.get(before.consumer_id) is before
            self._places.rewind()
            self._pauses_until_ms = 0
            if is_there:
                self._pauses_until_ms = now_ms + self._rules.failover_delay_ms
        if self.mode is Mode.FAILOVER:
            told = {newcomer} if active is before else {newcomer, active, before}
            for consumer in consumers:
                if consumer in told:
                    self._effects.append(Activity(consumer.consumer_id, consumer is active))
        self._wake()

    def _permit(self, event: Permit, now_ms: int) -> None:
        consumer = self._places.consumers.get(event.consumer)
        if consumer is not None:
            permits = consumer.permits + max(0, event.messages)
            consumer.permits = min(permits, self._rules.most_permits)

    def _ask(self, event: Ask, now_ms: int) -> None:
        consumer = self._places.consumers.get(event.consumer)
        if consumer is not None:
            consumer.permits = min(max(0, event.messages), self._rules.most_permits)
            consumer.is_exact = event.is_exact

    def _pause(self, event: Pause, now_ms: int) -> None:
        consumer = self._places.consumers.get(event.consumer)
        if consumer is not None:
            consumer.is_paused = event.is_paused

    # -- acknowledging -----------------------------------------------------------------------

    def _acknowledge(self, event: Acknowledge, now_ms: int) -> None:
        unknown: list[Ack] = []
        spans: list[OffsetSpan] = []
        for ack in sorted(event.acks, key=_first):
            found = self._spans_of(ack)
            if found is None:
                unknown.append(ack)
                continue
            for span in found:
                if spans and spans[-1][1] == span[0]:  # clients name single messages, in rows
                    spans[-1] = (spans[-1][0], span[1])
                else:
                    spans.append(span)
        self._add(spans)
        if unknown:
            self._effects.append(LookUp(unknown))

    def _spans_of(self, ack: Ack) -> list[OffsetSpan] | None:
        """The messages that an acknowledgement is for; None if their entry is not in flight."""
        given = self._places.in_flight.at(ack.first)
        if given is None:
            # A part of the entry may have been acknowledged, and another part be in flight.
            later = self._parts_of(ack.first)
            if not later:
                is_done = not any(self.unacknowledged(ack.first, ack.first + 1))
                return [] if is_done else None
            after = later[-1].next
        elif given.is_split:
            return [(ack.first, ack.first + 1)]
        else:
            after = given.next
        if not ack.unacknowledged:
            return [(ack.first, after)]
        return list(clear_bits(ack.first, after, ack.unacknowledged))

    def _parts_of(self, entry: int) -> list[InFlight]:
        """What is in flight of the entry that begins at this offset in the log."""
        parts: list[InFlight] = []
        part = self._places.in_flight.following(entry)
        while part is not None and part.entry == entry:
            parts.append(part)
            part = self._places.in_flight.following(part.next)
        return parts

    def _acknowledge_up_to(self, event: AcknowledgeUpTo, now_ms: int) -> None:
        if not self.mode.is_ordered:
            why = InvalidRequest("messages of a shared subscription are acknowledged one by one")
            self._effects.append(Refuse(why))
            return
        if event.ack.first < self.acknowledged_to:
            return
        spans = self._spans_of(event.ack)
        if spans is None:
            self._effects.append(LookUp([event.ack], is_cumulative=True))
        else:
            self._add([(self.acknowledged_to, event.ack.first), *spans])

    def _acknowledge_spans(self, event: AcknowledgeSpans, now_ms: int) -> None:
        self._add(event.spans)

    def _add(self, spans: Iterable[OffsetSpan]) -> None:
        has_changed = False
        for first, after in spans:
            has_changed |= self._places.acknowledge(first, after)
        if self._places.read_to < self.acknowledged_to:
            self._places.read_to = self.acknowledged_to
        if has_changed:
            self._effects.append(Save())

    # -- deciding about single messages ------------------------------------------------------

    def _settle(self, event: Settle, now_ms: int) -> None:
        problem = self._objection(event)
        if problem is not None:
            self._effects.append(Refuse(problem))
            return
        places, has_changed = self._places, False
        for (first, after), fate in event.fates:
            if fate is Fate.DONE:
                has_changed |= places.acknowledge(first, after)
                continue
            for given in places.in_flight.within(first, after):
                part = max(first, given.first), min(after, given.next)
                if fate is Fate.RENEWED:
                    places.renew(given, *part, now_ms + self._rules.lock_ms)
                else:
                    is_counted = fate is Fate.RELEASED
                    places.hand_back(given, *part, given.redeliveries + is_counted)
                    has_changed |= is_counted
        if has_changed:
            self._effects.append(Save())

    def _objection(self, event: Settle) -> KafscaleError | None:
        """Why nothing of it can be done."""
        at = done = 0
        for (first, after), fate in event.fates:
            if first < at or not self._places.is_with(event.consumer, first, after):
                return InvalidRecordState(f"the consumer does not have {first} to {after - 1}")
            at = after
            done += fate is Fate.DONE
        if len(self._places.acknowledged.beyond) + done > self._places.most_spans:
            return InvalidRecordState("too many messages are acknowledged one by one")
        return None

    # -- again -------------------------------------------------------------------------------

    def _redeliver(self, event: Redeliver, now_ms: int) -> None:
        places = self._places
        consumer = places.consumers.get(event.consumer)
        if consumer is None:
            return
        consumer.epoch = max(consumer.epoch, event.epoch)
        if self.mode.is_ordered:
            if consumer is self._dispatch.active:
                places.rewind()
            return
        if event.offsets is None:
            mine = [one for one in places.in_flight if one.consumer == event.consumer]
            for given in mine:
                places.hand_back(given, given.first, given.next, given.redeliveries + 1)
            return
        for offset in sorted(set(event.offsets)):
            one = places.in_flight.at(offset)
            named = [one] if one is not None else self._parts_of(offset)
            for given in named:
                if given.consumer == event.consumer:
                    span = (given.first, given.next)
                    if given.is_split:
                        span = (offset, offset + 1)
                    places.hand_back(given, *span, given.redeliveries + 1)

    # -- the log -----------------------------------------------------------------------------

    def _found(self, event: Found, now_ms: int) -> None:
        places = self._places
        if event.next <= event.at:
            return
        place = event.at
        empty: list[OffsetSpan] = []
        for run in event.runs:
            if run.first > place:
                empty.append((place, run.first))
            place = max(place, run.next)
        if place < event.next:
            empty.append((place, event.next))
        if self.next_read(now_ms) is not None:
            given = self._dispatch.place(event, now_ms)
            if given and self._rules.lock_ms and not self._locks_end_ms:
                self._locks_end_ms = now_ms + self._rules.lock_ms
            for consumer_id, deliveries in given.items():
                consumer = places.consumers.get(consumer_id)
                assert consumer is not None
                self._effects.append(Deliver(consumer_id, consumer.epoch, deliveries))
        self._add(empty)
        for waiting in places.waiting.within(event.at, event.next):
            if not any(self.unacknowledged(waiting.first, waiting.next)):
                places.unwait(waiting)
        if self.mode.is_ordered:
            places.forget_lowest(self._rules.most_waiting)
        self._wake()

    def _seek(self, event: Seek, now_ms: int) -> None:
        self._disconnect_all(None)
        self._places.restart(event.offset)
        self._effects.append(Save(at_once=True))

    def _log_start(self, event: LogStart, now_ms: int) -> None:
        if event.offset > self.acknowledged_to:
            self._add([(self.acknowledged_to, event.offset)])
        for waiting in self._places.waiting.within(0, event.offset):
            self._places.unwait(waiting)
            for part in self.unacknowledged(waiting.first, waiting.next):
                self._places.wait(Waiting(*part, waiting.redeliveries, waiting.hash))

    def _change_rules(self, event: ChangeRules, now_ms: int) -> None:
        self._rules = self._dispatch.rules = event.rules
        self._places.most_deliveries = event.rules.most_deliveries

    def _end(self, event: End, now_ms: int) -> None:
        self._disconnect_all(event.problem)
        self._places.rewind()

    def _disconnect_all(self, problem: KafscaleError | None) -> None:
        consumers = self._places.consumers
        for consumer in list(consumers):
            consumers.remove(consumer)
            self._dispatch.keys.remove(consumer.consumer_id)
            self._effects.append(Disconnect(consumer.consumer_id, problem))
        self._dispatch.active = None

    # -- time --------------------------------------------------------------------------------

    def _tick(self, event: TimePassed, now_ms: int) -> None:
        for waiting in self._places.delayed.take_due(now_ms):
            for part in self.unacknowledged(waiting.first, waiting.next):
                self._places.wait(Waiting(*part, 0, waiting.hash))
        if now_ms >= self._pauses_until_ms:
            self._pauses_until_ms = 0
        if self._locks_end_ms and now_ms >= self._locks_end_ms:
            self._end_locks(now_ms)
        self._wake()

    def _end_locks(self, now_ms: int) -> None:
        """Messages come back whose consumer has had them for too long."""
        places = self._places
        over = [given for given in places.in_flight if given.until_ms <= now_ms]
        for given in over:
            places.hand_back(given, given.first, given.next, given.redeliveries + 1)
        if over:
            self._effects.append(Save())
        next_ms = min((given.until_ms for given in places.in_flight), default=0)
        self._locks_end_ms = int(max(next_ms, now_ms + _SHORTEST_LOCK_MS)) if next_ms else 0

    def _wake(self) -> None:
        times = [self._pauses_until_ms] if self._pauses_until_ms else []
        if self._locks_end_ms:
            times.append(self._locks_end_ms)
        if (due_ms := self._places.delayed.due_ms()) is not None:
            times.append(due_ms)
        if times:
            self._effects.append(WakeUpAt(min(times)))

    _handlers: ClassVar[Mapping[type[Any], Callable[[Any, Any, int], None]]] = {
        Attach: _attach,
        Detach: _detach,
        Permit: _permit,
        Ask: _ask,
        Pause: _pause,
        Acknowledge: _acknowledge,
        AcknowledgeUpTo: _acknowledge_up_to,
        AcknowledgeSpans: _acknowledge_spans,
        Settle: _settle,
        Redeliver: _redeliver,
        Found: _found,
        Seek: _seek,
        LogStart: _log_start,
        End: _end,
        ChangeRules: _change_rules,
        TimePassed: _tick,
    }


def _first(ack: Ack) -> int:
    return ack.first
