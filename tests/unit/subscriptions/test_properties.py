"""Whatever consumers do: what is acknowledged never comes again, all else does, in order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kafscale.subscriptions.events import (
    Ack,
    Acknowledge,
    AcknowledgeSpans,
    AcknowledgeUpTo,
    LogStart,
    LookUp,
    Mode,
    Pause,
    Permit,
    Seek,
    SubscriptionRules,
    TimePassed,
)
from kafscale.subscriptions.machine import SubscriptionMachine
from kafscale.subscriptions.snapshot import CursorSnapshot, decode_spans, encode_spans
from tests.unit.subscriptions.subscription_harness import Subscribed

SMALL = SubscriptionRules(
    most_unacked=8,
    most_unacked_in_all=14,
    most_permits=12,
    most_consumers=4,
    most_spans=4,
    most_saved_spans=3,
    most_waiting=6,
    most_at_once=2,
    failover_delay_ms=1000,
)


class Checked(Subscribed):
    """Looks at every delivery."""

    def __init__(self, mode: Mode) -> None:
        super().__init__(mode, SMALL)
        self.acknowledged: set[int] = set()
        self.was_delayed: set[int] = set()

    def delivered(self, consumer: int, offset: int) -> None:
        assert offset not in self.acknowledged, "what was acknowledged comes again"
        assert self.has(offset)
        holders = [one for one, got in self.got.items() if offset in got.held]
        assert not holders, "a message is with two consumers, or twice with one"
        if self.mode is Mode.KEY_SHARED and offset not in self.was_delayed:
            key = self.key_of(offset)
            for earlier in range(offset):
                if self.has(earlier) and self.key_of(earlier) == key:
                    is_fine = (
                        earlier in self.acknowledged
                        or earlier in self.got[consumer].held
                        or earlier in self.was_delayed
                        or self.is_done(earlier)
                    )
                    assert is_fine, "a later message of a key overtakes an earlier one"


class Consumers(RuleBasedStateMachine):
    """Consumers come, take, acknowledge, hand back and go, in any order."""

    @initialize(mode=st.sampled_from(Mode))
    def begin(self, mode: Mode) -> None:
        self.it = Checked(mode)
        self.next_id = 1

    @rule(
        count=st.integers(1, 6),
        is_split=st.booleans(),
        keys=st.lists(st.integers(0, 65_535), min_size=1, max_size=3),
        delay=st.sampled_from([0, 0, 0, 5_000]),
        empty=st.sampled_from([0, 0, 2]),
    )
    def produce(self, count: int, is_split: bool, keys: list[int], delay: int, empty: int) -> None:
        hashes = [keys[at % len(keys)] for at in range(count if is_split else 1)]
        if delay:
            self.it.was_delayed |= set(range(self.it.end, self.it.end + count))
        at_ms = self.it.now_ms + delay if delay else 0
        self.it.write(
            count, is_split=is_split, hashes=hashes, deliver_at_ms=at_ms, empty_after=empty
        )

    @rule(permits=st.integers(0, 10), priority=st.integers(0, 1))
    def attach(self, permits: int, priority: int) -> None:
        is_full = len(self.it.got) >= (1 if self.it.mode is Mode.EXCLUSIVE else 4)
        refused = self.it.attach(self.next_id, permits, priority=priority)
        assert (refused is not None) == is_full
        self.next_id += 1

    def _one(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.it.got)))

    @precondition(lambda self: self.it.got)
    @rule(data=st.data(), messages=st.integers(1, 10))
    def permit(self, data: st.DataObject, messages: int) -> None:
        self.it.say(Permit(self._one(data), messages))

    @precondition(lambda self: self.it.got)
    @rule(data=st.data(), is_paused=st.booleans())
    def pause(self, data: st.DataObject, is_paused: bool) -> None:
        self.it.say(Pause(self._one(data), is_paused))

    @precondition(lambda self: self.it.got)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        self.it.detach(self._one(data))

    @precondition(lambda self: any(got.held for got in self.it.got.values()))
    @rule(data=st.data(), words=st.lists(st.integers(0, 63), max_size=1))
    def acknowledge(self, data: st.DataObject, words: list[int]) -> None:
        consumer = data.draw(st.sampled_from([c for c, got in self.it.got.items() if got.held]))
        got = self.it.got[consumer]
        first = data.draw(st.sampled_from(sorted(set(got.entries) & set(got.held)) or [0]))
        if first not in got.held:
            return
        self._done(Acknowledge(consumer, [Ack(first, words)]))

    @precondition(lambda self: self.it.mode.is_ordered and self.it.got)
    @rule(data=st.data())
    def acknowledge_up_to(self, data: st.DataObject) -> None:
        for consumer, got in self.it.got.items():
            if firsts := sorted(set(got.entries) & set(got.held)):
                self._done(AcknowledgeUpTo(consumer, Ack(data.draw(st.sampled_from(firsts)))))
                return

    def _done(self, event: Acknowledge | AcknowledgeUpTo | LogStart) -> None:
        before = self.it.machine._places.dropped_acks
        # What the event acknowledges must count before the machine delivers anything more.
        effects = self.it.machine.handle(event, self.it.now_ms)
        for effect in effects:
            if isinstance(effect, LookUp):  # as the shell does: a run in flight was forgotten
                spans = self.it.spans_of(effect)
                self.it.machine.handle(AcknowledgeSpans(spans), self.it.now_ms)
        is_kept = self.it.machine._places.dropped_acks == before
        done = {offset for offset in range(self.it.end) if self.it.is_done(offset)}
        if is_kept and isinstance(event, AcknowledgeUpTo):
            assert set(range(event.ack.first + 1)) <= done
        self.it.acknowledged |= {offset for offset in done if self.it.has(offset)}
        for got in self.it.got.values():
            for offset in done & set(got.held):
                del got.held[offset]
        self.it._carry_out(effects)
        self.it.pump()

    @precondition(lambda self: self.it.got)
    @rule(data=st.data(), all_of_it=st.booleans())
    def redeliver(self, data: st.DataObject, all_of_it: bool) -> None:
        consumer = self._one(data)
        held = sorted(self.it.got[consumer].held)
        if all_of_it or not held:
            self.it.redeliver(consumer)
        else:
            firsts = sorted(set(self.it.got[consumer].entries) & set(held))
            if firsts:
                self.it.redeliver(consumer, [data.draw(st.sampled_from(firsts))])

    @rule(by_ms=st.sampled_from([1, 1_000, 6_000]))
    def wait(self, by_ms: int) -> None:
        self.it.now_ms += by_ms
        self.it.say(TimePassed())

    @rule(share=st.floats(0, 1))
    def seek(self, share: float) -> None:
        offset = max(self.it.start, int(self.it.end * share))
        self.it.acknowledged = {one for one in range(offset) if self.it.has(one)}
        self.it.say(Seek(offset))
        assert not self.it.got

    @rule(share=st.floats(0, 0.5))
    def delete_records(self, share: float) -> None:
        self.it.start = max(self.it.start, int(self.it.end * share))
        self._done(LogStart(self.it.start))

    @rule()
    def crash(self) -> None:
        saved = self.it.machine.snapshot()
        spans = decode_spans(saved[0], encode_spans(saved.acknowledged_to, saved.spans))
        assert spans == list(saved.spans)
        self.it.machine = SubscriptionMachine(CursorSnapshot(saved[0], spans), rules=SMALL)
        self.it.got.clear()
        self.it.acknowledged = {
            offset
            for offset in range(self.it.end)
            if self.it.has(offset) and self.it.is_done(offset)
        }

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        places = self.it.machine._places
        if self.it.mode.is_ordered:
            return
        counts: dict[int, int] = {}
        for run in [*places.in_flight, *places.waiting]:
            for offset in range(run.first, run.next):
                counts[offset] = counts.get(offset, 0) + 1
        for _, first, after, _ in places.delayed._heap:
            for offset in range(first, after):
                counts[offset] = counts.get(offset, 0) + 1
        for offset in range(places.acknowledged.to, places.read_to):
            if not self.it.is_done(offset):
                assert counts.get(offset) == 1, offset

    @invariant()
    def memory_is_bounded(self) -> None:
        places = self.it.machine._places
        assert len(places.acknowledged.beyond) <= 2 * SMALL.most_spans + 1
        if self.it.mode.is_ordered:
            assert len(places.in_flight) <= SMALL.most_waiting
        else:
            most = SMALL.most_unacked_in_all + 6  # an entry is given whole
            assert places.unacked <= most
            assert len(places.waiting) + len(places.delayed) <= SMALL.most_waiting + most
        unacked = {one.consumer_id: one.unacked for one in places.consumers}
        assert sum(unacked.values()) == places.unacked
        if not self.it.mode.is_ordered:
            held = {consumer: len(got.held) for consumer, got in self.it.got.items()}
            assert unacked == held

    def teardown(self) -> None:
        """A last consumer, which acknowledges everything, gets all that was not acknowledged."""
        if not hasattr(self, "it"):
            return
        it = self.it
        for consumer in list(it.got):
            it.detach(consumer)
        it.now_ms += 100_000
        it.say(TimePassed())
        missing = {one for one in range(it.end) if it.has(one)} - it.acknowledged
        assert it.attach(self.next_id) is None
        got = it.got[self.next_id]
        for _ in range(2 * it.end + 10):
            it.say(Permit(self.next_id, 10))
            it.say(TimePassed())
            if got.held:
                firsts = sorted(set(got.entries) & set(got.held))
                self._done(Acknowledge(self.next_id, [Ack(first) for first in firsts]))
        assert set(got.seen) == missing
        assert it.machine.acknowledged_to == it.end


TestConsumers = Consumers.TestCase
TestConsumers.settings = settings(stateful_step_count=40)
