"""Fetch from virtual partitions. There are no fetch sessions: each request names all it wants."""

import asyncio
from typing import Final, NamedTuple

from kafscale.model.buffers import Buffer
from kafscale.model.errors import KafscaleError, OffsetOutOfRange
from kafscale.proxy.apis.call import ProxyAnswer, ProxyCall
from kafscale.proxy.apis.places import epoch_error, find_topic, open_partition
from kafscale.proxy.coordination.topics import MappedTopic
from kafscale.proxy.partitions.partition import PhysicalPartition
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

_LONGEST_S: Final = 30.0
_MOST_BYTES: Final = 64 << 20


class Wanted(NamedTuple):
    """A virtual partition that a client reads."""

    row: PartitionData
    asked: FetchPartition
    partition: PhysicalPartition
    lane: int


async def fetch(call: ProxyCall) -> ProxyAnswer:
    """Begin to read; the answer follows while other requests begin."""
    return _fetch(call)


async def _fetch(call: ProxyCall) -> FetchResponse:
    request: FetchRequest = call.message
    if request.session_id:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    answer = FetchResponse()
    wanted: list[Wanted] = []
    for topic in request.topics:
        rows: list[PartitionData] = []
        answer.responses.append(FetchableTopicResponse(topic.topic, partitions=rows))
        mapped, code = await find_topic(call, topic.topic)
        for asked in topic.partitions:
            row = PartitionData(asked.partition, code, -1, aborted_transactions=None, records=b"")
            rows.append(row)
            if mapped is not None:
                wanted += await _want(call, mapped, asked, row)
    most = min(max(request.max_bytes, 0), _MOST_BYTES)
    size = await _fill(call, wanted, most)
    has_error = any(one.error_code for topic in answer.responses for one in topic.partitions)
    if size < request.min_bytes and not has_error and request.max_wait_ms > 0:
        await _wait(call, wanted, request, most, size)
    return answer


async def _want(
    call: ProxyCall, mapped: MappedTopic, asked: FetchPartition, row: PartitionData
) -> list[Wanted]:
    partition, row.error_code = await open_partition(call, mapped, asked.partition)
    if partition is None:
        return []
    row.error_code = await epoch_error(call, partition, asked.current_leader_epoch)
    if row.error_code:
        return []
    return [Wanted(row, asked, partition, mapped.place(asked.partition).lane)]


class _Room:
    """How many bytes an answer may still take; reads that are under way have theirs set aside."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.size = 0

    def set_aside(self, most: int) -> int:
        """Bytes for one partition."""
        taken = max(0, min(most, self.left))
        self.left -= taken
        return taken

    def settle(self, taken: int, used: int) -> None:
        """Give back what a partition did not use."""
        self.left += taken - used
        self.size += used


async def _fill(call: ProxyCall, wanted: list[Wanted], most: int) -> int:
    """Read what there is; one batch of the answer may be larger than the limits.

    What must be fetched is fetched for all physical partitions at a time.
    """
    room = _Room(most)
    behind: dict[PhysicalPartition, list[Wanted]] = {}
    for one in wanted:
        if not one.row.error_code and not one.row.records:
            behind.setdefault(one.partition, []).append(one)
    rows = [_fill_from(call, those, room) for those in behind.values()]
    if len(rows) == 1:
        await rows[0]
    else:
        await asyncio.gather(*rows)
    return room.size


async def _fill_from(call: ProxyCall, wanted: list[Wanted], room: _Room) -> None:
    for one in wanted:
        most = room.set_aside(one.asked.partition_max_bytes)
        found = await _read(call, one, most, room)
        one.row.records = found
        room.settle(most, sum(map(len, found)))
        lane = one.partition.log.lane(one.lane)
        one.row.high_watermark = one.row.last_stable_offset = lane.next
        one.row.log_start_offset = lane.start


async def _read(call: ProxyCall, one: Wanted, most: int, room: _Room) -> list[Buffer]:
    reader, offset = call.context.reader, one.asked.fetch_offset
    if most <= 0 and room.size:
        return []
    try:
        if offset > one.partition.log.lane(one.lane).next:
            # The client may have read what another proxy wrote, which served until now.
            await one.partition.catch_up()
        found = reader.read_near(one.partition, one.lane, offset, most)
        if found is None:
            found = await reader.read_far(one.partition, one.lane, offset, most)
    except OffsetOutOfRange:
        one.row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return []
    except (KafscaleError, TimeoutError):
        one.row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return []
    # What is read first may exceed its limits by one batch, which might never fit.
    return [] if room.size and sum(map(len, found)) > most else found


async def _wait(
    call: ProxyCall, wanted: list[Wanted], request: FetchRequest, most: int, size: int
) -> None:
    """Wait for records until there are enough of them or the client's time is over."""
    clock = call.context.clock
    end_s = clock.elapsed_s() + min(request.max_wait_ms / 1000, _LONGEST_S)
    while size < request.min_bytes and (left_s := end_s - clock.elapsed_s()) > 0:
        empty = [one for one in wanted if not one.row.records and not one.row.error_code]
        if not empty or not await _woken(empty, left_s):
            return
        size += await _fill(call, wanted, most - size)
        if any(one.row.error_code for one in wanted):
            return


async def _woken(empty: list[Wanted], seconds: float) -> bool:
    """Whether one of the lanes gets a record in time."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    lanes = {(one.partition, one.lane) for one in empty}
    for partition, lane in lanes:
        partition.waiters.setdefault(lane, []).append(waiting)
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return False
    finally:
        for partition, lane in lanes:
            others = partition.waiters.get(lane)
            if others is not None and waiting in others:
                others.remove(waiting)
                if not others:
                    del partition.waiters[lane]
    return True
