"""Moves that do not get on: how often they are tried, and who hears of it."""

import asyncio
import re
from typing import Any

import pytest
import structlog

from kafscale.engine.moves import moves
from kafscale.engine.moves.steps import MoveSteps
from kafscale.model.errors import MetadataUnavailable
from kafscale.retry import RetryPolicy
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.engine.moves.test_moves import arrived, filled, move
from tests.unit.engine.topics.test_changes import adding

__all__ = ["filled"]


def figures(harness: EngineHarness, name: str) -> dict[str, float]:
    """The series of one family, by their labels, as they are scraped."""
    lines = harness.engine.metrics.registry.render().decode().splitlines()
    rows = [line.rpartition(" ") for line in lines if re.match(name + "[{ ]", line)]
    return {labels.removeprefix(name): float(value) for labels, _, value in rows}


def moving_now(harness: EngineHarness) -> tuple[float, ...]:
    return tuple(figures(harness, "kafscale_moves").values())


async def test_what_fails_is_tried_less_and_less_often_and_told_once(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "PAUSE_S", 0.002)
    monkeypatch.setattr(moves, "RETRY", RetryPolicy(0.002, 0.016))
    pauses: list[float] = []
    attempts = 0
    bring, rung = MoveSteps.fill_new_logs, moves._is_set_within

    async def failing(self: MoveSteps, *args: Any) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 8:
            raise MetadataUnavailable("planned: one" if attempts < 4 else "planned: another")
        await bring(self, *args)

    async def timed(bell: asyncio.Event, within_s: float) -> bool:
        if within_s < 1:
            pauses.append(round(within_s, 3))
        return await rung(bell, within_s)

    monkeypatch.setattr(MoveSteps, "fill_new_logs", failing)
    monkeypatch.setattr(moves, "_is_set_within", timed)
    with structlog.testing.capture_logs() as lines:
        await move(filled, "shared")
    assert pauses[:7] == [0.002, 0.004, 0.008, 0.016, 0.016, 0.016, 0.016]
    told = [(row["event"], row.get("reason")) for row in lines if row["event"].startswith("move_")]
    assert told == [
        ("move_waits", "MetadataUnavailable: planned: one"),
        ("move_waits", "MetadataUnavailable: planned: another"),
        ("move_goes_on", None),
    ]
    assert figures(filled, "kafscale_move_failures_total") == {"": 7}


async def test_a_move_that_does_not_get_on_is_seen(filled: EngineHarness) -> None:
    assert moving_now(filled) == (0, 0)
    filled.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "*@shared/0/segment*"))
    await filled.engine.topics.change_configs("t", adding("storage.placement", "shared"))
    async with asyncio.timeout(20):
        while moving_now(filled) != (1, 0):
            await asyncio.sleep(0.01)
    filled.clock.advance_ms(90_000)
    assert figures(filled, "kafscale_move_phase_seconds") == {
        '{phase="copying"}': 90,
        '{phase="sealing"}': 0,
    }
    await filled.engine.topics.delete("t")
    filled.plan.clear()
    async with asyncio.timeout(20):
        while moving_now(filled) != (0, 0):
            await asyncio.sleep(0.01)


async def test_producers_who_wait_too_long_are_told_of_once(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "PAUSE_S", 0.002)
    seal = MoveSteps.seal_old_lanes
    attempts = 0

    async def slow(self: MoveSteps, *args: Any) -> None:
        nonlocal attempts
        attempts += 1
        filled.clock.advance_ms(20_000)
        if attempts < 4:
            raise MetadataUnavailable("planned")
        await seal(self, *args)

    monkeypatch.setattr(MoveSteps, "seal_old_lanes", slow)
    with structlog.testing.capture_logs() as lines:
        await move(filled, "shared")
    assert [row["topic"] for row in lines if row["event"] == "move_is_slow"] == ["t"]


async def test_one_move_that_hangs_does_not_hold_up_another(filled: EngineHarness) -> None:
    await filled.engine.topics.create("other", 2, {})
    await filled.append("other", b"o")
    filled.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "default/t@*/0/segment*"))
    await filled.engine.topics.change_configs("t", adding("physical.partitions", "2"))
    await asyncio.sleep(0.05)
    await move(filled, "shared", "other")
    assert filled.engine.topics.get("t").descriptor.moving is not None
    filled.plan.clear()
    await arrived(filled)


async def test_what_fails_is_tried_though_other_topics_change_all_the_time(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "PAUSE_S", 0.05)
    bring, failed = MoveSteps.fill_new_logs, asyncio.Event()

    async def failing(self: MoveSteps, *args: Any) -> None:
        if not failed.is_set():
            failed.set()
            raise MetadataUnavailable("planned")
        await bring(self, *args)

    monkeypatch.setattr(MoveSteps, "fill_new_logs", failing)
    await filled.engine.topics.change_configs("t", adding("storage.placement", "shared"))
    async with asyncio.timeout(20):
        while filled.engine.topics.get("t").descriptor.moving is not None:
            filled.parts.moves.wake()
            await asyncio.sleep(0.001)
    assert failed.is_set()
