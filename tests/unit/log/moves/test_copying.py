"""Lanes that move from one log to another."""

import asyncio

import pytest

from kafscale.log.moves import copying, seals
from kafscale.log.moves.byte_budget import ByteBudget
from kafscale.log.moves.copying import LaneSource
from kafscale.log.protocol import survey
from kafscale.log.upkeep import retention, rollup
from kafscale.log.writer.lane import LaneRules
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.log.writer.types import wait_for_commit
from kafscale.model.errors import CorruptObject, NotTheOwner, ObjectMissing
from kafscale.objects.store import ObjectStore
from kafscale.records.batch import read_header, stamp, walk
from kafscale.records.record import open_batch
from tests.unit.log.log_harness import LogHarness, append, committed, make_batch


async def source_of(harness: LogHarness, log: Log, lane: int = 0) -> LaneSource:
    return copying.sources(await survey.take_snapshot(harness.store, log.folder), {lane})[lane]


async def copy(
    store: ObjectStore, source: LaneSource, log: Log, lane: int, most_bytes: int = 1 << 30
) -> int:
    """Copy and wait for the commit; gives how much there was."""
    budget = ByteBudget(1 << 20)
    copied = await copying.copy_lane(store, source, log, lane, most_bytes, budget)
    if copied.waiting is not None:
        await wait_for_commit(copied.waiting)
    assert budget.taken_bytes == 0
    return copied.size


async def records_of(
    harness: LogHarness, log: Log, lane: int, offset: int
) -> list[tuple[int, bytes]]:
    """What a reader from an offset on sees."""
    reader = harness.reader()
    found = []
    while offset < log.lane(lane).high:
        pieces = log.lane(lane).read_memory(offset, 1 << 20, at_least_one=True)
        if pieces is None:
            pieces = await reader.read(log, log.lane(lane), offset, 1 << 20, at_least_one=True)
        headers = [(piece, header) for piece in pieces for _, header in walk(piece)]
        assert headers, f"nothing at {offset}"
        for piece, header in headers:
            if header.record_count and not header.is_control:
                found += [(row.offset, row.value or b"") for row in open_batch(piece, 1 << 24)]
            offset = max(offset, header.next_offset)
    return found


async def sealed(log: Log, lane: int = 0) -> None:
    done = log.seal(lane).committed
    assert done is not None
    await wait_for_commit(done)


@pytest.mark.parametrize(
    ("producer", "epoch", "sequence"), [(7, 0, 1), (7, 0, 2), (7, 1, 5), (8, 0, 3)]
)
async def test_a_sealed_lane_does_not_answer_that_batches_are_missing(
    harness: LogHarness, producer: int, epoch: int, sequence: int
) -> None:
    log = await harness.open("ns/old")
    await committed(append(log, make_batch(b"0", producer=7), 0))
    await sealed(log)
    for one in (log, await harness.open("ns/old")):
        again = append(one, make_batch(b"0", producer=7), 0)
        assert (again.first, again.is_duplicate) == (0, True)
        with pytest.raises(NotTheOwner):
            append(one, make_batch(b"x", producer=producer, epoch=epoch, sequence=sequence), 0)


async def test_a_seal_that_was_not_written_seals_nothing(harness: LogHarness) -> None:
    log, other = await harness.open("ns/old"), await harness.open("ns/old")
    await committed(append(other, make_batch(b"0"), 0))
    lost = log.seal(0).committed
    assert lost is not None
    with pytest.raises(NotTheOwner):
        await wait_for_commit(lost)
    while log.state is not LogState.OPEN:
        await asyncio.sleep(0)
    assert not log.lane(0).producers.is_sealed
    await sealed(log)
    assert (await harness.open("ns/old")).lane(0).producers.is_sealed


async def test_a_copy_has_the_offsets_of_its_source(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    for number in range(5):
        await committed(append(old, make_batch(b"%d" % number, b"-"), 0))
    await committed(append(new, make_batch(b"a neighbour"), 2))
    copied = await copy(harness.store, await source_of(harness, old), new, 7)
    assert copied == 5 * len(make_batch(b"0", b"-"))
    assert await copy(harness.store, await source_of(harness, old), new, 7) == 0
    wanted = [(2 * n + at, value) for n in range(5) for at, value in enumerate((b"%d" % n, b"-"))]
    assert await records_of(harness, new, 7, 0) == wanted
    again = await harness.open("ns/new")
    assert (again.lane(7).start, again.lane(7).high) == (0, 10)


async def test_what_began_late_begins_late(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    for number in range(4):
        await committed(append(old, make_batch(b"%d" % number), 0))
    await retention.raise_starts(old, {0: 2})
    await copy(harness.store, await source_of(harness, old), new, 1)
    for log in (new, await harness.open("ns/new")):
        assert (log.lane(1).start, log.lane(1).high) == (2, 4)
    assert await records_of(harness, new, 1, 2) == [(2, b"2"), (3, b"3")]


async def test_offsets_that_nothing_is_left_of_are_taken(harness: LogHarness) -> None:
    new = await harness.open("ns/new")
    for first in (10, 14, 20):
        raw = make_batch(b"x")
        stamp(raw, first, 0)
        await wait_for_commit(new.adopt(3, read_header(raw), raw))
    again = await harness.open("ns/new")
    assert (again.lane(3).start, again.lane(3).high) == (10, 21)
    for log in (new, again):
        for offset in (10, 11, 13, 14, 17, 19):
            rest = [(at, b"x") for at in (10, 14, 20) if at >= offset]
            assert await records_of(harness, log, 3, offset) == rest


async def test_a_sealed_lane_takes_nothing_more_and_its_neighbours_do(harness: LogHarness) -> None:
    log = await harness.open()
    await committed(append(log, make_batch(b"a"), 0))
    await sealed(log)
    with pytest.raises(NotTheOwner):
        append(log, make_batch(b"late"), 0)
    await committed(append(log, make_batch(b"b"), 1))
    assert log.seal(0).is_duplicate
    await rollup.roll_up(log)
    again = await harness.open()
    with pytest.raises(NotTheOwner):
        append(again, make_batch(b"late"), 0)
    assert again.lane(0).high == 2


async def test_the_seal_outlives_producers_that_are_forgotten(harness: LogHarness) -> None:
    log = await harness.open()
    await sealed(log)
    harness.clock.advance_ms(100 * log.settings.producer_expiry_ms)
    await rollup.roll_up(log)
    assert log.lane(0).producers.is_sealed
    assert (await harness.open()).lane(0).producers.is_sealed


async def test_a_seal_that_is_copied_seals_nothing(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    await committed(append(old, make_batch(b"a"), 0))
    await sealed(old)
    await copy(harness.store, await source_of(harness, old), new, 0)
    assert new.lane(0).high == 2
    await committed(append(new, make_batch(b"b"), 0))
    assert await records_of(harness, new, 0, 0) == [(0, b"a"), (2, b"b")]


async def test_epochs_do_not_go_back(harness: LogHarness) -> None:
    new = await harness.open("ns/new")
    raw = make_batch(b"x")
    stamp(raw, 0, new.epoch + 5)
    await wait_for_commit(new.adopt(0, read_header(raw), raw))
    await committed(append(new, make_batch(b"y"), 0))
    assert [epoch for epoch, _ in new.lane(0).epochs] == [new.epoch]
    assert new.newest_epoch >= new.epoch == read_header(raw).leader_epoch


async def test_batches_larger_than_a_step_are_copied_whole(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    large = b"l" * (5 << 20)
    for value in (b"small", large, b"small"):
        await committed(append(old, make_batch(value), 0))
    await rollup.roll_up(old)
    await copy(harness.store, await source_of(harness, old), new, 0)
    found = await records_of(harness, new, 0, 0)
    assert found == [(0, b"small"), (1, large), (2, b"small")]


async def test_a_pass_ends_when_it_has_copied_enough(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    for number in range(6):
        await committed(append(old, make_batch(b"%d" % number), 0))
    passes = 0
    while new.lane(0).high < 6:
        await copy(harness.store, await source_of(harness, old), new, 0, 1)
        passes += 1
    assert passes == 6


async def test_broken_bytes_are_not_copied(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    await committed(append(old, make_batch(b"abcdef"), 0))
    source = await source_of(harness, old)
    key = source.parts[0].key
    body = bytearray(await harness.store.read(key))
    body[source.parts[0].span.start + 70] ^= 1
    await harness.store.delete([key])
    await harness.store.put_new(key, [body])
    with pytest.raises(CorruptObject, match="broken"):
        await copy(harness.store, source, new, 0)
    assert new.lane(0).high == 0


async def test_what_is_there_already_is_not_taken_again(harness: LogHarness) -> None:
    new = await harness.open("ns/new")
    raw = make_batch(b"x")
    await wait_for_commit(new.adopt(0, read_header(raw), raw))
    with pytest.raises(NotTheOwner):
        new.adopt(0, read_header(raw), raw)


async def test_a_lane_that_was_only_looked_at_may_begin_anywhere(harness: LogHarness) -> None:
    new = await harness.open("ns/new")
    assert new.lane(3).high == 0
    await committed(append(new, make_batch(b"a neighbour"), 0))
    await rollup.roll_up(new)
    raw = make_batch(b"x")
    stamp(raw, 10, 0)
    await wait_for_commit(new.adopt(3, read_header(raw), raw))
    again = await harness.open("ns/new")
    assert (again.lane(3).start, again.lane(3).high) == (10, 11)


async def test_a_seal_that_lost_its_race_can_be_set_again(harness: LogHarness) -> None:
    log, other = await harness.open(), await harness.open()
    await committed(append(other, make_batch(b"foreign"), 1))
    with pytest.raises(NotTheOwner):
        await sealed(log)
    async with asyncio.timeout(20):
        while log.state is LogState.OPENING:
            await asyncio.sleep(0.001)
    await sealed(log)


async def test_a_lane_whose_offsets_are_used_up_can_be_sealed(harness: LogHarness) -> None:
    log = await harness.open()
    log.lane(0).rules = LaneRules(offset_range=2)
    await committed(append(log, make_batch(b"a", b"b"), 0))
    await sealed(log)


async def test_a_sealed_lane_does_not_answer_that_a_sequence_is_wrong(harness: LogHarness) -> None:
    log = await harness.open()
    await sealed(log)
    for sequence in (0, 1):  # both were in flight
        with pytest.raises(NotTheOwner):
            append(log, make_batch(b"x", producer=7, sequence=sequence), 0)


async def test_producers_go_on_though_key_compaction_took_their_last_batch(
    harness: LogHarness,
) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    await committed(append(old, make_batch(b"a", producer=7, sequence=0), 0))
    await committed(append(old, make_batch(b"b", producer=7, sequence=1), 0))
    await committed(append(old, make_batch(b"newer b", producer=8, sequence=0), 0))
    await rollup.roll_up(old, merge=False)
    source = await source_of(harness, old)
    left = [row for row in source.parts if row.span.first != 1]
    await copy(harness.store, source._replace(parts=left), new, 0)
    new.lane(0).rules = LaneRules(accepts_unknown_sequences=True)
    assert await committed(append(new, make_batch(b"c", producer=7, sequence=2), 0)) == 3


class SlowSecondRead:
    """A store whose second read takes until a log has been opened again."""

    def __init__(self, harness: LogHarness, log: Log) -> None:
        self._bench = harness
        self._log = log
        self._reads = 0

    async def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        self._reads += 1
        if self._reads == 2:
            async with asyncio.timeout(20):
                while 9 not in self._log.lanes or self._log.state is not LogState.OPEN:
                    await asyncio.sleep(0.001)
        return await self._bench.store.read(key, start, length)


async def test_a_log_opened_again_while_copying_loses_no_record(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new", flush_interval_s=0.05)
    for number in range(3):
        await committed(append(old, make_batch(b"%d" % number), 0))
    other = await harness.open("ns/new")
    await committed(append(other, make_batch(b"a neighbour"), 9))  # a broker that slept, or a job
    source = await source_of(harness, old)
    with pytest.raises(NotTheOwner):
        await copy(SlowSecondRead(harness, new), source, new, 0)  # type: ignore[arg-type]
    await copy(harness.store, source, new, 0)
    assert await records_of(harness, new, 0, 0) == [(0, b"0"), (1, b"1"), (2, b"2")]
    assert new.lane(0).start == 0


async def test_what_expired_on_the_way_still_has_its_offsets(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    await committed(append(old, make_batch(b"a"), 0))
    await sealed(old)
    await retention.raise_starts(old, {0: 2})
    source = await source_of(harness, old)
    await copy(harness.store, source, new, 5)
    assert new.lane(5).high == 2
    assert (await harness.open("ns/new")).lane(5).high == 2


async def test_lanes_are_sealed_by_one_flush(harness: LogHarness) -> None:
    log = await harness.open()
    before = len(await harness.store.find(log.folder))
    assert await seals.seal_all(log, range(50)) == dict.fromkeys(range(50), 1)
    assert len(await harness.store.find(log.folder)) == before + 1


async def test_seals_do_not_wait_for_the_time_of_a_flush(harness: LogHarness) -> None:
    log = await harness.open(flush_interval_s=3600.0)
    async with asyncio.timeout(20):
        await seals.seal_all(log, range(3))


async def test_what_is_sealed_already_has_its_end(harness: LogHarness) -> None:
    log = await harness.open()
    await sealed(log)
    assert await seals.seal_all(log, [0, 1]) == {0: 1, 1: 1}


async def test_lanes_share_what_they_may_hold_and_all_come_to_their_end(
    harness: LogHarness,
) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new", flush_interval_s=0.01)
    for lane in range(6):
        for _ in range(4):
            await committed(append(old, make_batch(b"x" * 1000), lane))
    seen = await survey.take_snapshot(harness.store, old.folder)
    budget = ByteBudget(2500)  # two batches, and not three

    async def one(lane: int, source: LaneSource) -> None:
        copied = await copying.copy_lane(harness.store, source, new, lane, 1 << 30, budget)
        assert copied.waiting is not None
        await wait_for_commit(copied.waiting)

    async with asyncio.timeout(20):
        await asyncio.gather(*(one(*row) for row in copying.sources(seen, range(6)).items()))
    assert [new.lane(lane).high for lane in range(6)] == [4] * 6
    assert budget.taken_bytes == 0


async def test_a_copy_that_fails_holds_nothing(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    await committed(append(old, make_batch(b"a"), 0))
    source = await source_of(harness, old)
    await harness.store.delete([source.parts[0].key])
    budget = ByteBudget(1 << 20)
    with pytest.raises(ObjectMissing):
        await copying.copy_lane(harness.store, source, new, 0, 1 << 30, budget)
    assert budget.taken_bytes == 0


async def test_only_the_lanes_that_are_wanted_are_looked_for(harness: LogHarness) -> None:
    old = await harness.open("ns/old")
    for lane in range(3):
        await committed(append(old, make_batch(b"x"), lane))
    seen = await survey.take_snapshot(harness.store, old.folder)
    assert set(copying.sources(seen, {1, 7})) == {1}


async def test_producers_that_no_batch_tells_of_get_into_a_manifest(harness: LogHarness) -> None:
    """The one who had learnt of them is gone, and a roll-up came before the next one."""
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    await committed(append(old, make_batch(b"a", producer=7, sequence=0), 0))
    await committed(append(old, make_batch(b"b"), 0))
    await rollup.roll_up(old, merge=False)
    source = await source_of(harness, old)
    left = source._replace(parts=[row for row in source.parts if row.span.first == 1])
    await copy(harness.store, left._replace(producers=[]), new, 0)
    await rollup.roll_up(new)
    assert await copy(harness.store, left, new, 0) == 0
    assert not copying.is_in_manifest(new, 0)
    await rollup.roll_up(new)
    assert not copying.is_in_manifest(new, 0), "there was no tail"
    await rollup.roll_up(new, always=True)
    assert copying.is_in_manifest(new, 0)
    again = await harness.open("ns/new")
    assert [row.producer_id for row in again.lane(0).producers.snapshot(2)] == [7]


async def test_what_many_lanes_have_in_one_object_is_read_once(harness: LogHarness) -> None:
    old, new = await harness.open("ns/old"), await harness.open("ns/new")
    ends = await seals.seal_all(old, range(20))
    seen = await survey.take_snapshot(harness.store, old.folder)
    harness.store.calls.clear()
    store = await copying.read_ends(harness.store, [(seen, range(20))])
    for lane, source in copying.sources(seen, range(20)).items():
        copied = await copying.copy_lane(store, source, new, lane, 1 << 30, ByteBudget(1 << 20))
        assert copied.waiting is not None
        await wait_for_commit(copied.waiting)
    assert len([key for verb, key in harness.store.calls if verb == "read"]) == 1
    assert {lane: new.lane(lane).high for lane in range(20)} == ends


async def test_what_few_lanes_have_in_an_object_is_read_by_itself(harness: LogHarness) -> None:
    old = await harness.open("ns/old")
    await seals.seal_all(old, range(20))
    seen = await survey.take_snapshot(harness.store, old.folder)
    harness.store.calls.clear()
    await copying.read_ends(harness.store, [(seen, range(3))])
    assert harness.store.calls == []
