"""Batches of numbered producers that come again, or come after those they precede."""

import pytest

from kafscale.model.errors import NotWritten, OutOfOrderSequence, StoreUnavailable, UnknownProducer
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import Shop, values_of
from tests.unit.engine.upkeep.test_recovery import append_as
from tests.unit.gateways.kafka.caller import make_batch


def numbered(sequence: int) -> memoryview:
    raw = make_batch(b"x", producer_id=5, producer_epoch=0, base_sequence=sequence)
    return memoryview(bytearray(raw))


async def made_anew(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    await shop.engine.delete_topic("t")
    await shop.engine.create_topic("t", 1, {})


async def test_a_batch_that_comes_after_the_one_it_precedes_is_not_taken_for_a_repetition(
    shop: Shop,
) -> None:
    """The first was refused before the topic was there; told "duplicate", its producer goes on."""
    await made_anew(shop)
    assert await append_as(shop, 5, sequence=501) == 0
    with pytest.raises(OutOfOrderSequence):
        await append_as(shop, 5, sequence=500)
    assert await append_as(shop, 5, sequence=501) == 0, "what was stored is still known"
    assert len(values_of(await shop.read("t"))) == 1


async def test_what_follows_a_batch_that_a_sick_store_refused_waits_for_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made_anew(shop)
    await shop.append("t", b"opens the log")
    with monkeypatch.context() as sick:
        sick.setattr(shop.engine.health, "is_unavailable", lambda: True)
        with pytest.raises(NotWritten):
            await append_as(shop, 5, sequence=0)
    with pytest.raises(OutOfOrderSequence):
        await append_as(shop, 5, sequence=1)
    assert [await append_as(shop, 5, sequence=at) for at in (0, 1)] == [1, 2]


async def test_what_follows_a_batch_whose_log_could_not_be_opened_waits_for_it(shop: Shop) -> None:
    await made_anew(shop)
    topic = shop.engine.topics.get("t")
    shop.plan.add(Rule(Fault.FAIL_BEFORE, "find"))
    with pytest.raises(StoreUnavailable):
        await shop.engine.logs.open(topic, 0)
    with pytest.raises(NotWritten):
        shop.engine.appends.append(topic, 0, numbered(0), acknowledged=True)
    shop.plan.clear()
    with pytest.raises(OutOfOrderSequence):
        await append_as(shop, 5, sequence=1)
    assert [await append_as(shop, 5, sequence=at) for at in (0, 1)] == [0, 1]


async def log_start_told(shop: Shop, sequence: int) -> int:
    with pytest.raises(UnknownProducer) as told:
        await append_as(shop, 5, sequence=sequence)
    return told.value.log_start


async def test_a_producer_is_told_to_begin_anew_when_it_has_been_unknown_for_a_while(
    shop: Shop,
) -> None:
    """At once would be too early: its first batch may have been refused, and be on its way."""
    await shop.engine.create_topic("t", 1, {})
    assert await log_start_told(shop, 1) == -1
    shop.clock.advance_ms(1999)
    assert await log_start_told(shop, 1) == -1
    assert [await append_as(shop, 5, sequence=at) for at in (0, 1)] == [0, 1]
    _, lane = await shop.engine.logs.open(shop.engine.topics.get("t"), 0)
    lane.producers.expire(1 << 62)
    assert await log_start_told(shop, 2) == -1, "counted anew"
    shop.clock.advance_ms(2000)
    assert await log_start_told(shop, 2) == 0
