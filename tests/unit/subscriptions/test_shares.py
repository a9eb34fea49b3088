"""Locks and counted deliveries: what share groups ask of a subscription."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kafscale.model.errors import InvalidRecordState
from kafscale.subscriptions.events import (
    Ask,
    Attach,
    ChangeRules,
    Deliver,
    Detach,
    Fate,
    Found,
    LogStart,
    MessageRun,
    Mode,
    Refuse,
    Save,
    Settle,
    SubscriptionEffect,
    SubscriptionEvent,
    SubscriptionRules,
    TimePassed,
    WakeUpAt,
)
from kafscale.subscriptions.machine import SubscriptionMachine
from kafscale.subscriptions.snapshot import (
    CursorSnapshot,
    decode_returned,
    decode_spans,
    encode_returned,
    encode_spans,
)

LOCK_MS = 1_000
MOST_DELIVERIES = 3
RULES = SubscriptionRules(
    most_unacked=100,
    most_unacked_in_all=100,
    most_spans=50,
    most_saved_spans=200,
    most_at_once=100,
    lock_ms=LOCK_MS,
    most_deliveries=MOST_DELIVERIES,
)


class Shared:
    """A partition of a share group, and a log of batches with three records each."""

    def __init__(self, end: int = 0) -> None:
        self.end = end
        self.now_ms = 1_000
        self.machine = SubscriptionMachine(CursorSnapshot(0), Mode.SHARED, rules=RULES)
        self.held: dict[int, dict[int, int]] = {}  # by member: offsets, and which delivery it is
        self.counts: dict[int, int] = {}  # by offset: deliveries that count
        self.done: set[int] = set()

    def say(self, event: SubscriptionEvent) -> list[SubscriptionEffect]:
        effects = self.machine.handle(event, self.now_ms)
        self._take(effects)
        for _ in range(1_000):
            at = self.machine.next_read(self.now_ms)
            if at is None or at >= self.end:
                return effects
            first = at - at % 3
            runs = [MessageRun(first, first + 3, source=memoryview(b""))]
            more = self.machine.handle(Found(at, first + 3, runs), self.now_ms)
            self._take(more)
            effects += more
        raise AssertionError("the machine reads without end")

    def _take(self, effects: list[SubscriptionEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                for part in effect.deliveries:
                    for offset in range(part.first, part.next):
                        assert offset not in self.done, "what is done comes again"
                        assert not any(offset in held for held in self.held.values())
                        assert part.redeliveries < MOST_DELIVERIES, "it comes too often"
                        self.held[effect.consumer][offset] = part.redeliveries + 1

    def join(self, member: int) -> None:
        self.held[member] = {}
        self.say(Attach(consumer=member, name=str(member), mode=Mode.SHARED))

    def leave(self, member: int) -> None:
        del self.held[member]
        self.say(Detach(member))

    def settle(self, member: int, first: int, after: int, fate: Fate) -> InvalidRecordState | None:
        mine = self.held[member]
        is_held = all(offset in mine for offset in range(first, after))
        before = {offset: mine.get(offset, 0) for offset in range(first, after)}
        if is_held and fate is not Fate.RENEWED:
            for offset in range(first, after):
                del mine[offset]
                if fate is Fate.DONE or (
                    fate is Fate.RELEASED and before[offset] >= MOST_DELIVERIES
                ):
                    self.done.add(offset)
        effects = self.say(Settle(member, [((first, after), fate)]))
        refusals = [effect.problem for effect in effects if isinstance(effect, Refuse)]
        assert bool(refusals) != is_held
        problem = refusals[0] if refusals else None
        assert problem is None or isinstance(problem, InvalidRecordState)
        return problem

    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.say(TimePassed())

    def lock_out(self) -> None:
        """All locks end: what has come too often is done, the rest waits for others."""
        for held in self.held.values():
            for offset, count in held.items():
                if count >= MOST_DELIVERIES:
                    self.done.add(offset)
            held.clear()
        self.pass_time(LOCK_MS + 200)

    def restart(self) -> None:
        """The broker dies after a save, and another one goes on."""
        saved = self.machine.snapshot()
        to = saved.acknowledged_to
        spans = decode_spans(to, encode_spans(to, saved.spans))
        returned = decode_returned(to, encode_returned(to, saved.returned))
        assert (spans, returned) == (list(saved.spans), list(saved.returned))
        self.machine = SubscriptionMachine(
            CursorSnapshot(to, spans, returned), Mode.SHARED, rules=RULES
        )
        members = list(self.held)
        self.held.clear()
        for member in members:
            self.join(member)


def shared(end: int, *members: int) -> Shared:
    it = Shared(end)
    for member in members:
        it.join(member)
    return it


def test_a_batch_goes_to_one_member_as_a_whole() -> None:
    it = shared(6, 1, 2)
    it.say(Ask(1, 1))
    it.say(Ask(2, 1))
    assert sorted(it.held[1]) == [0, 1, 2]
    assert sorted(it.held[2]) == [3, 4, 5]


def test_a_member_that_wants_no_more_than_it_asks_for_gets_a_part_of_a_batch() -> None:
    it = shared(3, 1, 2)
    it.say(Ask(1, 2, is_exact=True))
    it.say(Ask(2, 5))
    assert (sorted(it.held[1]), sorted(it.held[2])) == ([0, 1], [2])


def test_asking_again_replaces_what_was_asked_for() -> None:
    it = shared(0, 1)
    it.say(Ask(1, 5))
    it.say(Ask(1, 0))
    it.end = 3
    assert it.machine.next_read(it.now_ms) is None


def test_a_member_decides_only_about_records_that_it_has() -> None:
    it = shared(6, 1, 2)
    it.say(Ask(1, 1))
    assert it.settle(2, 0, 1, Fate.DONE) is not None
    assert it.settle(1, 0, 4, Fate.DONE) is not None, "it has 0 to 2"
    assert it.settle(1, 0, 2, Fate.DONE) is None
    assert it.settle(1, 0, 2, Fate.DONE) is not None, "these are done"
    assert it.machine.acknowledged_to == 2


def test_nothing_is_decided_if_one_part_is_refused() -> None:
    it = shared(3, 1)
    it.say(Ask(1, 3))
    effects = it.say(Settle(1, [((0, 2), Fate.DONE), ((1, 3), Fate.DONE)]))
    assert any(isinstance(effect, Refuse) for effect in effects)
    assert it.machine.acknowledged_to == 0


def test_a_lock_ends_and_the_record_goes_to_another_member() -> None:
    it = shared(3, 1, 2)
    it.say(Ask(1, 3))
    it.say(Ask(2, 3))
    it.lock_out()
    assert it.held[2] == {0: 2, 1: 2, 2: 2}


def test_a_renewed_lock_lasts_longer_than_others_of_its_batch() -> None:
    it = shared(3, 1, 2)
    it.say(Ask(1, 3))
    it.pass_time(LOCK_MS // 2)
    it.settle(1, 1, 2, Fate.RENEWED)
    del it.held[1][0], it.held[1][2]
    it.say(Ask(2, 3))
    it.pass_time(LOCK_MS // 2 + 150)
    assert sorted(it.held[2]) == [0, 2]
    assert it.settle(1, 1, 2, Fate.DONE) is None


def test_a_record_that_is_released_too_often_is_done() -> None:
    it = shared(3, 1)
    for count in range(1, MOST_DELIVERIES + 1):
        it.say(Ask(1, 3))
        assert it.held[1] == dict.fromkeys(range(3), count)
        it.settle(1, 0, 3, Fate.RELEASED)
    assert it.machine.acknowledged_to == 3


def test_what_a_member_never_saw_does_not_count_as_a_delivery() -> None:
    it = shared(3, 1)
    for _ in range(2 * MOST_DELIVERIES):
        it.say(Ask(1, 3))
        it.settle(1, 0, 3, Fate.UNTOUCHED)
    assert it.machine.acknowledged_to == 0


def test_counts_outlive_the_last_member_and_the_broker() -> None:
    it = shared(6, 1)
    it.say(Ask(1, 6))
    it.settle(1, 1, 2, Fate.RELEASED)
    it.say(Ask(1, 0))
    it.leave(1)
    it.restart()
    it.join(2)
    it.say(Ask(2, 6))
    assert it.held[2] == {0: 1, 1: 2, 2: 1, 3: 1, 4: 1, 5: 1}


def test_releasing_is_saved_so_that_its_count_is_not_lost() -> None:
    it = shared(3, 1)
    it.say(Ask(1, 3))
    assert any(isinstance(one, WakeUpAt) for one in it.say(TimePassed()))
    effects = it.say(Settle(1, [((0, 1), Fate.RELEASED)]))
    assert any(isinstance(one, Save) for one in effects)


def test_other_rules_hold_from_the_next_delivery_on() -> None:
    it = shared(3, 1)
    it.say(ChangeRules(SubscriptionRules(lock_ms=10 * LOCK_MS, most_deliveries=2)))
    it.say(Ask(1, 3))
    it.pass_time(5 * LOCK_MS)
    assert it.settle(1, 0, 3, Fate.DONE) is None


STEPS = st.tuples(
    st.sampled_from(["ask", "exact", "settle", "time", "leave", "crash", "append", "start"]),
    st.integers(1, 3),
    st.integers(0, 20),
    st.integers(1, 5),
    st.sampled_from(Fate),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_no_record_is_lost_none_done_comes_again_and_deliveries_are_bounded(
    steps: list[tuple[str, int, int, int, Fate]],
) -> None:
    it = shared(9, 1, 2, 3)
    for what, member, first, count, fate in steps:
        if what in ("ask", "exact"):
            it.say(Ask(member, count, is_exact=what == "exact"))
        elif what == "settle":
            it.settle(member, first, first + count, fate)
        elif what == "time":
            it.lock_out()
        elif what == "leave":
            it.leave(member)
            it.join(member)
        elif what == "crash":
            it.restart()
        elif what == "append":
            it.end += 3
        else:
            start = min(first - first % 3, it.end)
            for held in it.held.values():
                for offset in [one for one in held if one < start]:
                    del held[offset]
            it.done |= set(range(start))
            it.say(LogStart(start))
    for member in (2, 3):
        it.leave(member)
    it.lock_out()
    for _ in range(it.end):
        it.say(Ask(1, 100))
        for offset in list(it.held[1]):
            it.settle(1, offset, offset + 1, Fate.DONE)
    assert it.done == set(range(it.end))
    assert it.machine.acknowledged_to == it.end
