"""Topics that move from one layout to another while they are used."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from kafscale.engine.coordinator.offsets import OffsetCommit
from kafscale.engine.metrics.log_gauges import LogGauges
from kafscale.engine.moves import moves, steps
from kafscale.engine.moves.reports import MoveReports
from kafscale.engine.moves.steps import MoveSteps
from kafscale.engine.partitions.reads import ReadResult
from kafscale.engine.topics import records
from kafscale.engine.topics.topic import Topic
from kafscale.log.formats import keys as log_keys
from kafscale.log.moves import copying
from kafscale.log.upkeep import retention, rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.log.writer.tail_memory import TailMemory
from kafscale.log.writer.types import LogSettings, wait_for_commit
from kafscale.metadata import keys
from kafscale.metadata.keys import MoveReport
from kafscale.model.errors import MetadataUnavailable, NotTheOwner, TopicMoving
from kafscale.model.topics import LaneRange, Move, TopicDefaults, TopicDescriptor
from kafscale.records.batch import read_header, walk
from kafscale.records.record import open_batch
from kafscale.testing.clock import SeededDice
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.engine_harness import EngineHarness, values_of
from tests.unit.engine.topics.test_changes import adding
from tests.unit.gateways.kafka.caller import make_batch

LAYOUTS = {
    "ordinary": {"storage.placement": "dedicated", "physical.partitions": "-1"},
    "virtual": {"storage.placement": "dedicated", "physical.partitions": "2"},
    "shared": {"storage.placement": "shared"},
}


async def arrived(harness: EngineHarness, name: str = "t") -> None:
    """Do all steps of a move, until the metadata store knows it, too."""
    topic = harness.engine.topics.get(name)
    async with asyncio.timeout(20):
        while topic.descriptor.moving is not None or await is_moving_there(harness, name):
            await asyncio.sleep(0.01)


async def is_moving_there(harness: EngineHarness, name: str) -> bool:
    found = await harness.metadata.get(keys.topic_config(name))
    return found is not None and keys.decode(keys.TopicRow, found.value).moving is not None


async def move(harness: EngineHarness, layout: str, name: str = "t") -> None:
    wanted = LAYOUTS[layout]
    await harness.engine.topics.change_configs(name, lambda old: {**old, **wanted})
    await arrived(harness, name)
    assert harness.engine.topics.get(name).descriptor.layout == layout


async def all_values(harness: EngineHarness, partition: int = 0, name: str = "t") -> list[bytes]:
    """What a consumer from the beginning sees: control batches are passed over."""
    found = await harness.read(name, 0, partition)
    offset, values = found.start, []
    while offset < found.high:
        part = await harness.read(name, offset, partition)
        assert part.batches, f"nothing at {offset} of {part.high}"
        for at, value in values_at(part):
            if at >= offset:
                values.append(value)
        offset = next_offset(part)
    return values


def values_at(part: ReadResult) -> list[tuple[int, bytes]]:
    return [
        (record.offset, record.value or b"")
        for piece in part.batches
        for at, header in walk(piece)
        if not header.is_control
        for record in open_batch(piece[at : at + header.size], 1 << 20)
    ]


def next_offset(part: ReadResult) -> int:
    return max(header.next_offset for piece in part.batches for _, header in walk(piece))


def seventh(sequence: int) -> dict[str, int]:
    return {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}


async def write_late(log: Log) -> None:
    raw = memoryview(bytearray(make_batch(b"late")))
    appended = log.append(0, read_header(raw), raw, acknowledged=False)
    assert appended.committed is not None
    await wait_for_commit(appended.committed)


@pytest.fixture
async def filled(harness: EngineHarness) -> EngineHarness:
    await harness.engine.topics.create("t", 4, {})
    for partition in range(4):
        for turn in range(3):
            await harness.append("t", b"%d-%d" % (partition, turn), partition=partition)
    return harness


ROUTES = [(a, b) for a in LAYOUTS for b in LAYOUTS if a != b]


@pytest.mark.parametrize(("start", "end"), ROUTES)
async def test_records_keep_their_offsets_and_order(
    harness: EngineHarness, start: str, end: str
) -> None:
    await harness.engine.topics.create("t", 4, dict(LAYOUTS[start]))
    await harness.engine.topics.create("neighbour", 2, LAYOUTS["shared"])
    for partition in range(4):
        for turn in range(3):
            await harness.append("t", b"%d-%d" % (partition, turn), partition=partition)
    await harness.append("neighbour", b"n", partition=1)
    await move(harness, end)
    for _ in range(2):
        for partition in range(4):
            assert await all_values(harness, partition) == [
                b"%d-%d" % (partition, n) for n in range(3)
            ]
            found = await harness.read("t", 2, partition)
            assert values_of(found)[0] == b"%d-2" % partition
        assert await all_values(harness, 1, "neighbour") == [b"n"]
        await harness.reopen()
    assert await harness.append("t", b"after") == 4, "the seal has had an offset"
    assert await all_values(harness) == [b"0-0", b"0-1", b"0-2", b"after"]


async def test_to_and_fro_and_to_again(filled: EngineHarness) -> None:
    wanted = [b"0-0", b"0-1", b"0-2"]
    for turn, layout in enumerate(("shared", "ordinary", "virtual", "shared", "ordinary")):
        await move(filled, layout)
        await filled.append("t", b"%d" % turn)
        wanted.append(b"%d" % turn)
        assert await all_values(filled) == wanted
    await filled.reopen()
    assert await all_values(filled) == wanted


async def test_a_partition_without_records_stays_without(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    await move(harness, "shared")
    found = await harness.read("t", 1)
    assert (found.error, found.start, found.high) == (None, 0, 1)
    assert await all_values(harness) == []
    assert await harness.append("t", b"first") == 1
    assert await all_values(harness) == [b"first"]


async def test_what_was_deleted_stays_deleted(filled: EngineHarness) -> None:
    topic = filled.engine.topics.get("t")
    await filled.engine.partitions.delete_records(topic, 0, 2)
    await filled.engine.partitions.delete_records(topic, 1, 3)
    await move(filled, "shared")
    assert (await filled.read("t", 2)).start == 2
    assert await all_values(filled) == [b"0-2"]
    assert await all_values(filled, 1) == []
    await filled.reopen()
    assert (await filled.read("t", 2)).start == 2


async def test_producers_go_on_counting(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 1, {})
    assert await harness.append("t", b"a", **seventh(0)) == 0
    assert await harness.append("t", b"b", **seventh(1)) == 1
    await move(harness, "shared")
    assert await harness.append("t", b"b", **seventh(1)) == 1, "known: not stored twice"
    assert await harness.append("t", b"c", **seventh(2)) == 3
    assert await all_values(harness) == [b"a", b"b", b"c"]


async def test_nothing_is_lost_of_what_is_written_meanwhile(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 2, {})
    acknowledged: list[list[bytes]] = [[], []]
    refused = 0
    stop = False

    async def produce(partition: int) -> None:
        nonlocal refused
        number = 0
        while not stop:
            value = b"%d" % number
            try:
                await harness.append("t", value, partition=partition)
            except NotTheOwner:
                refused += 1
                await asyncio.sleep(0.001)
                continue  # as a client does: the same again
            acknowledged[partition].append(value)
            number += 1
            await asyncio.sleep(0.001)

    writers = [asyncio.create_task(produce(partition)) for partition in range(2)]
    for layout in ("shared", "virtual", "ordinary"):
        await asyncio.sleep(0.05)
        await move(harness, layout)
    stop = True
    await asyncio.gather(*writers)
    for partition in range(2):
        assert len(acknowledged[partition]) > 10
        assert await all_values(harness, partition) == acknowledged[partition]


async def test_a_sealed_lane_takes_nothing_from_any_broker(filled: EngineHarness) -> None:
    stale = Log(
        filled.objects,
        "default/t/0",
        epoch=0,
        author="a broker that slept",
        settings=LogSettings(flush_interval_s=0),
        memory=TailMemory(1 << 20),
        clock=filled.clock,
        dice=SeededDice(3),
    )
    await stale.open()
    await move(filled, "shared")
    for _ in range(2):  # it does not know of the seal, and then it does
        with pytest.raises(NotTheOwner):
            await write_late(stale)
        async with asyncio.timeout(5):
            while stale.state is LogState.OPENING:
                await asyncio.sleep(0.001)
    assert stale.lane(0).high == 4, "three records and the seal"
    await stale.abandon()
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"]


async def test_a_restart_in_the_middle_goes_on(filled: EngineHarness) -> None:
    filled.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "*@shared/0/segment*"))
    await filled.engine.topics.change_configs("t", adding("storage.placement", "shared"))
    await asyncio.sleep(0.1)
    assert filled.engine.topics.get("t").descriptor.moving is not None
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"], "read where it is meanwhile"
    assert await filled.append("t", b"0-3") == 3
    filled.plan.clear()
    await filled.reopen()
    await arrived(filled)
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2", b"0-3"]


async def test_what_cannot_be_done_on_the_way_is_refused(filled: EngineHarness) -> None:
    filled.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "*@shared/0/segment*"))
    admin = filled.engine.topics
    await admin.change_configs("t", adding("storage.placement", "shared"))
    with pytest.raises(TopicMoving):
        await admin.create_partitions("t", 9)
    await admin.change_configs("t", adding("retention.ms", "77"))
    await admin.change_configs("t", adding("storage.placement", "shared"))
    filled.plan.clear()
    await arrived(filled)
    assert filled.engine.topics.get("t").settings.retention_ms == 77
    await admin.create_partitions("t", 9)


async def test_the_old_place_is_left_alone_for_a_while_and_then_removed(
    filled: EngineHarness,
) -> None:
    await move(filled, "shared")
    await filled.parts.log_upkeep.tidy()
    assert [key for key in await filled.keys("default/t/0") if "segment" in key]
    filled.clock.advance_ms(records.LEFT_ALONE_MS)
    await filled.parts.log_upkeep.tidy()
    assert await filled.keys("default/t/0") == []
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"]
    await move(filled, "ordinary")
    filled.clock.advance_ms(records.LEFT_ALONE_MS)
    await filled.parts.log_upkeep.tidy()
    (log,) = [log for topic, log in filled.parts.logs.each() if topic is None]
    assert all(lane.start == lane.high for lane in log.lanes.values())
    await filled.reopen()
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"]


@pytest.mark.parametrize("ends", ["expires", "released"])
async def test_a_snapshot_of_the_old_place_holds_it_until_it_ends(
    filled: EngineHarness, ends: str
) -> None:
    expires_ms = filled.clock.now_ms() + 2 * records.LEFT_ALONE_MS
    pin = log_keys.pin("default/t/1", log_keys.Pin(0, 3, expires_ms), 7)
    await filled.objects.put_new(pin, [b""])
    before = await filled.keys("default/t/1")
    await move(filled, "shared")
    filled.clock.advance_ms(records.LEFT_ALONE_MS)
    await filled.parts.log_upkeep.tidy()
    assert set(before) <= set(await filled.keys("default/t/1")), "all that it had"
    assert await filled.keys("default/t/0") == [], "no pin holds that"
    if ends == "released":
        await filled.objects.delete([pin])
    for _ in range(3):
        filled.clock.advance_ms(records.LEFT_ALONE_MS + 1)
        await filled.parts.log_upkeep.tidy()
    assert await filled.keys("default/t/1") == []
    assert await filled.metadata.find(keys.REMOVALS) == []


async def test_a_snapshot_of_a_deleted_topic_ends_with_it(filled: EngineHarness) -> None:
    expires_ms = filled.clock.now_ms() + 10 * records.LEFT_ALONE_MS
    pin = log_keys.pin("default/t/1", log_keys.Pin(0, 3, expires_ms), 7)
    await filled.objects.put_new(pin, [b""])
    await filled.engine.topics.delete("t")
    await filled.parts.log_upkeep.tidy()
    assert await filled.keys("default/t/1") == []


async def test_committed_offsets_stay(filled: EngineHarness) -> None:
    await filled.engine.offsets.commit("g", [OffsetCommit("t", 0, 2)])
    await move(filled, "shared")
    filled.clock.advance_ms(records.LEFT_ALONE_MS)
    await filled.parts.log_upkeep.tidy()
    rows = await filled.engine.offsets.committed("g")
    assert rows["t", 0].offset == 2


async def test_a_topic_deleted_on_the_way_leaves_nothing_anywhere(filled: EngineHarness) -> None:
    await filled.engine.topics.create("stays", 1, LAYOUTS["shared"])
    await filled.append("stays", b"s")
    rule = Rule(Fault.FAIL_BEFORE, "put_new", "*@shared/0/manifest*")
    filled.plan.add(rule)
    await filled.engine.topics.change_configs("t", adding("storage.placement", "shared"))
    await filled.engine.topics.delete("t")
    filled.plan.clear()
    await filled.parts.log_upkeep.tidy()
    assert [key for key in await filled.keys("default/t") if "segment" in key] == []
    assert await all_values(filled, 0, "stays") == [b"s"]
    again = await filled.engine.topics.create("t", 1, {})
    assert again.descriptor.moving is None
    assert await filled.append("t", b"new") == 0


async def test_history_that_was_rolled_up_moves_too(filled: EngineHarness) -> None:
    for _, log in filled.parts.logs.each():
        await rollup.roll_up(log)
    await move(filled, "shared")
    assert await all_values(filled, 3) == [b"3-0", b"3-1", b"3-2"]


@pytest.mark.parametrize("layout", ["virtual", "shared"])
async def test_who_had_read_everything_goes_on_where_it_was(
    harness: EngineHarness, layout: str
) -> None:
    topic = await harness.engine.topics.create("t", 2, {})
    for _ in range(5):
        await harness.append("t", b"x")
    await harness.engine.partitions.delete_records(topic, 0, 5)
    await move(harness, layout)
    assert await harness.append("t", b"first") == 6
    found = await harness.read("t", 5)
    assert (found.error, found.start, found.high) == (None, 5, 7)
    assert [value for _, value in values_at(found)] == [b"first"]


async def test_a_sealed_partition_does_not_say_where_it_ends(filled: EngineHarness) -> None:
    topic = filled.engine.topics.get("t")
    log, lane = await filled.parts.logs.open(topic, 0)
    sealed = log.seal(lane.number).committed
    assert sealed is not None
    await wait_for_commit(sealed)
    with pytest.raises(NotTheOwner):
        await filled.engine.partitions.bounds(topic, 0, -1)


async def test_objects_of_a_move_do_not_grow_with_partitions(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 40, {})
    await move(harness, "shared")
    made = [key for verb, key in harness.store.calls if verb == "put_new" and "@shared/0/" in key]
    manifests = [key for key in made if "/manifest-" in key]
    segments = [key for key in made if "/segment-" in key and key.endswith(".kfs")]
    assert len(manifests) < 8
    assert len(segments) < 16


async def test_more_partitions_are_refused_if_a_move_came_between(harness: EngineHarness) -> None:
    await harness.engine.topics.create("t", 2, LAYOUTS["shared"])
    assert await harness.append("t", b"old") == 0
    allot = harness.engine.topics._changes.allot

    async def slow(count: int) -> LaneRange:
        found = await allot(count)
        await move(harness, "ordinary")
        return found

    harness.engine.topics._changes.allot = slow  # type: ignore[method-assign]
    with pytest.raises(TopicMoving):
        await harness.engine.topics.create_partitions("t", 3)
    harness.engine.topics._changes.allot = allot  # type: ignore[method-assign]
    await harness.reopen()
    assert await all_values(harness) == [b"old"]
    assert await harness.append("t", b"new") == 2


async def test_a_topic_deleted_as_it_arrives_leaves_no_old_place(filled: EngineHarness) -> None:
    topics = filled.engine.topics
    take_up = topics._changes._write_record
    once = asyncio.Event()

    async def slow(descriptor: TopicDescriptor, version: int) -> int:
        if descriptor.moves and not once.is_set():
            once.set()
            await filled.engine.topics.delete("t")
        return await take_up(descriptor, version)

    topics._changes._write_record = slow  # type: ignore[method-assign]
    await filled.engine.topics.change_configs("t", adding("storage.placement", "shared"))
    async with asyncio.timeout(20):
        await once.wait()
        while [key for key in await filled.keys("default/t") if "segment" in key]:
            await asyncio.sleep(0.01)
            filled.clock.advance_ms(records.LEFT_ALONE_MS)
            await filled.parts.log_upkeep.tidy()


async def test_a_start_that_could_not_be_raised_is_no_arrival(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_starts, copy = retention.raise_starts, copying.copy_lane
    lost: list[dict[int, int]] = []
    deleted = asyncio.Event()

    async def copied(*args: Any) -> copying.CopiedLane:
        found = await copy(*args)
        if not deleted.is_set():  # the new lane has the records already
            deleted.set()
            topic = filled.engine.topics.get("t")
            await filled.engine.partitions.delete_records(topic, 0, 2)
        return found

    async def unlucky(log: Log, starts: dict[int, int]) -> bool:
        if "@shared" in log.folder and not lost:
            lost.append(starts)
            return False  # another writer's manifest came between
        return await raise_starts(log, starts)

    monkeypatch.setattr(copying, "copy_lane", copied)
    monkeypatch.setattr(retention, "raise_starts", unlucky)
    await move(filled, "shared")
    assert lost
    assert (await filled.read("t", 2)).start == 2


async def test_an_arrival_is_told_though_the_metadata_store_stumbles(filled: EngineHarness) -> None:
    topics = filled.engine.topics
    take_up = topics._changes._write_record
    failed: list[int] = []

    async def stumbling(descriptor: TopicDescriptor, version: int) -> int:
        if descriptor.moves and not failed:
            failed.append(1)
            raise MetadataUnavailable("planned: an election")
        return await take_up(descriptor, version)

    topics._changes._write_record = stumbling  # type: ignore[method-assign]
    await filled.engine.topics.change_configs("t", adding("storage.placement", "shared"))
    await arrived(filled)
    async with asyncio.timeout(20):
        while True:
            found = await filled.metadata.get(keys.topic_config("t"))
            assert found is not None
            if keys.decode(keys.TopicRow, found.value).moving is None:
                break
            await asyncio.sleep(0.01)
    assert failed


async def test_a_shared_log_survives_a_lane_that_begins_late(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled.engine.topics.create("neighbour", 1, LAYOUTS["shared"])
    await filled.append("neighbour", b"n")
    topic = filled.engine.topics.get("t")
    await filled.engine.partitions.delete_records(topic, 0, 3)  # as retention does: nothing is left
    monkeypatch.setattr(steps, "NEAR_BYTES", -1)  # much is written elsewhere: it takes a while
    await filled.engine.topics.change_configs("t", adding("storage.placement", "shared"))
    await asyncio.sleep(0.3)
    (log,) = [log for one, log in filled.parts.logs.each() if one is None]
    await rollup.roll_up(log)
    assert await filled.append("t", b"first after all") == 3
    monkeypatch.setattr(steps, "NEAR_BYTES", 4 << 20)
    await arrived(filled)
    await filled.reopen()
    assert await all_values(filled, 0, "neighbour") == [b"n"]


async def test_a_seal_that_expires_does_not_keep_a_topic_on_its_way(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = MoveSteps.seal_old_lanes

    async def and_expire(self: MoveSteps, *args: Any) -> None:
        await seal(self, *args)
        harness.clock.advance_ms(5_000)
        await harness.parts.log_upkeep.tidy()

    monkeypatch.setattr(MoveSteps, "seal_old_lanes", and_expire)
    await harness.engine.topics.create("t", 1, {"retention.ms": "1000"})
    await harness.append("t", b"x")
    await move(harness, "shared")


async def test_one_partition_has_one_series_while_it_moves(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "NEAR_BYTES", -1)
    await filled.engine.topics.change_configs("t", adding("physical.partitions", "2"))
    engine = filled.engine
    async with asyncio.timeout(20):
        while len(list(engine._parts.logs.each())) < 6:  # the four it has and the two it moves to
            await asyncio.sleep(0.01)
    gauges = LogGauges(
        engine._parts.logs.each,
        engine.topics._registry.residents,
        lambda: engine.topics._registry.revision,
    )
    for rows in (gauges.lanes(), gauges.records()):
        seen = Counter(tuple(labels) for labels, _ in rows)
        assert set(seen.values()) == {1}


async def test_a_topic_that_arrives_meanwhile_is_not_sealed_in_its_new_home(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another broker decides that it has arrived while we wait for the reports of its move."""
    topic = await harness.engine.topics.create("t", 1, {})
    await harness.append("t", b"0")
    await move(harness, "shared")
    there = topic.descriptor
    leaving = Move(move_id="m", layout="shared", folder=there.folder, logs=0, shared=there.shared)
    old = msgspec.structs.replace(
        there, layout="ordinary", folder="default/t", logs=1, shared=[], configs={}
    )
    sealing = msgspec.structs.replace(leaving, sealing=True)
    topic.replace_descriptor(
        msgspec.structs.replace(old, moving=sealing), topic.version, TopicDefaults()
    )

    async def none_left(self: MoveReports, topic: Topic, move: Move) -> dict[str, MoveReport]:
        topic.replace_descriptor(there, topic.version, TopicDefaults())
        return {}

    monkeypatch.setattr(MoveReports, "find", none_left)
    await harness.parts.moves.step(topic)
    assert await harness.append("t", b"1") > 0


async def test_what_fails_in_one_log_does_not_hold_up_the_others(filled: EngineHarness) -> None:
    rule = Rule(Fault.FAIL_BEFORE, "put_new", "default/t@*/2/segment*")
    filled.plan.add(rule)
    await filled.engine.topics.change_configs("t", adding("physical.partitions", "3"))
    topic = filled.engine.topics.get("t")
    move = topic.descriptor.moving
    assert move is not None
    reports = MoveReports(filled.metadata)
    async with asyncio.timeout(20):
        while len(said := await reports.find(topic, move)) < 2:
            await asyncio.sleep(0.01)
    assert {folder.rpartition("/")[2] for folder in said} == {"0", "1"}
    filled.plan.clear()
    await arrived(filled)
    assert await all_values(filled, 2) == [b"2-0", b"2-1", b"2-2"]


async def test_what_is_near_is_copied_again_while_others_are_not(
    filled: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "AGAIN_S", 0.0)
    seen: list[int] = []
    decide = moves.Moves._decide

    async def later(self: moves.Moves, *args: Any) -> None:
        seen.append(1)
        if len(seen) > 2 and (await filled.append("t", b"late")) and len(seen) > 4:
            monkeypatch.setattr(moves.Moves, "_decide", decide)

    monkeypatch.setattr(moves.Moves, "_decide", later)
    await filled.engine.topics.change_configs("t", adding("physical.partitions", "3"))
    move = filled.engine.topics.get("t").descriptor.moving
    assert move is not None
    async with asyncio.timeout(20):
        while (log := filled.parts.logs._open.get(f"{move.folder}/0")) is None or (
            log.lane(0).high < 4
        ):
            await asyncio.sleep(0.01)
    await arrived(filled)
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2", b"late", b"late", b"late"]
