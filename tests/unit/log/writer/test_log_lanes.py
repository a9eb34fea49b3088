from itertools import pairwise

import pytest

from kafscale.log.formats import keys, segment
from kafscale.log.formats.segment import ContentId
from kafscale.log.upkeep import rollup
from kafscale.log.writer.log import Log
from kafscale.log.writer.states import LogState
from kafscale.model.errors import (
    LogStopped,
)
from tests.unit.log.log_harness import (
    FOLDER,
    LogHarness,
    append,
    everything,
    make_batch,
    read_all,
    write,
)

# -- several lanes ---------------------------------------------------------------------------------


async def test_each_lane_has_its_own_offsets_and_producers(any_harness: LogHarness) -> None:
    log = await any_harness.open(flush_interval_s=3600)
    plan = [(5, b"a"), (0, b"b"), (5, b"c"), (2, b"d"), (0, b"e"), (5, b"f")]
    rows = [
        append(
            log, make_batch(value, b"-", producer=7, sequence=0 if at < 2 or lane == 2 else 2), lane
        )
        for at, (lane, value) in enumerate(plan[:5])
    ]
    rows.append(append(log, make_batch(b"f", b"-", producer=7, sequence=4), 5))
    assert [row.first for row in rows] == [0, 0, 2, 0, 2, 4]
    await log.aclose()
    opened = await any_harness.look()
    (found,) = opened.tail
    assert [(span.lane, span.first, span.last) for span in found.content.spans] == [
        (0, 0, 3),
        (2, 0, 1),
        (5, 0, 5),
    ]
    assert (found.content.base, found.content.end, found.content.records) == (0, 12, 12)
    assert [v for _, v in await everything(any_harness, lane=5)] == [
        b"a",
        b"-",
        b"c",
        b"-",
        b"f",
        b"-",
    ]
    again = await any_harness.open()
    assert {number: lane.high for number, lane in again.lanes.items()} == {0: 4, 2: 2, 5: 6}
    for lane, sequence, first in ((0, 2, 2), (2, 0, 0), (5, 4, 4)):
        same = append(again, make_batch(b"?", b"?", producer=7, sequence=sequence), lane)
        assert (same.first, same.committed) == (first, None)


async def test_positions_and_offsets_of_lanes_go_their_own_ways(any_harness: LogHarness) -> None:
    log = await any_harness.open()
    counts = {0: 0, 1: 0, 2: 0}
    for at in range(30):
        lane = at * 7 % 3
        size = at % 4 + 1
        assert await write(log, *[b"%d" % at] * size, lane=lane) == counts[lane]
        counts[lane] += size
        if at % 10 == 9:
            await rollup.roll_up(log)
    assert log.committed.end == sum(counts.values())
    again = await any_harness.open()
    for one in (log, again):
        assert {number: lane.high for number, lane in one.lanes.items()} == counts
        for number, lane in one.lanes.items():
            rows = await read_all(any_harness.reader(), one, lane, max_bytes=300)
            assert [offset for offset, _ in rows] == list(range(counts[number]))
            assert rows == await everything(any_harness, number)
    assert again.committed.end == log.committed.end
    assert again.committed.end_id == log.committed.end_id
    assert await write(again, b"x", lane=1) == counts[1]


async def test_segments_of_lanes_name_their_predecessor(harness: LogHarness) -> None:
    log = await harness.open()
    for at in range(4):
        await write(log, b"x", lane=at % 2 + 1)
        if at == 1:
            await rollup.roll_up(log)
    opened = await harness.look()
    bodies = [await harness.inner.read(keys.segment(FOLDER, at)) for at in range(4)]
    contents = [segment.parse(body) for body in bodies]
    assert contents[0].predecessor == segment.NOTHING_BEFORE
    for before, after in pairwise(contents):
        assert after.predecessor == before.content_id
    assert ContentId._make(opened.manifest.end_id) == contents[1].content_id


async def test_a_log_that_stopped_says_so(harness: LogHarness) -> None:
    log = await harness.open()
    await write(log, b"x", lane=1)
    await write(log, b"x", lane=1)
    body = bytes(await harness.inner.read(keys.segment(FOLDER, 0)))
    await harness.inner.delete([keys.segment(FOLDER, 0)])
    other = body[:28] + b"\0\0\0\0" + body[32:]
    await harness.inner.put_new(keys.segment(FOLDER, 0), [other])
    fresh: Log = harness.make_log()
    with pytest.raises(LogStopped, match="precedes"):
        await fresh.open()
    assert fresh.state is LogState.STOPPED
    with pytest.raises(LogStopped, match="precedes"):
        append(fresh, make_batch(b"a"))
