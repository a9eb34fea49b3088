"""Lanes that move from one log to another."""

import pytest

from kafscale.log import history, moving, survey
from kafscale.log.log import Log
from kafscale.log.moving import Source
from kafscale.model.errors import CorruptObject, NotTheOwner
from kafscale.records.batch import read_header, stamp, walk
from kafscale.records.record import open_batch
from tests.unit.log.bench import Bench, append, committed, make_batch


async def source_of(bench: Bench, log: Log, lane: int = 0) -> Source:
    return moving.sources(await survey.snapshot(bench.store, log.folder))[lane]


async def records_of(bench: Bench, log: Log, lane: int, offset: int) -> list[tuple[int, bytes]]:
    """What a reader from an offset on sees."""
    reader = bench.reader()
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
    done = moving.seal(log, lane).committed
    assert done is not None
    await moving.committed(done)


async def test_a_copy_has_the_offsets_of_its_source(bench: Bench) -> None:
    old, new = await bench.open("ns/old"), await bench.open("ns/new")
    for number in range(5):
        await committed(append(old, make_batch(b"%d" % number, b"-"), 0))
    await committed(append(new, make_batch(b"a neighbour"), 2))
    copied = await moving.copy(bench.store, await source_of(bench, old), new, 7, 1 << 30)
    assert copied == 5 * len(make_batch(b"0", b"-"))
    assert await moving.copy(bench.store, await source_of(bench, old), new, 7, 1 << 30) == 0
    wanted = [(2 * n + at, value) for n in range(5) for at, value in enumerate((b"%d" % n, b"-"))]
    assert await records_of(bench, new, 7, 0) == wanted
    again = await bench.open("ns/new")
    assert (again.lane(7).start, again.lane(7).high) == (0, 10)


async def test_what_began_late_begins_late(bench: Bench) -> None:
    old, new = await bench.open("ns/old"), await bench.open("ns/new")
    for number in range(4):
        await committed(append(old, make_batch(b"%d" % number), 0))
    await history.raise_starts(old, {0: 2})
    await moving.copy(bench.store, await source_of(bench, old), new, 1, 1 << 30)
    for log in (new, await bench.open("ns/new")):
        assert (log.lane(1).start, log.lane(1).high) == (2, 4)
    assert await records_of(bench, new, 1, 2) == [(2, b"2"), (3, b"3")]


async def test_offsets_that_nothing_is_left_of_are_taken(bench: Bench) -> None:
    new = await bench.open("ns/new")
    for first in (10, 14, 20):
        raw = make_batch(b"x")
        stamp(raw, first, 0)
        await moving.committed(moving.adopt(new, 3, read_header(raw), raw))
    again = await bench.open("ns/new")
    assert (again.lane(3).start, again.lane(3).high) == (10, 21)
    for log in (new, again):
        for offset in (10, 11, 13, 14, 17, 19):
            rest = [(at, b"x") for at in (10, 14, 20) if at >= offset]
            assert await records_of(bench, log, 3, offset) == rest


async def test_a_sealed_lane_takes_nothing_more_and_its_neighbours_do(bench: Bench) -> None:
    log = await bench.open()
    await committed(append(log, make_batch(b"a"), 0))
    await sealed(log)
    with pytest.raises(NotTheOwner):
        append(log, make_batch(b"late"), 0)
    await committed(append(log, make_batch(b"b"), 1))
    assert moving.seal(log, 0).is_duplicate
    await history.roll_up(log)
    again = await bench.open()
    with pytest.raises(NotTheOwner):
        append(again, make_batch(b"late"), 0)
    assert again.lane(0).high == 2


async def test_the_seal_outlives_producers_that_are_forgotten(bench: Bench) -> None:
    log = await bench.open()
    await sealed(log)
    bench.clock.advance_ms(100 * log.settings.producer_expiry_ms)
    await history.roll_up(log)
    assert log.lane(0).producers.is_sealed
    assert (await bench.open()).lane(0).producers.is_sealed


async def test_a_seal_that_is_copied_seals_nothing(bench: Bench) -> None:
    old, new = await bench.open("ns/old"), await bench.open("ns/new")
    await committed(append(old, make_batch(b"a"), 0))
    await sealed(old)
    await moving.copy(bench.store, await source_of(bench, old), new, 0, 1 << 30)
    assert new.lane(0).high == 2
    await committed(append(new, make_batch(b"b"), 0))
    assert await records_of(bench, new, 0, 0) == [(0, b"a"), (2, b"b")]


async def test_epochs_do_not_go_back(bench: Bench) -> None:
    new = await bench.open("ns/new")
    raw = make_batch(b"x")
    stamp(raw, 0, new.epoch + 5)
    await moving.committed(moving.adopt(new, 0, read_header(raw), raw))
    await committed(append(new, make_batch(b"y"), 0))
    assert [epoch for epoch, _ in new.lane(0).epochs] == [new.epoch]
    assert new.newest_epoch >= new.epoch == read_header(raw).leader_epoch


async def test_batches_larger_than_a_step_are_copied_whole(bench: Bench) -> None:
    old, new = await bench.open("ns/old"), await bench.open("ns/new")
    large = b"l" * (5 << 20)
    for value in (b"small", large, b"small"):
        await committed(append(old, make_batch(value), 0))
    await history.roll_up(old)
    await moving.copy(bench.store, await source_of(bench, old), new, 0, 1 << 30)
    found = await records_of(bench, new, 0, 0)
    assert found == [(0, b"small"), (1, large), (2, b"small")]


async def test_a_pass_ends_when_it_has_copied_enough(bench: Bench) -> None:
    old, new = await bench.open("ns/old"), await bench.open("ns/new")
    for number in range(6):
        await committed(append(old, make_batch(b"%d" % number), 0))
    passes = 0
    while new.lane(0).high < 6:
        await moving.copy(bench.store, await source_of(bench, old), new, 0, 1)
        passes += 1
    assert passes == 6


async def test_broken_bytes_are_not_copied(bench: Bench) -> None:
    old, new = await bench.open("ns/old"), await bench.open("ns/new")
    await committed(append(old, make_batch(b"abcdef"), 0))
    source = await source_of(bench, old)
    key = source.stretches[0].key
    body = bytearray(await bench.store.read(key))
    body[source.stretches[0].span.start + 70] ^= 1
    await bench.store.delete([key])
    await bench.store.put_new(key, [body])
    with pytest.raises(CorruptObject, match="broken"):
        await moving.copy(bench.store, source, new, 0, 1 << 30)
    assert new.lane(0).high == 0


async def test_what_is_there_already_is_not_taken_again(bench: Bench) -> None:
    new = await bench.open("ns/new")
    raw = make_batch(b"x")
    await moving.committed(moving.adopt(new, 0, read_header(raw), raw))
    with pytest.raises(NotTheOwner):
        moving.adopt(new, 0, read_header(raw), raw)
