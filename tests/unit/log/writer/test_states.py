"""The table of a log's states: what it allows, and that it allows nothing else."""

from itertools import product

import pytest

from kafscale.log.writer.states import AT_REST, NEXT, LogEvent, LogState, next_state
from kafscale.model.errors import LogStopped
from tests.unit.log.log_harness import LogHarness, write

MISSING = sorted(set(product(LogState, LogEvent)) - set(NEXT), key=str)


@pytest.mark.parametrize(("state", "event"), MISSING)
def test_an_event_that_a_state_cannot_have_is_an_error(state: LogState, event: LogEvent) -> None:
    with pytest.raises(AssertionError, match=state.value):
        next_state(state, event)


@pytest.mark.parametrize("state", LogState)
def test_every_log_can_be_closed_and_is_at_rest_then(state: LogState) -> None:
    assert next_state(state, LogEvent.CLOSED) in AT_REST


@pytest.mark.parametrize("state", sorted(AT_REST, key=str))
def test_a_log_at_rest_stays_as_it_is(state: LogState) -> None:
    assert {following for (before, _), following in NEXT.items() if before is state} == {state}


def test_a_log_is_open_only_after_the_bucket_was_read() -> None:
    ways = {pair for pair, following in NEXT.items() if following is LogState.OPEN}
    assert ways == {(LogState.OPENING, LogEvent.OPENED)}


def test_every_state_but_the_first_is_reached() -> None:
    assert set(NEXT.values()) == set(LogState)


async def test_a_closed_log_cannot_be_opened_again(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"a")
    await log.abandon()
    await log.abandon()
    await log.reopen("the log is closed already")
    assert log.state is LogState.CLOSED


async def test_a_stopped_log_keeps_its_reason_when_it_is_closed(harness: LogHarness) -> None:
    await harness.inner.put_new("default/orders/0/segment-00000000000000000000.kfs", [b"x" * 100])
    log = harness.make_log()
    with pytest.raises(LogStopped):
        await log.open()
    await log.abandon()
    assert log.state is LogState.STOPPED
    with pytest.raises(LogStopped, match="magic"):
        log.require_open()
