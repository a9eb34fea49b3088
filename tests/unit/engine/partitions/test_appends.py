"""Batches of numbered producers that come again, or come after those they precede."""

import pytest

from kafscale.model.errors import NotWritten, OutOfOrderSequence, StoreUnavailable, UnknownProducer
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.admin.bucket.test_recovery import append_as
from tests.unit.engine.engine_harness import EngineHarness, values_of
from tests.unit.gateways.kafka.caller import make_batch


def numbered(sequence: int) -> memoryview:
    raw = make_batch(b"x", producer_id=5, producer_epoch=0, base_sequence=sequence)
    return memoryview(bytearray(raw))


async def made_anew(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await harness.engine.topics.delete("t")
    await harness.engine.topics.create("t", 1, {})


async def test_a_batch_that_comes_after_the_one_it_precedes_is_not_taken_for_a_repetition(
    harness: EngineHarness,
) -> None:
    """The first was refused before the topic was there; told "duplicate", its producer goes on."""
    await made_anew(harness)
    assert await append_as(harness, 5, sequence=501) == 0
    with pytest.raises(OutOfOrderSequence):
        await append_as(harness, 5, sequence=500)
    assert await append_as(harness, 5, sequence=501) == 0, "what was stored is still known"
    assert len(values_of(await harness.read("t"))) == 1


async def test_what_follows_a_batch_that_a_sick_store_refused_waits_for_it(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made_anew(harness)
    await harness.append("t", b"opens the log")
    with monkeypatch.context() as sick:
        sick.setattr(harness.parts.store_gate, "is_unavailable", lambda: True)
        with pytest.raises(NotWritten):
            await append_as(harness, 5, sequence=0)
    with pytest.raises(OutOfOrderSequence):
        await append_as(harness, 5, sequence=1)
    assert [await append_as(harness, 5, sequence=at) for at in (0, 1)] == [1, 2]


async def test_what_follows_a_batch_whose_log_could_not_be_opened_waits_for_it(
    harness: EngineHarness,
) -> None:
    await made_anew(harness)
    topic = harness.engine.topics.get("t")
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "find"))
    with pytest.raises(StoreUnavailable):
        await harness.parts.logs.open(topic, 0)
    with pytest.raises(NotWritten):
        harness.engine.partitions.append(topic, 0, numbered(0), acknowledged=True)
    harness.plan.clear()
    with pytest.raises(OutOfOrderSequence):
        await append_as(harness, 5, sequence=1)
    assert [await append_as(harness, 5, sequence=at) for at in (0, 1)] == [0, 1]


async def log_start_told(harness: EngineHarness, sequence: int) -> int:
    with pytest.raises(UnknownProducer) as told:
        await append_as(harness, 5, sequence=sequence)
    return told.value.log_start


async def test_a_producer_is_told_to_begin_anew_when_it_has_been_unknown_for_a_while(
    harness: EngineHarness,
) -> None:
    """At once would be too early: its first batch may have been refused, and be on its way."""
    await harness.engine.topics.create("t", 1, {})
    assert await log_start_told(harness, 1) == -1
    harness.clock.advance_ms(1999)
    assert await log_start_told(harness, 1) == -1
    assert [await append_as(harness, 5, sequence=at) for at in (0, 1)] == [0, 1]
    _, lane = await harness.parts.logs.open(harness.engine.topics.get("t"), 0)
    lane.producers.expire(1 << 62)
    assert await log_start_told(harness, 2) == -1, "counted anew"
    harness.clock.advance_ms(2000)
    assert await log_start_told(harness, 2) == 0
