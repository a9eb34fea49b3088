"""Topics that are wanted elsewhere while they are on their way."""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kafscale.engine.moves import moves
from kafscale.engine.moves.reports import MoveReports
from kafscale.engine.topics.topic import Topic
from kafscale.log.formats import places
from kafscale.log.protocol import survey
from kafscale.metadata import keys
from kafscale.model.topics import Move, TopicDescriptor
from kafscale.testing.in_process import FOR_TESTS
from kafscale.virtual.rules import LayoutRules, PartitionLayout
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.engine.moves.test_moves import LAYOUTS, all_values, arrived, filled, move
from tests.unit.engine.topics.test_changes import adding

__all__ = ["filled"]


async def wish(harness: EngineHarness, layout: str) -> None:
    wanted = LAYOUTS[layout]
    await harness.engine.topics.change_configs("t", lambda old: {**old, **wanted})


async def settled(harness: EngineHarness, layout: str) -> None:
    """Arrive where the last wish said."""
    async with asyncio.timeout(20):
        while (now := harness.engine.topics.get("t").descriptor).moving or now.layout != layout:
            await asyncio.sleep(0.01)
    await arrived(harness)


def held_back(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch, *, sealing: bool
) -> asyncio.Event:
    """Let moves come to a phase and no further until the event is set."""
    go_on = asyncio.Event()
    decide = moves.Moves._decide

    async def held(self: moves.Moves, topic: Topic, home: TopicDescriptor, *args: Any) -> None:
        assert home.moving is not None
        if home.moving.sealing != sealing or go_on.is_set():
            await decide(self, topic, home, *args)

    monkeypatch.setattr(moves.Moves, "_decide", held)
    return go_on


async def reached(harness: EngineHarness, *, sealing: bool) -> Move:
    """Wait until a move is in a phase and all its logs have something to say about it."""
    topic = harness.engine.topics.get("t")
    async with asyncio.timeout(20):
        while True:
            move = topic.descriptor.moving
            if move is not None and move.sealing == sealing:
                said = await MoveReports(harness.metadata).find(topic, move)
                if any(one.state == ("sealed" if sealing else "near") for one in said.values()):
                    return move
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("layout", ["shared", "virtual"])
async def test_a_move_is_called_off_while_nothing_is_sealed(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    go_on = held_back(filled, monkeypatch, sealing=False)
    await filled.engine.topics.create("neighbour", 1, LAYOUTS["shared"])
    await filled.append("neighbour", b"n")
    await wish(filled, layout)
    left = await reached(filled, sealing=False)
    await wish(filled, "ordinary")
    go_on.set()
    topic = filled.engine.topics.get("t")
    assert topic.descriptor.moving is None
    assert topic.descriptor.folder == "default/t"
    assert await filled.append("t", b"0-3") == 3, "no offset was taken"
    filled.clock.advance_ms(86_400_001)
    for _ in range(4):
        await filled.parts.log_upkeep.tidy()
        filled.clock.advance_ms(700_000)
    assert [key for key in await filled.keys(left.folder) if "/segment" in key] == []
    assert await filled.metadata.find(keys.REMOVALS) == []
    for folder in {row.folder for row in left.shared}:
        seen = await survey.take_snapshot(filled.objects, f"{folder}/0")
        ours = {row.lane for row in places.lanes_of(left.shared)}
        assert not [span for piece in seen.pieces for span in piece.spans if span.lane in ours]
    await filled.reopen()
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2", b"0-3"]
    assert await all_values(filled, 0, "neighbour") == [b"n"]
    await move(filled, layout)
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2", b"0-3"]


@pytest.mark.parametrize("restart", [False, True], ids=["in peace", "after a restart"])
async def test_a_wish_that_comes_too_late_is_the_next_move(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    go_on = held_back(filled, monkeypatch, sealing=True)
    await wish(filled, "shared")
    first = await reached(filled, sealing=True)
    await wish(filled, "ordinary")
    now = filled.engine.topics.get("t").descriptor.moving
    assert now is not None
    assert (now.move_id, now.then) == (first.move_id, ("ordinary", 4))
    if restart:
        await filled.reopen()
    go_on.set()
    await settled(filled, "ordinary")
    descriptor = filled.engine.topics.get("t").descriptor
    assert (descriptor.moves, descriptor.folder != "default/t") == (2, True)
    assert await filled.append("t", b"0-3") == 5, "both moves have taken an offset"
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2", b"0-3"]


async def test_the_last_of_several_wishes_counts(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = held_back(filled, monkeypatch, sealing=True)
    await wish(filled, "shared")
    await reached(filled, sealing=True)
    await wish(filled, "ordinary")
    await wish(filled, "virtual")
    await filled.engine.topics.change_configs("t", adding("retention.ms", "77777777"))
    await wish(filled, "shared")
    now = filled.engine.topics.get("t").descriptor.moving
    assert now is not None
    assert now.then is None
    await wish(filled, "virtual")
    go_on.set()
    await settled(filled, "virtual")
    assert await all_values(filled, 3) == [b"3-0", b"3-1", b"3-2"]


async def test_a_topic_turns_to_a_third_place_while_nothing_is_sealed(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = held_back(filled, monkeypatch, sealing=False)
    await wish(filled, "shared")
    left = await reached(filled, sealing=False)
    await wish(filled, "virtual")
    go_on.set()
    await settled(filled, "virtual")
    assert filled.engine.topics.get("t").descriptor.moves == 1
    assert await filled.append("t", b"0-3") == 4
    notes = [
        keys.decode(keys.Removal, row.value).folder
        for row in await filled.metadata.find(keys.REMOVALS)
    ]
    assert sorted(notes) == sorted(["default/t", left.folder])
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2", b"0-3"]


async def test_a_wish_as_the_topic_arrives_is_heard(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has arrived between the look at it and the change: then a place is needed after all."""
    await wish(filled, "shared")
    change, late = filled.engine.topics._changes.change, asyncio.Event()

    async def after_arrival(name: str, wanted: Any) -> Topic:
        if not late.is_set() and asyncio.current_task().get_name().startswith("change"):  # type: ignore[union-attr]
            late.set()
            await arrived(filled)
        return await change(name, wanted)

    monkeypatch.setattr(filled.engine.topics._changes, "change", after_arrival)
    await wish(filled, "ordinary")
    await settled(filled, "ordinary")
    assert late.is_set()
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"]


async def test_who_decides_late_does_not_bring_back_what_was_called_off(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_back(filled, monkeypatch, sealing=False)
    await wish(filled, "shared")
    left = await reached(filled, sealing=False)
    topic = filled.engine.topics.get("t")
    home = topic.descriptor
    said = await MoveReports(filled.metadata).find(topic, left)
    await wish(filled, "ordinary")
    monkeypatch.undo()
    await filled.parts.moves._decide(topic, home, left, said)  # another broker, which slept
    assert topic.descriptor.moving is None
    assert await filled.append("t", b"0-3") == 3


# -- settings that are taken away --------------------------------------------------------------


async def take_away(harness: EngineHarness, *names: str) -> None:
    def change(old: Mapping[str, str]) -> Mapping[str, str | None]:
        return {name: value for name, value in old.items() if name not in names}

    await harness.engine.topics.change_configs("t", change)


def by_default_shared() -> EngineHarness:
    storage = msgspec.structs.replace(FOR_TESTS.storage, placement="shared")
    return EngineHarness(msgspec.structs.replace(FOR_TESTS, storage=storage))


async def test_without_its_setting_a_topic_goes_where_the_cluster_says(
    filled: EngineHarness,
) -> None:
    await move(filled, "shared")
    await take_away(filled, "storage.placement")
    await settled(filled, "ordinary")
    assert filled.engine.topics.get("t").descriptor.configs == {}
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"]


async def test_where_the_cluster_says_shared_it_goes_there_and_has_no_setting_of_its_own() -> None:
    async with by_default_shared() as harness:
        topic = await harness.engine.topics.create("t", 2, {"storage.placement": "dedicated"})
        await harness.append("t", b"x")
        await take_away(harness, "storage.placement")
        await settled(harness, "shared")
        assert topic.descriptor.configs == {}
        await harness.reopen()
        topic = harness.engine.topics.get("t")
        await harness.engine.topics.change_configs("t", adding("retention.ms", "77777777"))
        assert (topic.descriptor.moving, topic.descriptor.layout) == (None, "shared")
        await harness.engine.topics.change_configs("t", adding("physical.partitions", "1"))
        await settled(harness, "virtual")
        await take_away(harness, "physical.partitions")
        await settled(harness, "shared")
        await harness.engine.topics.change_configs("t", adding("storage.placement", "dedicated"))
        await settled(harness, "ordinary")
        assert await all_values(harness) == [b"x"]


async def test_what_the_cluster_says_later_moves_nothing_by_itself(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 2, {})
    rules = harness.engine.topics._registry.rules
    shared = msgspec.structs.replace(rules.defaults, placement="shared")
    harness.engine.topics._registry.rules = dataclasses.replace(rules, defaults=shared)
    await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    await harness.engine.topics.change_configs("t", adding("storage.placement", "dedicated"))
    assert (topic.descriptor.moving, topic.descriptor.layout) == (None, "ordinary")


async def test_taking_a_setting_away_calls_off_what_it_had_set_off(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_back(filled, monkeypatch, sealing=False)
    await filled.engine.topics.change_configs("t", adding("physical.partitions", "2"))
    await reached(filled, sealing=False)
    await take_away(filled, "physical.partitions")
    descriptor = filled.engine.topics.get("t").descriptor
    assert (descriptor.moving, descriptor.layout, descriptor.configs) == (None, "ordinary", {})


async def test_a_setting_taken_away_too_late_is_not_forgotten(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = held_back(filled, monkeypatch, sealing=True)
    await wish(filled, "shared")
    await reached(filled, sealing=True)
    await take_away(filled, "storage.placement")
    await filled.engine.topics.change_configs("t", adding("retention.ms", "77777777"))
    await filled.reopen()
    go_on.set()
    await settled(filled, "ordinary")
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"]


async def test_the_mapping_is_a_default_too(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 4, {"physical.partitions": "3"})
    rules = harness.engine.topics._registry.rules
    layouts = LayoutRules(PartitionLayout(physical_partitions=2))
    harness.engine.topics._registry.rules = dataclasses.replace(rules, layouts=layouts)
    await take_away(harness, "physical.partitions")
    await settled(harness, "virtual")
    assert topic.descriptor.logs == 2
    await harness.engine.topics.change_configs("t", adding("retention.ms", "5"))
    assert (topic.descriptor.moving, topic.descriptor.logs) == (None, 2)
