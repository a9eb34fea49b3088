"""Reading: a partition is resolved once; a wait reads only the partitions that have news."""

import asyncio
from typing import Any

import pytest

from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.model.errors import UnknownTopic
from tests.unit.engine.engine_harness import EngineHarness, values_of


async def test_a_place_that_was_found_is_remembered(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 3, {})
    logs = harness.parts.logs
    assert dict(logs.resolved(topic)) == {}
    await logs.open(topic, 1)
    place = logs.resolve(topic, 1)
    assert place is not None
    assert dict(logs.resolved(topic)) == {1: place}
    assert logs.resolve(topic, 1) == place


async def test_what_does_not_exist_or_is_not_open_is_not_remembered(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 3, {})
    logs = harness.parts.logs
    await logs.open(topic, 0)
    assert logs.resolve(topic, 2) is None or logs.is_open(topic.folder(2))
    with pytest.raises(UnknownTopic):
        logs.resolve(topic, 3)
    assert 3 not in logs.resolved(topic)


async def test_a_topic_that_changes_is_looked_up_anew(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a")
    logs = harness.parts.logs
    assert 0 in logs.resolved(topic)
    await harness.engine.topics.change_configs(
        "t", lambda old: {**old, "kafscale.fetch.buffered": "true"}
    )
    assert 0 not in logs.resolved(topic)
    place = logs.resolve(topic, 0)
    assert place is not None
    assert place[1].rules.fetch_buffered


async def test_a_topic_that_ends_is_forgotten(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"a")
    await harness.engine.topics.delete("t")
    assert dict(harness.parts.logs.resolved(topic)) == {}
    assert harness.parts.logs.resolve(topic, 0) is None


async def test_a_log_that_is_let_go_is_forgotten(harness: EngineHarness) -> None:
    topic = await harness.engine.topics.create("t", 2, {})
    await harness.append("t", b"a")
    harness.parts.logs.drop()
    assert dict(harness.parts.logs.resolved(topic)) == {}
    assert values_of(await harness.read("t")) == [b"a"]


@pytest.mark.parametrize("count", [2, 150])
async def test_a_wait_for_many_partitions_looks_only_at_those_with_news(
    harness: EngineHarness, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await harness.engine.topics.create("t", count, {"physical.partitions": "1"})
    await harness.append("t", b"a", partition=1)
    wanted = [PartitionRead(topic, number, number == 1, 1 << 20) for number in range(count)]
    reads, looks = harness.engine.partitions._reads, []
    honest = reads._from_memory

    def look(read: PartitionRead, *place: Any, at_least_one: bool) -> ReadResult | None:
        looks.append(read.partition)
        return honest(read, *place, at_least_one=at_least_one)

    waiting = asyncio.ensure_future(reads.fetch(wanted, 1 << 20, 1, 60.0))
    await asyncio.sleep(0.01)
    monkeypatch.setattr(reads, "_from_memory", look)
    await harness.append("t", b"b", partition=1)
    results = await waiting
    assert [values_of(result) for result in results if result.size] == [[b"b"]]
    assert looks == [1]
