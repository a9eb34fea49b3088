import asyncio

from kafscale.engine.partitions.long_poll import LongPoll
from kafscale.log.writer.lane import Lane

LONG_S = 60.0


async def test_it_knows_which_lanes_had_news_since_it_was_asked_last() -> None:
    lanes = [Lane(number) for number in range(3)]
    with LongPoll(lanes) as poll:
        lanes[1].wake()
        assert await poll.wait(LONG_S) == [1]
        waiting = asyncio.ensure_future(poll.wait(LONG_S))
        await asyncio.sleep(0)
        assert not waiting.done()
        lanes[0].wake()
        lanes[2].wake()
        assert await waiting == [0, 2]


async def test_nothing_in_time_is_no_news() -> None:
    with LongPoll([Lane(0)]) as poll:
        assert await poll.wait(0.001) == []


async def test_a_lane_may_be_named_twice_and_another_may_be_missing() -> None:
    lane = Lane(0)
    with LongPoll([lane, None, lane]) as poll:
        lane.wake()
        assert await poll.wait(LONG_S) == [0, 2]
    assert not len(lane.watchers)


async def test_who_watches_many_lanes_lets_others_join_the_first_news() -> None:
    lanes = [Lane(number) for number in range(200)]
    with LongPoll(lanes) as poll:
        waiting = asyncio.ensure_future(poll.wait(LONG_S))
        await asyncio.sleep(0)
        lanes[7].wake()
        await asyncio.sleep(0)
        lanes[9].wake()
        assert await waiting == [7, 9]
