"""Topics that move from one layout to another while they are used."""

import asyncio

import msgspec
import pytest

from kafscale.engine import removals
from kafscale.engine.offsets import Wish
from kafscale.engine.reads import Part
from kafscale.log import history
from kafscale.log.lane import TailMemory
from kafscale.log.log import Log, LogSettings, State
from kafscale.log.moving import committed, seal
from kafscale.metadata.keys import MoveReport
from kafscale.model.errors import NotTheOwner, OutOfOrderSequence, TopicMoving
from kafscale.model.topics import Move, TopicDefaults
from kafscale.records.batch import read_header, walk
from kafscale.records.record import open_batch
from kafscale.testing.clock import SeededDice
from kafscale.testing.faulty_store import Fault, Rule
from tests.unit.engine.shop import Shop, values_of
from tests.unit.engine.test_administration import adding
from tests.unit.gateways.kafka.caller import make_batch

LAYOUTS = {
    "ordinary": {"storage.placement": "dedicated", "physical.partitions": "-1"},
    "virtual": {"storage.placement": "dedicated", "physical.partitions": "2"},
    "shared": {"storage.placement": "shared"},
}


async def arrived(shop: Shop, name: str = "t") -> None:
    """Do all steps of a move."""
    topic = shop.engine.topics.get(name)
    async with asyncio.timeout(20):
        while topic.descriptor.moving is not None:
            await asyncio.sleep(0.01)


async def move(shop: Shop, layout: str, name: str = "t") -> None:
    wanted = LAYOUTS[layout]
    await shop.engine.admin.change_configs(name, lambda old: {**old, **wanted})
    await arrived(shop, name)
    assert shop.engine.topics.get(name).descriptor.layout == layout


async def all_values(shop: Shop, partition: int = 0, name: str = "t") -> list[bytes]:
    """What a consumer from the beginning sees: control batches are passed over."""
    found = await shop.read(name, 0, partition)
    offset, values = found.start, []
    while offset < found.high:
        part = await shop.read(name, offset, partition)
        assert part.batches, f"nothing at {offset} of {part.high}"
        for at, value in values_at(part):
            if at >= offset:
                values.append(value)
        offset = next_offset(part)
    return values


def values_at(part: Part) -> list[tuple[int, bytes]]:
    return [
        (record.offset, record.value or b"")
        for piece in part.batches
        for at, header in walk(piece)
        if not header.is_control
        for record in open_batch(piece[at : at + header.size], 1 << 20)
    ]


def next_offset(part: Part) -> int:
    return max(header.next_offset for piece in part.batches for _, header in walk(piece))


def seventh(sequence: int) -> dict[str, int]:
    return {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}


async def write_late(log: Log) -> None:
    raw = memoryview(bytearray(make_batch(b"late")))
    appended = log.append(0, read_header(raw), raw, acknowledged=False)
    assert appended.committed is not None
    await committed(appended.committed)


@pytest.fixture
async def filled(shop: Shop) -> Shop:
    await shop.engine.create_topic("t", 4, {})
    for partition in range(4):
        for turn in range(3):
            await shop.append("t", b"%d-%d" % (partition, turn), partition=partition)
    return shop


ROUTES = [(a, b) for a in LAYOUTS for b in LAYOUTS if a != b]


@pytest.mark.parametrize(("start", "end"), ROUTES)
async def test_records_keep_their_offsets_and_order(shop: Shop, start: str, end: str) -> None:
    await shop.engine.create_topic("t", 4, dict(LAYOUTS[start]))
    await shop.engine.create_topic("neighbour", 2, LAYOUTS["shared"])
    for partition in range(4):
        for turn in range(3):
            await shop.append("t", b"%d-%d" % (partition, turn), partition=partition)
    await shop.append("neighbour", b"n", partition=1)
    await move(shop, end)
    for _ in range(2):
        for partition in range(4):
            assert await all_values(shop, partition) == [
                b"%d-%d" % (partition, n) for n in range(3)
            ]
            found = await shop.read("t", 2, partition)
            assert values_of(found)[0] == b"%d-2" % partition
        assert await all_values(shop, 1, "neighbour") == [b"n"]
        await shop.reopen()
    assert await shop.append("t", b"after") == 4, "the seal has had an offset"
    assert await all_values(shop) == [b"0-0", b"0-1", b"0-2", b"after"]


async def test_to_and_fro_and_to_again(filled: Shop) -> None:
    wanted = [b"0-0", b"0-1", b"0-2"]
    for turn, layout in enumerate(("shared", "ordinary", "virtual", "shared", "ordinary")):
        await move(filled, layout)
        await filled.append("t", b"%d" % turn)
        wanted.append(b"%d" % turn)
        assert await all_values(filled) == wanted
    await filled.reopen()
    assert await all_values(filled) == wanted


async def test_a_partition_without_records_stays_without(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    await move(shop, "shared")
    found = await shop.read("t", 1)
    assert (found.error, found.start, found.high) == (None, 1, 1)
    assert await shop.append("t", b"first") == 1


async def test_what_was_deleted_stays_deleted(filled: Shop) -> None:
    topic = filled.engine.topics.get("t")
    await filled.engine.admin.delete_records(topic, 0, 2)
    await filled.engine.admin.delete_records(topic, 1, 3)
    await move(filled, "shared")
    assert (await filled.read("t", 2)).start == 2
    assert await all_values(filled) == [b"0-2"]
    assert await all_values(filled, 1) == []
    await filled.reopen()
    assert (await filled.read("t", 2)).start == 2


async def test_producers_go_on_counting(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    assert await shop.append("t", b"a", **seventh(0)) == 0
    assert await shop.append("t", b"b", **seventh(1)) == 1
    await move(shop, "shared")
    assert await shop.append("t", b"b", **seventh(1)) == 1, "known: not stored twice"
    assert await shop.append("t", b"c", **seventh(2)) == 3
    assert await all_values(shop) == [b"a", b"b", b"c"]


async def test_nothing_is_lost_of_what_is_written_meanwhile(shop: Shop) -> None:
    await shop.engine.create_topic("t", 2, {})
    acknowledged: list[list[bytes]] = [[], []]
    refused = 0
    stop = False

    async def produce(partition: int) -> None:
        nonlocal refused
        number = 0
        while not stop:
            value = b"%d" % number
            try:
                await shop.append("t", value, partition=partition)
            except NotTheOwner:
                refused += 1
                await asyncio.sleep(0.001)
                continue  # as a client does: the same again
            acknowledged[partition].append(value)
            number += 1
            await asyncio.sleep(0)

    writers = [asyncio.create_task(produce(partition)) for partition in range(2)]
    for layout in ("shared", "virtual", "ordinary"):
        await asyncio.sleep(0.05)
        await move(shop, layout)
    stop = True
    await asyncio.gather(*writers)
    for partition in range(2):
        assert len(acknowledged[partition]) > 10
        assert await all_values(shop, partition) == acknowledged[partition]


async def test_a_sealed_lane_takes_nothing_whoever_writes_the_log(filled: Shop) -> None:
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
            while stale.state is State.OPENING:
                await asyncio.sleep(0.001)
    assert stale.lane(0).high == 4, "three records and the seal"
    await stale.abandon()
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"]


async def test_a_restart_in_the_middle_goes_on(filled: Shop) -> None:
    filled.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "*@shared/0/segment*"))
    await filled.engine.admin.change_configs("t", adding("storage.placement", "shared"))
    await asyncio.sleep(0.1)
    assert filled.engine.topics.get("t").descriptor.moving is not None
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"], "read where it is meanwhile"
    assert await filled.append("t", b"0-3") == 3
    filled.plan.clear()
    await filled.reopen()
    await arrived(filled)
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2", b"0-3"]


async def test_what_cannot_be_done_on_the_way_is_refused(filled: Shop) -> None:
    filled.plan.add(Rule(Fault.FAIL_BEFORE, "put_new", "*@shared/0/segment*"))
    admin = filled.engine.admin
    await admin.change_configs("t", adding("storage.placement", "shared"))
    with pytest.raises(TopicMoving):
        await admin.create_partitions("t", 9)
    with pytest.raises(TopicMoving):
        await admin.change_configs("t", adding("storage.placement", "dedicated"))
    await admin.change_configs("t", adding("retention.ms", "77"))
    await admin.change_configs("t", adding("storage.placement", "shared"))
    filled.plan.clear()
    await arrived(filled)
    assert filled.engine.topics.get("t").settings.retention_ms == 77
    await admin.create_partitions("t", 9)


async def test_the_old_place_is_left_alone_for_a_while_and_then_removed(filled: Shop) -> None:
    await move(filled, "shared")
    await filled.engine.housekeeping.tidy()
    assert [key for key in await filled.keys("default/t/0") if "segment" in key]
    filled.clock.advance_ms(removals.LEFT_ALONE_MS)
    await filled.engine.housekeeping.tidy()
    assert await filled.keys("default/t/0") == []
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"]
    await move(filled, "ordinary")
    filled.clock.advance_ms(removals.LEFT_ALONE_MS)
    await filled.engine.housekeeping.tidy()
    (log,) = [log for topic, log in filled.engine.logs.each() if topic is None]
    assert all(lane.start == lane.high for lane in log.lanes.values())
    await filled.reopen()
    assert await all_values(filled) == [b"0-0", b"0-1", b"0-2"]


async def test_committed_offsets_stay(filled: Shop) -> None:
    await filled.engine.offsets.commit("g", [Wish("t", 0, 2)])
    await move(filled, "shared")
    filled.clock.advance_ms(removals.LEFT_ALONE_MS)
    await filled.engine.housekeeping.tidy()
    rows = await filled.engine.offsets.committed("g")
    assert rows["t", 0].offset == 2


async def test_a_topic_deleted_on_the_way_leaves_nothing_anywhere(filled: Shop) -> None:
    await filled.engine.create_topic("stays", 1, LAYOUTS["shared"])
    await filled.append("stays", b"s")
    rule = Rule(Fault.FAIL_BEFORE, "put_new", "*@shared/0/manifest*")
    filled.plan.add(rule)
    await filled.engine.admin.change_configs("t", adding("storage.placement", "shared"))
    await filled.engine.delete_topic("t")
    filled.plan.clear()
    await filled.engine.housekeeping.tidy()
    assert [key for key in await filled.keys("default/t") if "segment" in key] == []
    assert await all_values(filled, 0, "stays") == [b"s"]
    again = await filled.engine.create_topic("t", 1, {})
    assert again.descriptor.moving is None
    assert await filled.append("t", b"new") == 0


async def test_history_that_was_rolled_up_moves_too(filled: Shop) -> None:
    for _, log in filled.engine.logs.each():
        await history.roll_up(log)
    await move(filled, "shared")
    assert await all_values(filled, 3) == [b"3-0", b"3-1", b"3-2"]


async def test_a_broker_that_hears_late_seals_nothing_in_the_new_place(
    filled: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, moves = filled.engine.topics.get("t"), filled.engine.moves
    old, defaults = topic.descriptor, TopicDefaults()
    await move(filled, "shared")
    new = topic.descriptor
    on_its_way = Move(
        move_id="0" * 16,
        layout=new.layout,
        folder=new.folder,
        logs=new.logs,
        shared=new.shared,
        sealing=True,
    )

    async def nothing_more(*_: object) -> dict[str, MoveReport]:
        """The topic arrives, and its reports are removed, while this broker asks for them."""
        topic.become(new, defaults)
        return {}

    monkeypatch.setattr(moves, "_reports", nothing_more)
    topic.become(msgspec.structs.replace(old, moving=on_its_way), defaults)
    await moves.step(topic)
    assert topic.descriptor == new
    assert await filled.append("t", b"after") == 4


async def test_retention_that_takes_the_seal_does_not_end_the_move(filled: Shop) -> None:
    held = filled.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*@shared/0/segment*"))
    await filled.engine.admin.change_configs("t", adding("storage.placement", "shared"))
    await held.reached.wait()
    topic = filled.engine.topics.get("t")
    place = topic.place(0)
    log = await filled.engine.logs.open_log(place.folder, topic)
    appended = seal(log, place.lane)
    assert appended.committed is not None
    await committed(appended.committed)
    assert await history.raise_starts(log, {place.lane: 4})
    filled.plan.clear()
    await arrived(filled)
    found = await filled.read("t", 4)
    assert (found.error, found.start, found.high) == (None, 4, 4)
    assert await filled.append("t", b"after") == 4


async def test_a_start_that_lost_its_race_is_moved_later(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_starts, asked = history.raise_starts, 0

    async def lost_once(log: Log, starts: dict[int, int]) -> bool:
        nonlocal asked
        asked += 1
        return asked > 1 and await raise_starts(log, starts)

    monkeypatch.setattr(history, "raise_starts", lost_once)
    await shop.engine.create_topic("t", 1, {})
    await move(shop, "shared")
    assert (await shop.read("t", 1)).start == 1, "the seal of an empty partition is passed over"


async def test_what_was_sent_behind_a_refused_batch_does_not_come_before_it(shop: Shop) -> None:
    await shop.engine.create_topic("t", 1, {})
    await shop.append("t", b"of others")
    held = shop.plan.add(Rule(Fault.STALL_BEFORE, "put_new", "*@shared/0/segment*"))
    await shop.engine.admin.change_configs("t", adding("storage.placement", "shared"))
    await held.reached.wait()
    topic = shop.engine.topics.get("t")
    log = await shop.engine.logs.open_log(topic.folder(0), topic)
    appended = seal(log, 0)
    assert appended.committed is not None
    await committed(appended.committed)
    with pytest.raises(NotTheOwner):
        await shop.append("t", b"first", **seventh(0))
    shop.plan.clear()
    await arrived(shop)
    with pytest.raises(OutOfOrderSequence):
        await shop.append("t", b"second", **seventh(1))
    await shop.append("t", b"first", **seventh(0))
    await shop.append("t", b"second", **seventh(1))
    await shop.append(
        "t", b"of one it does not know", producer_id=8, producer_epoch=0, base_sequence=5
    )
    assert (await all_values(shop))[:3] == [b"of others", b"first", b"second"]


async def test_a_wish_that_a_move_has_overtaken_is_refused(filled: Shop) -> None:
    topic = filled.engine.topics.get("t")
    old = topic.descriptor
    await move(filled, "shared")
    new = topic.descriptor
    topic.become(old, TopicDefaults())  # this broker has not heard of it
    with pytest.raises(TopicMoving):
        await filled.engine.admin.change_configs("t", adding("storage.placement", "dedicated"))
    topic.become(new, TopicDefaults())
    await filled.engine.admin.change_configs("t", adding("retention.ms", "77"))
    assert topic.descriptor.moving is None
    assert topic.descriptor.layout == "shared"
