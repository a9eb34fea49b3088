"""What groups have committed reaches the bucket: when, by which broker, and what is in it."""

import asyncio
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.engine.upkeep import checkpoints as engine_checkpoints
from kafscale.engine.upkeep.checkpoints import Checkpoints
from kafscale.log.catalog import checkpoints
from kafscale.log.formats import checkpoint, keys
from kafscale.metadata import keys as metadata_keys
from kafscale.metadata.store import Put, Remove
from kafscale.settings.sections import StorageSection
from kafscale.settings.values import Seconds
from kafscale.testing.clock import SeededDice
from kafscale.testing.faulty_store import Fault, Rule
from kafscale.testing.in_process import FOR_TESTS
from tests.unit.engine.engine_harness import EngineHarness

NAMESPACE = "default"


async def rows_of(harness: EngineHarness) -> dict[str, Any]:
    found = await checkpoints.newest(harness.objects, NAMESPACE)
    assert found.checkpoint is not None
    assert found.problems == []
    return {key: msgspec.json.decode(value) for key, value in found.checkpoint.rows}


async def numbers(harness: EngineHarness) -> list[int]:
    return [number for number, _ in await checkpoints.heads(harness.objects, NAMESPACE)]


async def commit(harness: EngineHarness, group: str, offset: int, **more: Any) -> None:
    assert await harness.engine.offsets.commit(group, [OffsetCommit("t", 0, offset, **more)]) == [
        None
    ]


def another(harness: EngineHarness) -> Checkpoints:
    """As another broker on the same stores would be."""
    return Checkpoints(
        harness.metadata,
        harness.store,
        NAMESPACE,
        harness.clock,
        SeededDice(8),
        cluster_id=harness.engine.identity.cluster_id,
        author="another",
        interval_s=60,
        is_responsible=lambda: True,
    )


async def test_it_holds_all_that_a_group_and_new_numbers_need(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    topic_id = harness.engine.topics.get("t").descriptor.topic_id
    await commit(harness, "a/b", 7, leader_epoch=3, metadata="mine")
    assert await harness.engine.partitions.fresh_producer_id() == 0
    assert await harness.parts.checkpoints.write() == 1
    rows = await rows_of(harness)
    offset = rows[metadata_keys.group_offset("a/b", "t", 0)]
    assert offset.pop("committed_at").endswith("Z")
    assert offset == {"offset": 7, "leader_epoch": 3, "metadata": "mine", "topic_id": topic_id}
    assert rows[metadata_keys.PRODUCER_IDS] == {"next": 1000}
    assert rows[metadata_keys.EPOCHS] == {"next": harness.engine.identity.epoch + 1}
    assert rows[metadata_keys.CLUSTER]["cluster_id"] == harness.engine.identity.cluster_id
    # Who coordinates a group is no memory of the group, and topics describe themselves.
    assert len(rows) == 4


async def test_names_of_brokers_and_records_of_groups_are_in_it(harness: EngineHarness) -> None:
    extra = {
        metadata_keys.broker_name("b:9092"): b'{"broker_id":1001}',
        metadata_keys.BROKER_IDS: b'{"next":1002}',
        metadata_keys.group_metadata("offsets"): b'{"group_id":"offsets","new_field":[1]}',
    }
    await harness.metadata.commit([Put(key, value) for key, value in extra.items()])
    await harness.parts.checkpoints.write()
    found = await checkpoints.newest(harness.objects, NAMESPACE)
    assert found.checkpoint is not None
    rows = {key: bytes(value) for key, value in found.checkpoint.rows}
    assert rows.items() >= extra.items()
    assert (found.checkpoint.head.groups, found.checkpoint.head.offsets) == (1, 0)


async def test_nothing_is_written_while_nothing_changes(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await commit(harness, "g", 1)
    assert await harness.parts.checkpoints.write() == 1
    assert await harness.parts.checkpoints.write() is None
    await commit(harness, "g", 2)
    assert await harness.parts.checkpoints.write() == 2
    await harness.engine.offsets.delete("g", [("t", 0)])
    assert await harness.parts.checkpoints.write() == 3
    assert metadata_keys.group_offset("g", "t", 0) not in await rows_of(harness)


async def test_old_ones_go(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    for offset in range(checkpoints.KEPT + 3):
        await commit(harness, "g", offset)
        await harness.parts.checkpoints.write()
    assert await numbers(harness) == [4, 5, 6, 7, 8]


async def test_a_last_one_is_taken_when_the_broker_leaves(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await commit(harness, "g", 5)
    await harness.reopen()
    assert (await rows_of(harness))[metadata_keys.group_offset("g", "t", 0)]["offset"] == 5


async def test_a_broker_that_is_not_responsible_takes_none(harness: EngineHarness) -> None:
    harness.parts.checkpoints._is_responsible = lambda: False
    await harness.engine.topics.create("t", 1, {})
    await commit(harness, "g", 5)
    await harness.parts.checkpoints.aclose()
    assert await numbers(harness) == []


async def test_they_are_taken_by_the_clock_and_a_sick_store_is_tried_again() -> None:
    storage = StorageSection(checkpoint_interval=Seconds(0.01))
    async with EngineHarness(msgspec.structs.replace(FOR_TESTS, storage=storage)) as harness:
        rule = harness.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "*@checkpoints*", times=2))
        async with asyncio.timeout(30):
            await rule.reached.wait()
            while not await numbers(harness):
                await asyncio.sleep(0.01)


async def test_a_store_that_hangs_does_not_keep_the_broker_from_leaving(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_checkpoints, "_LEAVING_S", 0.01)
    harness.plan.add(Rule(Fault.STALL_BEFORE, "put_new"))
    with capture_logs() as logs:
        await harness.parts.checkpoints.aclose()
    assert [row["event"] for row in logs] == ["checkpoint_not_written"]


async def test_many_offsets_are_packed_into_blocks_and_parts(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_checkpoints, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(engine_checkpoints, "PART_BYTES", 500)
    await harness.engine.topics.create("t", 100, {})
    wishes = [OffsetCommit("t", partition, partition) for partition in range(100)]
    for group in ("g", "h"):
        assert await harness.engine.offsets.commit(group, wishes) == [None] * 100
    await harness.parts.checkpoints.write()
    rows = await rows_of(harness)
    assert all(
        rows[metadata_keys.group_offset(group, "t", partition)]["offset"] == partition
        for group in ("g", "h")
        for partition in range(100)
    )
    head = await checkpoints.read_head(harness.objects, NAMESPACE, 1)
    assert (head.groups, head.offsets) == (2, 200)
    assert len(head.parts) > 2
    assert sum(part.rows for part in head.parts) + len(head.rows) == len(rows)


async def test_an_unreadable_value_is_left_out(harness: EngineHarness) -> None:
    await harness.metadata.commit([Put(metadata_keys.group_metadata("bad"), b"{")])
    with capture_logs() as logs:
        assert await harness.parts.checkpoints.write() == 1
    assert [row["key"] for row in logs if row["event"] == "row_left_out"] == [
        metadata_keys.group_metadata("bad")
    ]
    assert metadata_keys.EPOCHS in await rows_of(harness)


async def test_of_two_brokers_one_is_enough(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    assert await harness.parts.checkpoints.write() == 1
    await commit(harness, "g", 1)
    other = another(harness)
    assert await other.write() is None
    harness.clock.advance_ms(31_000)
    assert await other.write() == 2
    assert await harness.parts.checkpoints.write() is None
    assert await harness.parts.checkpoints.write(leaving=True) == 3


async def test_of_two_at_once_one_wins(harness: EngineHarness) -> None:
    await asyncio.gather(harness.parts.checkpoints.write(), another(harness).write())
    assert await numbers(harness) == [1]
    assert metadata_keys.EPOCHS in await rows_of(harness)


async def test_checkpoints_of_another_cluster_are_not_pushed_out(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await commit(harness, "g", 1)
    theirs = checkpoint.CheckpointHead(
        number=1, created_ms=0, author="", cluster_id="lost-cluster", groups=0, offsets=0
    )
    assert await checkpoints.write(harness.objects, NAMESPACE, theirs, [], SeededDice(1))
    with capture_logs() as logs:
        harness.clock.advance_ms(3_600_000)
        assert await harness.parts.checkpoints.write() is None
        assert await harness.parts.checkpoints.write(leaving=True) is None
    (row,) = logs
    assert (row["event"], row["cluster_id"]) == ("checkpoints_of_another_cluster", "lost-cluster")


@pytest.mark.parametrize("now", [None, b'{"cluster_id":"other","created_at":""}'])
async def test_a_metadata_store_that_was_replaced_pushes_nothing_out(
    harness: EngineHarness, now: bytes | None
) -> None:
    await harness.engine.topics.create("t", 1, {})
    await commit(harness, "g", 1)
    assert await harness.parts.checkpoints.write() == 1
    rows = await harness.metadata.find("/kafscale/")
    await harness.metadata.commit([Remove(row.key) for row in rows])
    if now is not None:
        await harness.metadata.commit([Put(metadata_keys.CLUSTER, now)])
    with capture_logs() as logs:
        assert await harness.parts.checkpoints.write() is None
        assert await harness.parts.checkpoints.write(leaving=True) is None
    assert [row["event"] for row in logs] == ["metadata_of_another_cluster"]
    assert metadata_keys.group_offset("g", "t", 0) in await rows_of(harness)


async def test_a_broken_newest_one_is_followed_by_a_good_one(harness: EngineHarness) -> None:
    await harness.objects.put_new(keys.checkpoint(NAMESPACE, 4), [b"nonsense"])
    assert await harness.parts.checkpoints.write() == 5
    assert checkpoint.decode_head(
        await harness.objects.read(keys.checkpoint(NAMESPACE, 5))
    ).cluster_id == (harness.engine.identity.cluster_id)


async def test_its_age_is_that_of_the_last_moment_when_nothing_was_missing(
    harness: EngineHarness,
) -> None:
    await harness.engine.topics.create("t", 1, {})
    ours = harness.parts.checkpoints
    harness.clock.advance_ms(5_000)
    assert ours.age_s() == 5  # none yet: since the start
    await commit(harness, "g", 1)
    await ours.write()
    assert ours.age_s() == 0
    harness.clock.advance_ms(100_000)
    assert ours.age_s() == 100
    assert await ours.write() is None  # nothing has changed: it is as good as new
    assert ours.age_s() == 0
    await commit(harness, "g", 2)
    harness.clock.advance_ms(7_000)
    harness.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", times=1))
    await ours._write_or_warn(leaving=False)
    assert ours.age_s() == 7
    assert "kafscale_checkpoint_age_seconds 7" in harness.engine.metrics.registry.render().decode()


async def test_a_checkpoint_of_another_broker_counts_by_its_age(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    other = another(harness)
    harness.clock.advance_ms(50_000)
    assert await harness.parts.checkpoints.write() == 1
    harness.clock.advance_ms(20_000)
    assert other.age_s() == 70
    assert await other.write() is None  # too soon after the other
    assert other.age_s() == 20


async def test_who_need_not_take_any_shows_no_age_and_begins_at_nothing(
    harness: EngineHarness,
) -> None:
    other = another(harness)
    other._is_responsible = lambda: False
    harness.clock.advance_ms(1_000_000)
    assert other.age_s() is None
    await other._write_or_warn(leaving=False)
    other._is_responsible = lambda: True
    harness.clock.advance_ms(3_000)
    assert other.age_s() == 3


async def test_one_of_another_cluster_grows_older_and_older(harness: EngineHarness) -> None:
    await harness.parts.checkpoints.write()
    foreign = another(harness)
    foreign._cluster_id = "another"
    harness.clock.advance_ms(500_000)
    assert await foreign.write() is None
    assert foreign.age_s() == 500
