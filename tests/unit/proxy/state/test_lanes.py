"""Which batches count: against a plain count over the same log, with checkpoints and retention."""

import random

import pytest

from kafscale.model.errors import CorruptBatch, DuplicateSequence
from kafscale.proxy.state import lanes
from kafscale.proxy.state.checkpoints import (
    UnreadableCheckpoint,
    read_checkpoint,
    write_checkpoint,
)
from kafscale.proxy.state.lanes import PhysicalLog, PlaceMark, VirtualLane
from kafscale.proxy.state.tags import Tag, TaggedProducer, with_definition, write_tag
from kafscale.records.batch import read_header, stamp
from kafscale.records.record import Record, build_batch

NOW_MS = 1_000_000


def batch_of(count: int, tag: Tag | None, place: int, time_ms: int = 1000) -> memoryview:
    records = [Record(at, time_ms, None, b"x" * 10) for at in range(count)]
    made = bytearray(build_batch(records, base_offset=0))
    if tag is not None:
        if tag.defines:
            made = with_definition(memoryview(made), TaggedProducer(tag.number + 100, 0), 1 << 20)
        write_tag(made, tag)
    stamp(made, place, 0)
    return memoryview(made)


def apply(log: PhysicalLog, batch: memoryview) -> int | None:
    applied = log.apply(read_header(batch), batch, NOW_MS)
    return None if applied is None else applied.offset


def test_each_lane_counts_from_zero() -> None:
    log = PhysicalLog()
    assert apply(log, batch_of(3, Tag(1, 0, 0, 0), 0)) == 0
    assert apply(log, batch_of(2, Tag(4, 0, 0, 0), 3)) == 0
    assert apply(log, batch_of(2, Tag(1, 3, 0, 0), 5)) == 3
    assert (log.lane(1).next, log.lane(4).next, log.next_place) == (5, 2, 7)


def test_a_copy_and_a_batch_before_its_turn_do_not_count() -> None:
    log = PhysicalLog()
    apply(log, batch_of(3, Tag(1, 0, 0, 0), 0))
    assert apply(log, batch_of(3, Tag(1, 0, 0, 0), 3)) is None
    assert apply(log, batch_of(3, Tag(1, 9, 0, 0), 6)) is None
    assert log.void_batches == 2
    assert apply(log, batch_of(1, Tag(1, 3, 0, 0), 9)) == 3


def test_plain_producers_write_to_lane_zero() -> None:
    log = PhysicalLog()
    assert apply(log, batch_of(4, None, 0)) == 0
    assert apply(log, batch_of(4, Tag(0, 4, 0, 0), 4)) == 4
    assert apply(log, batch_of(1, None, 8)) == 8
    assert log.plain_batches == 2


def test_producers_are_remembered_by_their_numbers() -> None:
    log = PhysicalLog()
    apply(log, batch_of(3, Tag(2, 0, 55, 0, True, True), 0))
    assert log.number_of(TaggedProducer(155, 0)) == 55
    again = read_header(batch_of(3, None, 0))._replace(
        producer_id=155, producer_epoch=0, base_sequence=0
    )
    table = log.lane(2).producers
    assert table is not None
    assert table.judge(again) == 0
    with pytest.raises(DuplicateSequence):
        table.judge(again._replace(last_offset_delta=1))


class Reference:
    """A log of batches, counted the plain way."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.batches: list[memoryview] = []
        self.counted: list[tuple[int, int, int, int]] = []  # lane, offset, count, place
        self.next: dict[int, int] = {}
        self.place = 0

    def grow(self) -> None:
        lane, count = self.dice.randrange(5), self.dice.randrange(1, 6)
        offset = self.next.get(lane, 0)
        kind = self.dice.random()
        if kind < 0.1:
            tag: Tag | None = Tag(lane, max(0, offset - 1), 0, 0)
        elif kind < 0.2:
            tag = Tag(lane, offset + 3, 0, 0)
        elif kind < 0.3:
            tag, lane = None, 0
            offset = self.next.get(0, 0)
        else:
            tag = Tag(lane, offset, 0, 0)
        self.batches.append(batch_of(count, tag, self.place, self.dice.randrange(1000)))
        if tag is None or tag.offset == offset:
            self.counted.append((lane, offset, count, self.place))
            self.next[lane] = offset + count
        self.place += count


@pytest.mark.parametrize("seed", range(30))
def test_a_state_from_a_checkpoint_equals_one_from_the_whole_log(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "CHUNK_BYTES", 400)
    monkeypatch.setattr(lanes, "MOST_MARKS", 40)
    reference = Reference(random.Random(seed))
    log = PhysicalLog()
    for _ in range(300):
        reference.grow()
        apply(log, reference.batches[-1])
        if reference.dice.random() < 0.05:
            log = read_checkpoint(write_checkpoint(log, NOW_MS))
    assert {number: lane.next for number, lane in log.lanes.items() if lane.next} == reference.next
    places = {(lane, offset): place for lane, offset, _, place in reference.counted}
    for number, lane in log.lanes.items():
        for offset, place, _, _ in lane.marks:
            assert places[number, offset] == place
        for lane_of, offset, count, place in reference.counted:
            if lane_of == number:
                mark = lane.mark_of(offset + count - 1)
                assert mark is not None
                assert mark.place <= place
    assert sum(map(len, log.lanes.values())) <= 40


@pytest.mark.parametrize("seed", range(20))
def test_a_lane_begins_at_its_first_record_that_is_left(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "CHUNK_BYTES", 700)
    reference = Reference(random.Random(seed))
    log = PhysicalLog()
    for _ in range(200):
        reference.grow()
        apply(log, reference.batches[-1])
    starts = sorted(reference.dice.sample([row[3] for row in reference.counted], 4))
    for start in starts:
        left = [row for row in reference.counted if row[3] >= start]
        firsts = {}
        for lane, offset, _, place in left:
            firsts.setdefault(lane, PlaceMark(offset, place))
        straddling = log.straddling(start)
        assert straddling <= firsts.keys()
        log.retain(start, {lane: firsts[lane] for lane in straddling})
        for number, lane_state in log.lanes.items():
            expected = firsts[number].offset if number in firsts else lane_state.next
            assert lane_state.start == expected
            if number in firsts:
                assert lane_state.mark_of(expected) == firsts[number]


def test_offsets_are_not_given_twice_when_records_went_away_unseen() -> None:
    known = PhysicalLog()
    apply(known, batch_of(5, Tag(1, 0, 0, 0), 0))
    apply(known, batch_of(5, Tag(2, 0, 0, 0), 5))
    log = read_checkpoint(write_checkpoint(known, NOW_MS))
    log.begin_at(30)  # twenty records are gone that no checkpoint knows of
    assert apply(log, batch_of(2, Tag(1, 17, 0, 0), 30)) == 17
    log.settle(4)
    assert (log.lane(1).start, log.lane(1).next) == (17, 19)
    assert log.lane(2).next == 5 + 20
    assert log.lane(3).next == 20
    assert log.lane(3).start == 20


def test_a_lost_ledger_is_read_off_the_tags() -> None:
    log = PhysicalLog()
    log.begin_at(100)
    assert apply(log, batch_of(2, Tag(1, 40, 0, 0), 100)) == 40
    assert apply(log, batch_of(2, Tag(1, 42, 0, 0), 102)) == 42
    log.settle(3)
    assert log.lane(0).next == 100
    assert log.lane(1).next == 44


def test_bytes_that_are_no_checkpoint_are_refused() -> None:
    for data in (b"", b"x", write_checkpoint(PhysicalLog(), 0)[:-3]):
        with pytest.raises(UnreadableCheckpoint):
            read_checkpoint(data)


def test_a_lane_is_small() -> None:
    import sys

    lane = VirtualLane()
    parts = (lane._offsets, lane._places, lane._times, lane._ends)
    assert sys.getsizeof(lane) + sum(map(sys.getsizeof, parts)) < 1024


def test_a_batch_that_promises_a_definition_and_has_none_does_not_count() -> None:
    log = PhysicalLog()
    made = batch_of(1, Tag(1, 0, 3, 0, True), 0)
    write_tag(made, Tag(1, 0, 3, 0, True, True))
    stamp(made, 0, 0)
    assert apply(log, made) is None
    assert log.void_batches == 1
    assert apply(log, batch_of(1, Tag(1, 0, 3, 0), 1)) == 0


def test_old_message_formats_are_not_mapped() -> None:
    log, batch = PhysicalLog(), batch_of(1, None, 0)
    with pytest.raises(CorruptBatch):
        log.apply(read_header(batch)._replace(magic=1), batch, NOW_MS)
