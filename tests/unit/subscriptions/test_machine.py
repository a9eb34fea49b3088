"""The rules of a subscription one by one: modes, permits, keys, delays, bounds."""

import sys
from array import array

import pytest

from kafscale.model.errors import ConsumerBusy, InvalidRequest, KeyRangeTaken
from kafscale.subscriptions.events import (
    Ack,
    Acknowledge,
    AcknowledgeSpans,
    AcknowledgeUpTo,
    LogStart,
    Mode,
    Permit,
    Redeliver,
    Refuse,
    SubscriptionRules,
    TimePassed,
)
from kafscale.subscriptions.key_ranges import HASHES, KeyRanges
from kafscale.subscriptions.spans import OffsetSet, clear_bits
from tests.unit.subscriptions.subscription_harness import Subscribed


def acknowledge(it: Subscribed, consumer: int, *offsets: int) -> None:
    for offset in offsets:
        it.got[consumer].held.pop(offset, None)
    it.say(Acknowledge(consumer, [Ack(offset) for offset in offsets]))


def test_shared_goes_round_and_prefers_the_better_priority() -> None:
    it = Subscribed(Mode.SHARED, SubscriptionRules(most_at_once=1))
    it.attach(1, 2, priority=0)
    it.attach(2, 2, priority=0)
    it.attach(3, 10, priority=1)
    it.write(6)
    assert it.got[1].seen == [0, 2]
    assert it.got[2].seen == [1, 3]
    assert it.got[3].seen == [4, 5]


def test_an_entry_may_drive_permits_below_zero_and_is_given_whole() -> None:
    it = Subscribed(Mode.EXCLUSIVE)
    it.attach(1, 2)
    it.write(5, is_split=False)
    it.write(1)
    assert it.got[1].seen == [0, 1, 2, 3, 4]
    it.say(Permit(1, 3))
    assert it.got[1].seen[-1] == 4
    it.say(Permit(1, 1))
    assert it.got[1].seen[-1] == 5


def test_permits_that_overflow_are_cut() -> None:
    it = Subscribed(Mode.EXCLUSIVE)
    it.attach(1)
    for _ in range(3):
        it.say(Permit(1, 2**32 - 1))
    it.say(Permit(1, -5))
    assert it.machine.census().consumers[0].permits == it.rules.most_permits


def test_the_active_consumer_is_chosen_by_priority_then_name_then_seat() -> None:
    it = Subscribed(Mode.FAILOVER, seat=1)
    it.attach(1, 100, name="b")
    assert it.got[1].is_active is True
    it.attach(2, 100, name="a")  # sorted a, b: seat 1 is b
    assert (it.got[1].is_active, it.got[2].is_active) == (True, False)
    it.write(2)
    assert it.got[1].seen == [0, 1]
    it.attach(3, 100, name="z", priority=1)
    assert it.got[3].is_active is False
    it.detach(1)
    assert it.got[2].is_active is True
    assert it.got[2].seen == [0, 1], "what was not acknowledged goes to the next at once"


def test_a_consumer_that_replaces_a_living_one_waits_for_its_last_acknowledgements() -> None:
    it = Subscribed(Mode.FAILOVER)
    it.attach(1, 100, name="b")
    it.write(3)
    it.attach(2, 100, name="a")
    assert (it.got[1].is_active, it.got[2].is_active) == (False, True)
    assert it.got[2].seen == []
    it.say(AcknowledgeSpans([(0, 2)]))
    it.now_ms += it.rules.failover_delay_ms
    it.say(TimePassed())
    assert it.got[2].seen == [2]


def test_ordered_modes_hand_back_everything_and_echo_the_epoch() -> None:
    it = Subscribed(Mode.EXCLUSIVE)
    it.attach(1, 100, epoch=1)
    it.write(3)
    acknowledge(it, 1, 1)
    it.got[1].held.clear()
    it.say(Redeliver(1, [2], epoch=7))
    assert it.got[1].seen == [0, 1, 2, 0, 2]
    assert it.got[1].epoch == 7
    assert set(it.got[1].held.values()) == {0}


def test_counts_rise_when_messages_are_handed_back_and_stay_when_their_consumer_goes() -> None:
    it = Subscribed(Mode.SHARED)
    it.attach(1, 100)
    it.write(2)
    it.attach(2, 100)
    it.redeliver(1, [1])
    holder = next(one for one, got in it.got.items() if 1 in got.held)
    assert it.got[holder].held[1] == 1
    it.detach(1)
    assert it.got[2].held == {0: 0, 1: 1}


def test_cumulative_acknowledgement_is_refused_where_messages_are_shared() -> None:
    it = Subscribed(Mode.SHARED)
    it.attach(1, 10)
    (effect,) = it.say(AcknowledgeUpTo(1, Ack(0)))
    assert isinstance(effect, Refuse)
    assert isinstance(effect.problem, InvalidRequest)


def test_a_part_of_an_entry_is_acknowledged_by_its_bits() -> None:
    it = Subscribed(Mode.EXCLUSIVE)
    it.attach(1, 100)
    it.write(4, is_split=False)
    it.say(Acknowledge(1, [Ack(0, [0b1101]), Ack(0, [0b0101])]))
    assert list(it.machine.unacknowledged(0, 4)) == [(0, 1), (2, 3)]
    it.say(AcknowledgeUpTo(1, Ack(0, [0b0100])))
    assert list(it.machine.unacknowledged(0, 4)) == [(2, 3)]


def test_entries_that_were_never_given_have_to_be_looked_up() -> None:
    it = Subscribed(Mode.EXCLUSIVE)
    it.attach(1)
    it.write(4, is_split=False)
    it.say(Acknowledge(1, [Ack(0), Ack(2**62)]))
    it.say(AcknowledgeUpTo(1, Ack(0)))
    assert [look.is_cumulative for look in it.look_ups] == [False, True]
    assert it.machine.acknowledged_to == 0


def test_ack_sets_of_millions_of_bits_cost_what_the_entry_costs() -> None:
    it = Subscribed(Mode.EXCLUSIVE)
    it.attach(1, 100)
    it.write(3, is_split=False)
    it.say(Acknowledge(1, [Ack(0, array("q", [0]) * 1_000_000)]))
    assert it.machine.acknowledged_to == 3
    assert list(clear_bits(10, 140, [-1, 2**63])) == [(74, 137), (138, 140)]


def test_a_million_holes_stop_new_deliveries_and_stay_bounded() -> None:
    it = Subscribed(Mode.EXCLUSIVE, SubscriptionRules(most_spans=1000))
    it.attach(1, 1_000_000)
    for _ in range(100):
        it.write(100)
    assert len(it.got[1].seen) == 10_000
    acknowledge(it, 1, *range(1, 10_000, 2))
    places = it.machine._places
    assert len(places.acknowledged.beyond) == 2000
    assert places.dropped_acks == 3000
    assert it.machine.next_read(it.now_ms) is None
    spans = places.acknowledged.beyond
    assert sys.getsizeof(spans._firsts) + sys.getsizeof(spans._nexts) < 64_000
    assert len(it.machine.snapshot().spans) == 2000
    acknowledge(it, 1, *range(0, 4000, 2))  # the holes close, and delivery goes on
    assert it.machine.acknowledged_to == 4000
    assert it.machine.next_read(it.now_ms) == 10_000


def test_unacknowledged_messages_stop_delivery_at_the_limit() -> None:
    it = Subscribed(Mode.SHARED, SubscriptionRules(most_unacked=3, most_unacked_in_all=5))
    it.attach(1, 100)
    it.attach(2, 100)
    it.write(10)
    assert (len(it.got[1].held), len(it.got[2].held)) in {(3, 2), (3, 3), (2, 3)}
    assert any(one.is_blocked for one in it.machine.census().consumers)
    acknowledge(it, 1, *it.got[1].held)
    assert len(it.got[1].seen) > 3


def test_delayed_messages_come_at_their_time_where_messages_are_shared() -> None:
    for mode, first in ((Mode.SHARED, [1]), (Mode.EXCLUSIVE, [0, 1])):
        it = Subscribed(mode)
        it.attach(1, 100)
        it.write(1, deliver_at_ms=it.now_ms + 5000)
        it.write(1)
        assert it.got[1].seen == first
        it.now_ms += 5000
        it.say(TimePassed())
        assert sorted(it.got[1].seen) == [0, 1]


def test_keys_stay_with_their_consumer_until_it_has_acknowledged_them() -> None:
    it = Subscribed(Mode.KEY_SHARED)
    it.attach(1, 100)
    it.write(2, hashes=[100, 60_000])
    it.attach(2, 100)  # gets the upper half of the hashes
    it.write(2, hashes=[100, 60_000])
    assert it.got[1].seen == [0, 1, 2]
    assert it.got[2].seen == []
    acknowledge(it, 1, 1)
    assert it.got[2].seen == [3]


def test_consumers_that_wish_for_hashes_get_them_or_are_refused() -> None:
    it = Subscribed(Mode.KEY_SHARED)
    assert it.attach(1, 100, key_ranges=[(0, 100), (200, 300)]) is None
    for wished in ([(50, 60)], [(150, 250)], [(5, 5)], [(0, HASHES + 1)], [(300, 310), (305, 320)]):
        refused = it.attach(2, 100, key_ranges=wished)
        assert refused is not None
        assert isinstance(refused.problem, KeyRangeTaken)
    refused = it.attach(2, 100)
    assert refused is not None
    assert isinstance(refused.problem, ConsumerBusy)
    assert it.attach(3, 100, key_ranges=[(100, 200)]) is None
    it.write(3, hashes=[99, 150, 40_000])
    assert it.got[1].seen == [0]
    assert it.got[3].seen == [1]  # the third waits for a consumer that wishes for its hash
    assert it.attach(4, 100, key_ranges=[(300, HASHES)]) is None
    assert it.got[4].seen == [2]


def test_hashes_are_divided_evenly_and_few_move() -> None:
    ranges = KeyRanges()
    for consumer in range(8):
        before = [ranges.owner_of(key) for key in range(HASHES)]
        ranges.add(consumer, ())
        after = [ranges.owner_of(key) for key in range(HASHES)]
        moved = {now for was, now in zip(before, after, strict=True) if was != now}
        assert moved == {consumer}
    assert {after.count(consumer) for consumer in range(8)} == {HASHES // 8}
    ranges.remove(3)
    assert ranges.owner_of(0) == 0
    assert 3 not in {ranges.owner_of(key) for key in range(HASHES)}
    for consumer in (0, 1, 2, 4, 5, 6, 7):
        ranges.remove(consumer)
    assert ranges.is_empty


def test_what_the_log_has_lost_counts_as_acknowledged() -> None:
    it = Subscribed(Mode.SHARED)
    it.attach(1, 2)
    it.write(5)
    it.say(LogStart(4))
    assert it.machine.acknowledged_to == 4
    it.say(Permit(1, 10))
    assert it.got[1].seen == [0, 1, 4]


@pytest.mark.parametrize("mode", [Mode.SHARED, Mode.KEY_SHARED])
def test_what_waits_and_is_lost_is_not_read_again(mode: Mode) -> None:
    it = Subscribed(mode)
    it.attach(1, 6)
    it.write(6, is_split=False, hashes=[1])
    it.redeliver(1)  # the consumer has no permits: all six wait
    it.start = 4
    it.say(Permit(1, 10))
    assert it.got[1].seen == [0, 1, 2, 3, 4, 5, 4, 5]
    assert it.got[1].held == {4: 1, 5: 1}


def test_offsets_without_a_message_do_not_hold_up_the_subscription() -> None:
    it = Subscribed(Mode.SHARED)
    it.attach(1, 100)
    it.write(2, empty_after=3)
    it.write(1)
    acknowledge(it, 1, 0, 1)
    assert it.machine.acknowledged_to == 5
    acknowledge(it, 1, 5)
    assert it.machine.acknowledged_to == 6


def test_a_set_of_offsets_joins_what_touches() -> None:
    offsets = OffsetSet()
    assert offsets.add(10, 20) == 10
    assert offsets.add(30, 40) == 10
    assert offsets.add(20, 30) == 10
    assert list(offsets) == [(10, 40)]
    assert offsets.add(5, 50) == 15
    assert offsets.add(7, 9) == 0
    assert offsets.covered == 45
    assert list(offsets.gaps(0, 60)) == [(0, 5), (50, 60)]
    assert offsets.take_through(4) == 4
    assert offsets.take_through(5) == 50
    assert offsets.covered == 0


def test_holes_are_delivered_to_a_new_consumer_however_many_there_are() -> None:
    it = Subscribed(Mode.SHARED, SubscriptionRules(most_spans=3))
    it.attach(1, 100)
    it.write(8)
    it.write(2)
    acknowledge(it, 1, 1, 3, 5, 7)
    it.detach(1)
    it.attach(2, 100)
    assert it.got[2].seen == [0, 2, 4, 6]  # the next would be new, and there are too many holes
    acknowledge(it, 2, 0, 2)
    assert it.got[2].seen == [0, 2, 4, 6, 8, 9]
