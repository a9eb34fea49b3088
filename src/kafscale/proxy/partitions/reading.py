"""Reading virtual partitions: from memory, else from the upstream, leaving out what others wrote.

Here: blocks of the physical log, shared by the readers of all its lanes; where a reader goes on;
looking for a time. Next door: the newest batches (tail.py), where lanes lie (state/lanes.py).
"""

import asyncio
import contextlib
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from kafscale.gateways.workers import Workers
from kafscale.model.buffers import Buffer
from kafscale.model.errors import KafscaleError, OffsetOutOfRange
from kafscale.proxy.partitions.partition import MOST_UNPACKED, QUICK_UNPACKED, PhysicalPartition
from kafscale.proxy.partitions.tail import NewestBatches
from kafscale.proxy.state.lanes import PlaceMark, VirtualLane
from kafscale.proxy.state.tags import read_tag, without_definition
from kafscale.proxy.upstream.cluster import Upstream
from kafscale.proxy.upstream.fetching import Block, fetch_block
from kafscale.records.batch import HEADER_SIZE, BatchHeader, stamp, walk
from kafscale.records.record import first_at_or_after, open_batch
from kafscale.tasks import Tasks

_MOST_HINTS: Final = 4096
_BLOCKS_AHEAD: Final = 3
_WORTH_KEEPING: Final = 128 << 10


class LaneBatch(NamedTuple):
    """A batch of a lane as it lies in the physical log."""

    offset: int  # virtual
    header: BatchHeader
    bytes: memoryview
    defines: bool

    @property
    def next(self) -> int:
        """The virtual offset behind it."""
        return self.offset + self.header.last_offset_delta + 1

    def shown(self) -> list[Buffer]:
        """What a client gets, in two parts: only the first differs from what is in memory."""
        data = self.bytes
        if self.defines:
            data = memoryview(without_definition(data, MOST_UNPACKED))
        head = bytearray(data[:HEADER_SIZE])
        stamp(head, self.offset, self.header.leader_epoch)
        return [head, data[HEADER_SIZE:]]


class PhysicalBlocks:
    """Blocks of physical logs, the last used ones of all."""

    def __init__(self, upstream: Upstream, most_bytes: int, tasks: Tasks) -> None:
        self._upstream = upstream
        self._tasks = tasks
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._blocks: OrderedDict[tuple[PhysicalPartition, int], Block] = OrderedDict()
        self._starts: dict[PhysicalPartition, list[int]] = {}
        self._loading: dict[tuple[PhysicalPartition, int], asyncio.Future[Block]] = {}

    async def get(self, partition: PhysicalPartition, place: int) -> Block:
        """A block that has the place in it, or is empty. Raises UpstreamLost.

        Some blocks behind it are fetched along: most readers want these next.
        """
        found = self._find(partition, place)
        if found is None:
            loading = self._loading.get((partition, place))
            if loading is not None:
                found = await asyncio.shield(loading)
            else:
                found = await self._load(partition, place)
        self._look_ahead(partition, found)
        return found

    def _find(self, partition: PhysicalPartition, place: int) -> Block | None:
        starts = self._starts.get(partition, ())
        at = bisect_right(starts, place) - 1
        if at < 0:
            return None
        found = self._blocks[partition, starts[at]]
        if place >= found.end:
            return None
        self._blocks.move_to_end((partition, starts[at]))
        return found

    def _look_ahead(self, partition: PhysicalPartition, block: Block) -> None:
        for left in range(_BLOCKS_AHEAD, 0, -1):
            following = self._blocks.get((partition, block.end))
            if following is None:
                if self._is_wanted(partition, block):
                    self._tasks.spawn(self._load_ahead(partition, block, left), "read ahead")
                return
            block = following

    def _is_wanted(self, partition: PhysicalPartition, before: Block) -> bool:
        """Whether the block behind another one is to be fetched before a reader asks for it."""
        place = before.end
        is_there = (partition, place) in self._blocks or (partition, place) in self._loading
        if is_there or not len(before.data) or place >= partition.log.next_place:
            return False
        # Else it would drive out what readers are at.
        return (_BLOCKS_AHEAD + 1) * len(before.data) <= self._most_bytes

    async def _load_ahead(self, partition: PhysicalPartition, block: Block, count: int) -> None:
        with contextlib.suppress(KafscaleError, TimeoutError):
            while count and self._is_wanted(partition, block):
                block = await self._load(partition, block.end)
                count -= 1

    async def _load(self, partition: PhysicalPartition, place: int) -> Block:
        loading = self._loading[partition, place] = asyncio.get_running_loop().create_future()
        try:
            block = await fetch_block(self._upstream, partition.topic, partition.index, place)
        except BaseException as problem:
            loading.set_exception(problem if isinstance(problem, Exception) else OSError("ended"))
            loading.exception()
            raise
        else:
            loading.set_result(block)
            # Where the log ends, more may follow: a small block there is not kept.
            if block.end < partition.log.next_place or len(block.data) >= _WORTH_KEEPING:
                self._keep(partition, place, block)
            return block
        finally:
            del self._loading[partition, place]

    def _keep(self, partition: PhysicalPartition, place: int, block: Block) -> None:
        if (partition, place) in self._blocks or not len(block.data):
            return
        self._blocks[partition, place] = block
        insort(self._starts.setdefault(partition, []), place)
        self._held_bytes += len(block.data)
        while self._held_bytes > self._most_bytes:
            (owner, start), gone = self._blocks.popitem(last=False)
            self._held_bytes -= len(gone.data)
            self._starts[owner].remove(start)

    def forget(self, partition: PhysicalPartition) -> None:
        """Drop all blocks of a partition."""
        for start in self._starts.pop(partition, ()):
            self._held_bytes -= len(self._blocks.pop((partition, start)).data)


class LaneReader:
    """Reads lanes of open partitions."""

    def __init__(self, blocks: PhysicalBlocks, tail: NewestBatches) -> None:
        self._blocks = blocks
        self._tail = tail
        self._work = Workers().new_queue()
        self._hints: OrderedDict[tuple[PhysicalPartition, int, int], int] = OrderedDict()

    def read_near(
        self, partition: PhysicalPartition, lane: int, offset: int, most_bytes: int
    ) -> list[Buffer] | None:
        """Batches that are in memory; an empty list at the end, None: they must be fetched.

        Raises OffsetOutOfRange.
        """
        known = partition.log.lane(lane)
        if not known.start <= offset <= known.next:
            raise OffsetOutOfRange(f"{offset} is not between {known.start} and {known.next}")
        if offset == known.next:
            return []
        return self._tail.read(partition, lane, offset, most_bytes)

    async def read_far(
        self, partition: PhysicalPartition, lane: int, offset: int, most_bytes: int
    ) -> list[Buffer]:
        """Batches from the upstream. Raises UpstreamLost."""
        known = partition.log.lane(lane)
        place = self._hints.pop((partition, lane, offset), None)
        mark = known.mark_of(offset) if place is None else PlaceMark(offset, place)
        if mark is None:
            raise OffsetOutOfRange(f"{offset} is before {known.start}")
        found: list[Buffer] = []
        size = 0
        async for batch in self.walk(partition, lane, mark):
            if batch.next <= offset:
                continue
            if found and size + len(batch.bytes) > most_bytes:
                self._hint(partition, lane, batch.offset, batch.header.base_offset)
                return found
            if batch.defines and len(batch.bytes) > QUICK_UNPACKED:
                found += await self._work.run(batch.shown)
            else:
                found += batch.shown()
            size += len(batch.bytes)
            if size >= most_bytes or batch.next >= known.next:
                self._hint(partition, lane, batch.next, batch.header.next_offset)
                return found
        return found

    def _hint(self, partition: PhysicalPartition, lane: int, offset: int, place: int) -> None:
        self._hints[partition, lane, offset] = place
        while len(self._hints) > _MOST_HINTS:
            self._hints.popitem(last=False)

    async def walk(
        self, partition: PhysicalPartition, lane: int, mark: PlaceMark
    ) -> AsyncIterator[LaneBatch]:
        """All batches of a lane from a mark on, as far as the partition knows them."""
        offset, place = mark
        while place < partition.log.next_place:
            block = await self._blocks.get(partition, place)
            if block.end <= place:
                return
            for at, header in walk(block.data):
                if header.next_offset <= place or header.is_control:
                    continue
                if header.base_offset >= partition.log.next_place:
                    return
                tag = read_tag(header)
                if tag is None and (lane or header.is_transactional):
                    continue
                if tag is not None and (tag.lane != lane or tag.offset != offset):
                    continue
                data = block.data[at : at + header.size]
                found = LaneBatch(offset, header, data, tag is not None and tag.defines)
                offset = found.next
                yield found
            place = block.end

    # -- other questions ----------------------------------------------------------------------

    async def at_time(
        self, partition: PhysicalPartition, lane: int, time_ms: int
    ) -> tuple[int, int] | None:
        """Offset and time of the first record that is not older; None if all are."""
        known = partition.log.lane(lane)
        for mark in known.marks_with(time_ms):
            async for batch in self._span(partition, lane, known, mark):
                if batch.header.max_timestamp_ms < time_ms or batch.next <= known.start:
                    continue
                hit = first_at_or_after(batch.bytes, time_ms, MOST_UNPACKED)
                if hit is not None:
                    offset = batch.offset + hit[0] - batch.header.base_offset
                    if offset >= known.start:
                        return offset, hit[1]
        return None

    async def latest_time(self, partition: PhysicalPartition, lane: int) -> tuple[int, int] | None:
        """Offset and time of the record with the latest time; None if there is none."""
        known = partition.log.lane(lane)
        mark = known.latest_mark()
        best: tuple[int, int] | None = None
        if mark is None or known.start == known.next:
            return None
        async for batch in self._span(partition, lane, known, mark):
            if best is None or batch.header.max_timestamp_ms > best[1]:
                for record in open_batch(batch.bytes, MOST_UNPACKED):
                    if best is None or record.timestamp_ms > best[1]:
                        offset = batch.offset + record.offset - batch.header.base_offset
                        best = offset, record.timestamp_ms
        return best

    async def _span(
        self, partition: PhysicalPartition, lane: int, known: VirtualLane, mark: PlaceMark
    ) -> AsyncIterator[LaneBatch]:
        """The batches of one mark: those before the next one."""
        following = [one for one in known.marks if one[1] > mark.place]
        end = following[0][0] if following else known.next
        async for batch in self.walk(partition, lane, mark):
            if batch.offset >= end:
                return
            yield batch

    async def offset_at(self, partition: PhysicalPartition, lane: int, place: int) -> int:
        """The virtual offset that a lane had come to at a physical place."""
        known = partition.log.lane(lane)
        mark = known.mark_before(place - 1)
        if mark is None or place >= partition.log.next_place:
            return known.next if place >= partition.log.next_place else known.start
        offset = mark.offset
        async for batch in self.walk(partition, lane, mark):
            if batch.header.base_offset >= place:
                break
            offset = batch.next
        return offset

    async def place_of(self, partition: PhysicalPartition, lane: int, offset: int) -> int:
        """The physical place of a lane's offset: of its batch."""
        known = partition.log.lane(lane)
        if offset >= known.next:
            return partition.log.next_place
        mark = known.mark_of(max(offset, known.start))
        if mark is not None:
            async for batch in self.walk(partition, lane, mark):
                if batch.next > offset:
                    return batch.header.base_offset
        return partition.log.start_place
