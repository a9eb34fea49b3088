"""Reports of moves, in the metadata store."""

import asyncio

import pytest

from kafscale.engine.move_reports import MoveReports
from kafscale.metadata.keys import MoveReport
from kafscale.model.errors import MetadataUnavailable
from kafscale.model.topics import Move
from tests.unit.engine.shop import Shop

NEAR = MoveReport(move_id="m", state="near")
THIS = Move(move_id="m", layout="ordinary", folder="f", logs=1)


async def test_what_many_say_at_once_is_one_commit_or_a_few(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {})
    reports = MoveReports(shop.metadata)
    commit, commits = shop.metadata.commit, 0

    async def counted(writes: object, guards: object = ()) -> int:
        nonlocal commits
        commits += 1
        return await commit(writes, guards)

    shop.metadata.commit = counted  # type: ignore[method-assign]
    folders = [f"f/{number}" for number in range(250)]
    await asyncio.gather(*(reports.put(topic, folder, NEAR) for folder in folders))
    assert set(await reports.find(topic, THIS)) == set(folders)
    assert commits <= 4
    await reports.remove(topic, folders)
    assert await reports.find(topic, THIS) == {}


async def test_reports_of_another_move_are_not_found(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {})
    reports = MoveReports(shop.metadata)
    await reports.put(topic, "f/0", MoveReport(move_id="earlier", state="done"))
    assert await reports.find(topic, THIS) == {}


async def test_a_report_that_was_not_written_can_be_made_again(shop: Shop) -> None:
    topic = await shop.engine.create_topic("t", 1, {})
    reports = MoveReports(shop.metadata)
    shop.metadata.refuse_commits = 1
    with pytest.raises(MetadataUnavailable):
        await reports.put(topic, "f/0", NEAR)
    await reports.put(topic, "f/0", NEAR)
    assert set(await reports.find(topic, THIS)) == {"f/0"}
