"""Lanes of shared logs that end because their topic has been deleted (rule 25)."""

import pytest

from kafscale.log.moves import end_of_topic
from kafscale.log.upkeep import rollup
from kafscale.log.writer.states import LogState
from kafscale.model.errors import LogEnded, NotTheOwner
from kafscale.model.topics import LaneRange, Move, TopicDescriptor
from tests.unit.log.log_harness import LogHarness, write

SHARED = "default/@shared/0"


def tools(harness: LogHarness) -> end_of_topic.Tools:
    return end_of_topic.Tools(harness.store, harness.clock, harness.dice)


def topic(first: int, **more: object) -> TopicDescriptor:
    return TopicDescriptor(
        name="t",
        topic_id="0" * 32,
        incarnation=1,
        folder="default/t",
        partitions=2,
        logs=0,
        layout="shared",
        shared=[LaneRange("default/@shared", first, 2, 1)],
        created_at="",
        deleted=True,
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_of_topic, "_PATIENCE_S", -1.0)


@pytest.mark.usefixtures("_impatient")
async def test_lanes_are_sealed_beside_an_owner_that_knows_nothing(harness: LogHarness) -> None:
    log = await harness.open(SHARED)
    for lane in range(3):
        await write(log, b"a", lane=lane)
    await end_of_topic.end_topic(tools(harness), topic(0))
    for lane in (0, 1, 0):
        with pytest.raises(NotTheOwner):
            await write(log, b"b", lane=lane)
    await write(log, b"b", lane=2)
    again = await harness.open(SHARED)
    assert [again.lane(lane).producers.is_sealed for lane in range(3)] == [True, True, False]
    assert again.lane(2).high == 2


@pytest.mark.usefixtures("_impatient")
async def test_a_seal_outlives_roll_up(harness: LogHarness) -> None:
    await end_of_topic.end_topic(tools(harness), topic(1))
    log = await harness.open(SHARED)
    await write(log, b"a", lane=0)
    await rollup.roll_up(log)
    again = await harness.open(SHARED)
    assert not again.committed.tail
    assert again.lane(1).producers.is_sealed
    with pytest.raises(NotTheOwner):
        await write(again, b"b", lane=2)


async def test_an_owner_that_knows_is_waited_for(harness: LogHarness) -> None:
    log = await harness.open(SHARED)
    ended = harness.tasks.spawn(
        end_of_topic.end_topic(tools(harness), topic(0)), "end", awaited=True
    )
    for lane in (0, 1):
        await write(log, b"a", lane=lane)
    for lane in (0, 1):
        log.seal(lane)
    await ended
    assert not [name for name in await harness.names(SHARED) if name.startswith("manifest-")]
    assert log.state is LogState.OPEN


@pytest.mark.usefixtures("_impatient")
async def test_a_topic_that_was_moving_ends_in_both_places(harness: LogHarness) -> None:
    move = Move(move_id="1" * 16, layout="ordinary", folder="default/t@1", logs=2)
    await end_of_topic.end_topic(tools(harness), topic(0, moving=move))
    for number in range(2):
        with pytest.raises(LogEnded):
            await harness.open(f"default/t@1/{number}")
    log = await harness.open(SHARED)
    assert log.lane(0).producers.is_sealed
