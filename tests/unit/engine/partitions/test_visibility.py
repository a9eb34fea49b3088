import pytest

from kafscale.engine.partitions.visibility import READ_COMMITTED, READ_UNCOMMITTED, visible_end
from kafscale.log.writer.lane import Lane, LaneRules

BOTH = pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])


def lane(*, fetch_buffered: bool) -> Lane:
    made = Lane(0)
    made.high = made.stable = 5
    made.end = 8
    made.rules = LaneRules(fetch_buffered=fetch_buffered)
    return made


@BOTH
def test_readers_see_up_to_the_high_watermark(isolation) -> None:  # type: ignore[no-untyped-def]
    assert visible_end(lane(fetch_buffered=False), isolation) == 5


@BOTH
def test_readers_of_a_buffered_topic_see_what_waits_too(isolation) -> None:  # type: ignore[no-untyped-def]
    assert visible_end(lane(fetch_buffered=True), isolation) == 8
