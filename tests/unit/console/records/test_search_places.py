"""A session has two searches at a time; one that its reader has left may still be ending."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kafscale.console.answers.record_shapes import RecordsEvent
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.pages.topics.records import _events
from kafscale.testing.clock import ManualClock

KEY = b"session"


def work(is_stopped: Callable[[], bool]) -> Iterator[RecordsEvent]:
    yield RecordsEvent(records=[], skipped=0)


def call_beside(running: int) -> tuple[Any, dict[bytes, int], ManualClock]:
    searches, clock = {KEY: running}, ManualClock()
    services = SimpleNamespace(searches=searches, clock=clock)
    return SimpleNamespace(services=services, session=SimpleNamespace(key=KEY)), searches, clock


async def test_a_search_waits_for_one_that_is_just_ending() -> None:
    call, searches, _ = call_beside(2)
    names = []
    async for event in _events(call, work):
        if event is None:
            searches[KEY] = 1
        else:
            names.append(event[0])
    assert names == ["records"]
    assert searches == {KEY: 1}


async def test_a_third_search_is_refused_when_the_others_go_on() -> None:
    call, searches, clock = call_beside(2)
    events = _events(call, work)
    for _ in range(3):
        assert await anext(events) is None
        clock.advance_ms(1000)
    with pytest.raises(ApiRefusal) as refused:
        await anext(events)
    assert refused.value.code == "slow_down"
    assert searches == {KEY: 2}
