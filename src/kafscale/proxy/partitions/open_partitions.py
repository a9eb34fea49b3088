"""All physical partitions that this proxy serves: opened when needed, watched, checkpointed."""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from kafscale.gateways.workers import Workers
from kafscale.model.clock import Clock, Dice
from kafscale.model.errors import KafscaleError
from kafscale.model.metrics.meters import Counter
from kafscale.proxy.coordination.members import Members
from kafscale.proxy.coordination.topics import MappedTopic
from kafscale.proxy.partitions.partition import PhysicalPartition, State
from kafscale.proxy.partitions.reading import PhysicalBlocks
from kafscale.proxy.partitions.tail import NewestBatches
from kafscale.proxy.state.checkpoints import (
    UnreadableCheckpoint,
    read_checkpoint,
    write_checkpoint,
)
from kafscale.proxy.state.lanes import PhysicalLog
from kafscale.proxy.upstream.appending import Appender
from kafscale.proxy.upstream.cluster import Upstream, UpstreamRefused
from kafscale.proxy.upstream.fetching import EARLIEST, LATEST, list_offsets
from kafscale.proxy.upstream.ledger import MOST_ROW_BYTES, Ledger
from kafscale.tasks import Tasks

logger = structlog.get_logger()

STATE_KEY: Final = b"state\0"
START_KEY: Final = b"start\0"
WATCH_S: Final = 1.0
CHECKPOINT_S: Final = 10.0
_PAUSE_S: Final = 0.02


def state_key(topic_id: bytes, index: int) -> bytes:
    """The row of a physical partition's checkpoint."""
    return STATE_KEY + f"{topic_id.hex()}/{index}".encode()


def start_key(topic_id: bytes, partition: int) -> bytes:
    """The row that says from which offset on a virtual partition is kept."""
    return START_KEY + f"{topic_id.hex()}/{partition}".encode()


class PhysicalPartitions:
    """The open partitions of this proxy."""

    def __init__(
        self,
        upstream: Upstream,
        ledger: Ledger,
        members: Members,
        appender: Appender,
        tail: NewestBatches,
        blocks: PhysicalBlocks,
        clock: Clock,
        dice: Dice,
        tasks: Tasks,
        take_overs: Counter | None = None,
    ) -> None:
        self._take_overs = take_overs or Counter("")
        self._upstream = upstream
        self._ledger = ledger
        self._members = members
        self._appender = appender
        self._tail = tail
        self._blocks = blocks
        self._clock = clock
        self._dice = dice
        self._tasks = tasks
        self._workers = Workers()
        self._open: dict[tuple[bytes, int], tuple[MappedTopic, PhysicalPartition]] = {}
        self._checkpointed: dict[tuple[bytes, int], int] = {}
        ledger.watch(START_KEY, self._hear_start)

    def __len__(self) -> int:
        """Count the open partitions."""
        return len(self._open)

    @property
    def lane_count(self) -> int:
        """How many virtual partitions the open ones have."""
        return sum(topic.lanes for topic, _ in self._open.values())

    def get(self, topic: MappedTopic, index: int) -> PhysicalPartition | None:
        """A partition that this proxy serves; None: another one does."""
        key = topic.topic_id, index
        if not self._members.is_own(*key):
            return None
        found = self._open.get(key)
        if found is not None and found[1].state is not State.CLOSED:
            if found[0] != topic:
                self._open[key] = topic, found[1]
            return found[1]
        partition = PhysicalPartition(
            topic.name,
            index,
            self._upstream,
            self._appender,
            self._tail,
            self._clock,
            self._dice,
            self._tasks,
            self._workers.new_queue(),
        )
        self._open[key] = topic, partition
        former = self._members.former_owner(*key)
        if former is not None:
            self._take_overs.inc()
            logger.info("taken_over", topic=topic.name, partition=index, of=former.node)
        self._tasks.spawn(self._load(topic, partition), "open partition")
        return partition

    async def _load(self, topic: MappedTopic, partition: PhysicalPartition) -> None:
        try:
            await self._ledger.sync()
            await partition.open(self._known(topic, partition.index), topic.lanes)
        except UpstreamRefused as problem:
            partition.close(problem.code)
        except (KafscaleError, TimeoutError) as problem:
            logger.warning("partition_not_opened", topic=topic.name, reason=str(problem))
            partition.close()
        else:
            for number in range(topic.lanes):
                self._apply_start(topic, partition, number)

    def _known(self, topic: MappedTopic, index: int) -> PhysicalLog:
        row = self._ledger.rows.get(state_key(topic.topic_id, index))
        if row is None:
            return PhysicalLog()
        try:
            return read_checkpoint(row)
        except UnreadableCheckpoint as problem:
            logger.error("checkpoint_unreadable", topic=topic.name, reason=str(problem))
            return PhysicalLog()

    # -- records that were deleted ------------------------------------------------------------

    def _apply_start(self, topic: MappedTopic, partition: PhysicalPartition, lane: int) -> None:
        number = lane * topic.physical + partition.index
        row = self._ledger.rows.get(start_key(topic.topic_id, number))
        if row is not None and lane in partition.log.lanes:
            known = partition.log.lanes[lane]
            known.start = max(known.start, min(int(row), known.next))

    def _hear_start(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            return
        topic_id, _, number = key[len(START_KEY) :].decode().partition("/")
        for topic, partition in self._open.values():
            is_meant = topic.topic_id.hex() == topic_id
            is_meant = is_meant and int(number) % topic.physical == partition.index
            if is_meant and partition.state is not State.OPENING:
                self._apply_start(topic, partition, int(number) // topic.physical)

    async def delete_before(self, topic: MappedTopic, partition: int, offset: int) -> None:
        """Hide all records of a virtual partition before an offset."""
        row = str(offset).encode()
        await self._ledger.write({start_key(topic.topic_id, partition): row})

    async def forget_topic(self, topic_id: str, more: Iterable[bytes]) -> None:
        """Delete what is written down about a topic that is gone, and `more` rows with it."""
        about = tuple(key + f"{topic_id}/".encode() for key in (STATE_KEY, START_KEY))
        gone = [*more, *(key for key in self._ledger.rows if key.startswith(about))]
        if gone:
            await self._ledger.write(dict.fromkeys(gone))

    # -- watching -----------------------------------------------------------------------------

    async def keep_watching(self) -> None:
        """Look what others did to the upstream's partitions; write checkpoints. Until cancelled."""
        last_s = self._clock.elapsed_s()
        while True:
            await asyncio.sleep(WATCH_S)
            self._drop_foreign()
            try:
                await self._look()
            except (KafscaleError, TimeoutError) as problem:
                logger.debug("watch_failed", reason=str(problem))
            if self._clock.elapsed_s() - last_s >= CHECKPOINT_S:
                last_s = self._clock.elapsed_s()
                await self.write_checkpoints()

    def _drop_foreign(self) -> None:
        for key, (topic, partition) in list(self._open.items()):
            facts = self._upstream.topics.get(topic.name)
            is_gone = facts is None or facts.topic_id != topic.topic_id
            is_closed = partition.state is State.CLOSED
            if is_closed or is_gone or not self._members.is_own(*key):
                partition.close()
                self._blocks.forget(partition)
                del self._open[key]

    async def _look(self) -> None:
        """Ask where all logs begin and end: two requests to each broker of the upstream."""
        places = {
            (partition.topic, partition.index): key
            for key, (_, partition) in self._open.items()
            if partition.state is State.READY
        }
        ends = await list_offsets(self._upstream, places, LATEST)
        for place, end in ends.items():
            partition = self._ready(places[place])
            if partition is not None and end > partition.log.next_place and partition.is_idle:
                partition.look_again()
        starts = await list_offsets(self._upstream, places, EARLIEST)
        for place, start in starts.items():
            partition = self._ready(places[place])
            if partition is not None and start > partition.log.start_place:
                await partition.begin_at(start)
                await self._checkpoint(places[place])

    def _ready(self, key: tuple[bytes, int]) -> PhysicalPartition | None:
        found = self._open.get(key)
        return found[1] if found is not None and found[1].state is State.READY else None

    async def write_checkpoints(self) -> None:
        """Write down the state of every partition that has changed."""
        for key, (_, partition) in list(self._open.items()):
            known = self._checkpointed.get(key, -1)
            if partition.state is State.READY and partition.log.next_place != known:
                await self._checkpoint(key)

    async def _checkpoint(self, key: tuple[bytes, int]) -> None:
        found = self._open.get(key)
        if found is None:
            return
        log = found[1].log
        row, place = write_checkpoint(log, self._clock.now_ms()), log.next_place
        while len(row) > MOST_ROW_BYTES and any(len(lane) > 1 for lane in log.lanes.values()):
            for lane in log.lanes.values():
                lane.thin()
            row = write_checkpoint(log, self._clock.now_ms())
        try:
            await self._ledger.write({state_key(*key): row})
            self._checkpointed[key] = place
        except (KafscaleError, TimeoutError) as problem:
            logger.warning("checkpoint_failed", reason=str(problem))

    # -- leaving ------------------------------------------------------------------------------

    async def finish(self, within_s: float) -> None:
        """Wait until no batch is on its way, write checkpoints, close all."""
        end_s = self._clock.elapsed_s() + within_s
        while self._clock.elapsed_s() < end_s:
            if all(partition.is_idle for _, partition in self._open.values()):
                break
            await asyncio.sleep(_PAUSE_S)
        await self.write_checkpoints()
        for _, partition in self._open.values():
            partition.close()
