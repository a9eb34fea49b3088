"""Review: moves at the level of one log."""

import asyncio

from kafscale.log import history, moving
from kafscale.log.log import State
from kafscale.records.batch import read_header, stamp
from tests.unit.log.bench import Bench, append, committed, make_batch


async def test_a_lane_known_empty_at_a_roll_up_may_begin_anywhere(bench: Bench) -> None:
    new = await bench.open("ns/new")
    assert new.lane(3).high == 0  # as `_bring` looks at a lane whose source has nothing to copy yet
    await committed(append(new, make_batch(b"a neighbour"), 0))
    await history.roll_up(new)
    raw = make_batch(b"x")
    stamp(raw, 10, 0)
    await moving.committed(moving.adopt(new, 3, read_header(raw), raw))
    again = await bench.open("ns/new")
    assert (again.lane(3).start, again.lane(3).high) == (10, 11)


async def test_a_seal_that_lost_its_race_can_be_set_again(bench: Bench) -> None:
    log = await bench.open()
    other = await bench.open()
    await committed(append(other, make_batch(b"foreign"), 1))
    lost = moving.seal(log, 0).committed
    assert lost is not None
    assert await lost is not None  # NotTheOwner: the log is opened again
    async with asyncio.timeout(5):
        while log.state is State.OPENING:
            await asyncio.sleep(0.001)
    done = moving.seal(log, 0).committed
    assert done is not None
    await moving.committed(done)


async def test_a_full_lane_can_be_sealed(bench: Bench) -> None:
    from kafscale.log.lane import LaneRules

    log = await bench.open()
    log.lane(0).rules = LaneRules(offset_range=2)
    await committed(append(log, make_batch(b"a", b"b"), 0))
    done = moving.seal(log, 0).committed
    assert done is not None
    await moving.committed(done)


async def test_a_sealed_lane_tells_nobody_that_its_sequence_is_wrong(bench: Bench) -> None:
    import pytest

    from kafscale.model.errors import NotTheOwner

    log = await bench.open()
    done = moving.seal(log, 0).committed
    assert done is not None
    await moving.committed(done)
    for sequence in (0, 1):  # both were in flight
        with pytest.raises(NotTheOwner):
            append(log, make_batch(b"x", producer=7, sequence=sequence), 0)


async def test_producers_go_on_though_key_compaction_took_their_last_batch(bench: Bench) -> None:
    from kafscale.log import survey
    from kafscale.log.lane import LaneRules

    old, new = await bench.open("ns/old"), await bench.open("ns/new")
    await committed(append(old, make_batch(b"a", producer=7, sequence=0), 0))
    await committed(append(old, make_batch(b"b", producer=7, sequence=1), 0))
    await committed(append(old, make_batch(b"newer b", producer=8, sequence=0), 0))
    await history.roll_up(old, merge=False)
    source = moving.sources(await survey.snapshot(bench.store, old.folder))[0]
    left = [row for row in source.stretches if row.span.first != 1]
    await moving.copy(bench.store, source._replace(stretches=left), new, 0, 1 << 30)
    new.lane(0).rules = LaneRules(strangers_go_on=True)
    assert await committed(append(new, make_batch(b"c", producer=7, sequence=2), 0)) == 3


async def test_a_log_opened_again_while_copying_loses_no_record(bench: Bench) -> None:
    from kafscale.log import survey
    from kafscale.model.errors import NotTheOwner
    from kafscale.records.batch import walk

    old, new = await bench.open("ns/old"), await bench.open("ns/new", flush_interval_s=0.05)
    for number in range(3):
        await committed(append(old, make_batch(b"%d" % number), 0))
    other = await bench.open("ns/new")
    await committed(append(other, make_batch(b"a neighbour"), 9))  # a broker that slept, or a job
    source = moving.sources(await survey.snapshot(bench.store, old.folder))[0]
    reads = 0

    class Slow:
        async def read(self, *what):  # type: ignore[no-untyped-def]
            nonlocal reads
            reads += 1
            if reads == 2:  # what was adopted so far loses its race meanwhile
                async with asyncio.timeout(5):
                    while 9 not in new.lanes or new.state is not State.OPEN:
                        await asyncio.sleep(0.001)
            return await bench.store.read(*what)

    for store in (Slow(), bench.store):
        try:
            await moving.copy(store, source, new, 0, 1 << 30)  # type: ignore[arg-type]
        except NotTheOwner:
            continue
    assert new.lane(0).high == 3
    pieces = new.lane(0).read_memory(new.lane(0).start, 1 << 20, at_least_one=True) or []
    found = [header.record_count for piece in pieces for _, header in walk(piece)]
    assert (new.lane(0).start, found) == (0, [1, 1, 1])
