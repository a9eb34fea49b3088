"""A log by the ends of its objects."""

import pytest

from kafscale.log.formats import keys, segment
from kafscale.log.formats.segment import NOTHING_BEFORE, LaneBatches
from kafscale.log.protocol import survey
from kafscale.model.errors import CorruptObject
from kafscale.objects.memory import MemoryObjectStore
from tests.unit.admin.bucket_builder import LOG, NOW_MS, batch_of, built


def lanes_segment(count: int, padding: int = 1) -> segment.Built:
    """A flush with `count` lanes of `padding` records each."""
    lanes = [
        LaneBatches(lane, 0, padding - 1, padding, NOW_MS, NOW_MS + padding, [batch_of(0, padding)])
        for lane in range(count)
    ]
    return segment.build(
        0, count * padding, lanes, created_ms=NOW_MS, token=1, predecessor=NOTHING_BEFORE
    )


@pytest.mark.parametrize(("lanes", "padding"), [(2, 3), (3, 3000), (700, 2)])
async def test_lanes_are_read_off_the_objects_end(lanes: int, padding: int) -> None:
    store = MemoryObjectStore()
    made = lanes_segment(lanes, padding)
    await store.put_new(keys.segment(LOG, 0), made.body)
    found = await survey.take_snapshot(store, LOG)
    assert found.tail[0].spans == made.spans
    assert found.tail[0].content_id == made.content_id
    assert found.lanes() == dict.fromkeys(range(lanes), (0, padding))


async def test_a_large_flush_is_not_read_and_may_hold_any_time() -> None:
    store = MemoryObjectStore()
    await store.put_new(keys.segment(LOG, 0), built(0, 5000).body)
    found = await survey.take_snapshot(store, LOG)
    span = found.tail[0].spans[0]
    assert (span.min_timestamp_ms, span.max_timestamp_ms) == segment.ANY_TIME
    assert (found.end, span.records) == (5000, 5000)


def test_a_lane_table_that_does_not_fit_is_refused() -> None:
    body = b"".join(lanes_segment(2).body)
    head = memoryview(body)[: segment.HEADER.size]
    with pytest.raises(CorruptObject, match="no room"):
        segment.outline(head, memoryview(body)[-60:], 70)
    with pytest.raises(segment.ShortFoot):
        segment.outline(head, memoryview(body)[-60:], len(body))
