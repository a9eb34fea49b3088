"""Reports of moves, in the metadata store."""

import asyncio

import pytest

from kafscale.engine.moves.reports import MoveReports
from kafscale.metadata import keys
from kafscale.metadata.keys import MoveReport
from kafscale.metadata.store import Put
from kafscale.model.errors import MetadataUnavailable
from kafscale.model.topics import Move
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness
from tests.unit.engine.moves.test_moves import arrived, filled
from tests.unit.engine.topics.test_changes import adding

__all__ = ["filled"]

NEAR = MoveReport(move_id="m", state="near")
THIS = Move(move_id="m", layout="ordinary", folder="f", logs=1)


async def test_what_many_say_at_once_is_one_commit_or_a_few(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    reports = MoveReports(harness.metadata)
    commit, commits = harness.metadata.commit, 0

    async def counted(writes: object, guards: object = ()) -> int:
        nonlocal commits
        commits += 1
        return await commit(writes, guards)

    harness.metadata.commit = counted  # type: ignore[method-assign]
    folders = [f"f/{number}" for number in range(250)]
    await asyncio.gather(*(reports.put(topic, folder, NEAR) for folder in folders))
    assert set(await reports.find(topic, THIS)) == set(folders)
    assert commits <= 4
    await reports.remove(topic, folders)
    assert await reports.find(topic, THIS) == {}


async def test_reports_of_another_move_are_not_found(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    reports = MoveReports(harness.metadata)
    await reports.put(topic, "f/0", MoveReport(move_id="earlier", state="done"))
    assert await reports.find(topic, THIS) == {}


async def test_a_report_that_was_not_written_can_be_made_again(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    reports = MoveReports(harness.metadata)
    harness.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await reports.put(topic, "f/0", NEAR)
    await reports.put(topic, "f/0", NEAR)
    assert set(await reports.find(topic, THIS)) == {"f/0"}


async def none_left(harness: EngineHarness) -> None:
    async with asyncio.timeout(20):
        while await harness.metadata.find(keys.MOVES):
            await asyncio.sleep(0.01)


async def test_only_reports_of_moves_that_are_over_are_cleared_away(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    reports = MoveReports(harness.metadata)
    await reports.put(topic, "f/0", NEAR)
    await reports.put(topic, "f/1", MoveReport(move_id="earlier", state="done"))
    assert await reports.remove_old(lambda name, move_id: (name, move_id) == ("t", "m")) == 1
    assert set(await reports.find(topic, THIS)) == {"f/0"}


async def test_a_topic_deleted_on_its_way_leaves_no_reports(filled: EngineHarness) -> None:
    filled.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "default/t@*/1/segment*"))
    await filled.engine.topics.change_configs("t", adding("physical.partitions", "2"))
    async with asyncio.timeout(20):
        while not await filled.metadata.find(keys.MOVES):
            await asyncio.sleep(0.01)
    await filled.engine.topics.delete("t")
    filled.plan.clear()
    await none_left(filled)


async def test_a_move_that_was_called_off_leaves_no_reports(filled: EngineHarness) -> None:
    filled.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "default/t@*/1/segment*"))
    await filled.engine.topics.change_configs("t", adding("physical.partitions", "2"))
    async with asyncio.timeout(20):
        while not await filled.metadata.find(keys.MOVES):
            await asyncio.sleep(0.01)
    await filled.engine.topics.change_configs("t", adding("physical.partitions", "-1"))
    filled.plan.clear()
    await none_left(filled)


async def test_what_a_crash_left_is_cleared_away_at_the_next_start(filled: EngineHarness) -> None:
    gone = keys.move_report("a topic of long ago", "f/0")
    await filled.metadata.commit([Put(gone, keys.encode(NEAR))])
    await filled.reopen()
    await none_left(filled)
    await filled.engine.topics.change_configs("t", adding("storage.placement", "shared"))
    await arrived(filled)
