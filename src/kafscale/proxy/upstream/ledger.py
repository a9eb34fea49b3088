"""What proxies share: a compacted topic of the upstream, read by all of them to its end.

Here: rows by key; the last value of a key counts. A row is written, and counts when it has been
read back: so all proxies see the same rows in the same order. `sync` waits until everything that
was written before has been read.
Next door: what rows mean (coordination/, partitions/open_partitions.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog

from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError
from kafscale.proxy.upstream.cluster import Upstream, UpstreamRefused
from kafscale.proxy.upstream.fetching import EARLIEST, LATEST, check, fetch_block, list_offset
from kafscale.proxy.upstream.link import UpstreamLost
from kafscale.records.batch import walk
from kafscale.records.record import Record, build_batch, open_batch
from kafscale.tasks import Tasks
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

logger = structlog.get_logger()

DEFAULT_TOPIC: Final = "__kafscale_proxy"
MOST_ROW_BYTES: Final = 900_000  # the upstream's default for a message is 1 MB
_PARTITION: Final = 0
_LONG_POLL_MS: Final = 500
_PAUSE_S: Final = 0.2
_WRITE_S: Final = 30.0
_MOST_UNPACKED: Final = 64 << 20

_FOR_A_MOMENT: Final = frozenset(
    {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)

RowWatch = Callable[[bytes, bytes | None], None]  # a key, and its new value


class Ledger:
    """The rows of all proxies of an upstream."""

    def __init__(
        self, upstream: Upstream, clock: Clock, tasks: Tasks, topic: str = DEFAULT_TOPIC
    ) -> None:
        self.topic = topic
        self._upstream = upstream
        self._clock = clock
        self._tasks = tasks
        self.rows: dict[bytes, bytes] = {}
        self._watches: list[tuple[bytes, RowWatch]] = []
        self._next = 0
        self.is_followed = False  # the last look at the topic had an answer
        self._reached: list[tuple[int, asyncio.Future[None]]] = []

    def watch(self, prefix: bytes, told: RowWatch) -> None:
        """Call this for every row that changes, those of the past included."""
        self._watches.append((prefix, told))

    async def open(self) -> None:
        """Make the topic if there is none, and read all rows. Raises UpstreamLost."""
        await self._create()
        self._next = await self._offset(EARLIEST)
        self._tasks.spawn(self._follow(), "ledger")
        await self.sync()

    async def _offset(self, which: int) -> int:
        """Where the topic begins or ends, as soon as it has a leader. Raises TimeoutError."""
        async with asyncio.timeout(_WRITE_S):
            while True:
                try:
                    return await list_offset(self._upstream, self.topic, _PARTITION, which)
                except (UpstreamLost, TimeoutError):
                    await asyncio.sleep(_PAUSE_S)

    async def _create(self) -> None:
        if await self._upstream.topic(self.topic) is not None:
            return
        link = await self._upstream.link(None, "metadata")
        config = [CreatableTopicConfig("cleanup.policy", "compact")]
        topic = CreatableTopic(self.topic, 1, -1, configs=config)
        answer = await link.ask(CreateTopicsRequest([topic], 30_000), CreateTopicsResponse)
        code = answer.topics[0].error_code
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise UpstreamRefused(code, f"creating {self.topic}")
        async with asyncio.timeout(_WRITE_S):
            while True:
                await self._upstream.refresh(self.topic)
                facts = self._upstream.topics.get(self.topic)
                if facts is not None and facts.leaders and facts.leaders[0].node >= 0:
                    return
                await asyncio.sleep(_PAUSE_S)

    # -- writing ------------------------------------------------------------------------------

    async def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Write rows, None to delete one, and wait until they count."""
        now_ms = self._clock.now_ms()
        records = [Record(at, now_ms, key, value) for at, (key, value) in enumerate(rows.items())]
        batch = build_batch(records, base_offset=0)
        async with asyncio.timeout(_WRITE_S):
            while True:
                try:
                    last = await self._append(batch) + len(records)
                    break
                except UpstreamRefused as problem:
                    if problem.code not in _FOR_A_MOMENT:
                        raise
                except (UpstreamLost, TimeoutError):
                    pass
                # Rows have no order but that of the log: to write them twice does no harm.
                await asyncio.sleep(_PAUSE_S)
            await self._wait_for(last)

    async def _append(self, batch: bytes) -> int:
        leader = await self._upstream.leader(self.topic, _PARTITION)
        link = await self._upstream.link(leader.node, "ledger")
        rows = [TopicProduceData(self.topic, [PartitionProduceData(_PARTITION, batch)])]
        answer = await link.ask(ProduceRequest(None, -1, 15_000, rows), ProduceResponse)
        found = answer.responses[0].partition_responses[0]
        await check(self._upstream, self.topic, _PARTITION, found.error_code)
        return found.base_offset

    # -- reading ------------------------------------------------------------------------------

    async def sync(self) -> None:
        """Wait until all rows count that were written before."""
        async with asyncio.timeout(_WRITE_S):
            await self._wait_for(await self._offset(LATEST))

    async def _wait_for(self, end: int) -> None:
        if self._next < end:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._reached.append((end, waiting))
            await waiting

    async def _follow(self) -> None:
        while True:
            try:
                block = await fetch_block(
                    self._upstream,
                    self.topic,
                    _PARTITION,
                    self._next,
                    wait_ms=_LONG_POLL_MS,
                    purpose="follow",
                )
            except UpstreamRefused as problem:
                self.is_followed = False
                logger.error("ledger_unreadable", reason=str(problem))
                await asyncio.sleep(_PAUSE_S)
                if problem.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._next = await self._first()
            except (UpstreamLost, TimeoutError) as problem:
                self.is_followed = False
                logger.debug("ledger_waits", reason=str(problem))
                await asyncio.sleep(_PAUSE_S)
            except KafscaleError as problem:
                self.is_followed = False
                logger.error("ledger_unreadable", reason=str(problem))
                await asyncio.sleep(_PAUSE_S)
            else:
                self.is_followed = True
                self._take(block.data)
                self._next = max(self._next, block.end)
                self._tell_reached()

    async def _first(self) -> int:
        try:
            return await list_offset(self._upstream, self.topic, _PARTITION, EARLIEST)
        except (KafscaleError, TimeoutError):
            return self._next

    def _take(self, data: memoryview) -> None:
        for at, header in walk(data):
            if header.is_control or header.next_offset <= self._next:
                continue
            for record in open_batch(data[at : at + header.size], _MOST_UNPACKED):
                if record.key is not None and record.offset >= self._next:
                    self._set(record.key, record.value)

    def _set(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value
        for prefix, told in self._watches:
            if key.startswith(prefix):
                try:
                    told(key, value)
                except (msgspec.MsgspecError, ValueError) as problem:
                    # Of another version, or of another program: the rest must be heard.
                    logger.error("row_unreadable", key=repr(key[:100]), reason=str(problem))

    def _tell_reached(self) -> None:
        still = []
        for end, waiting in self._reached:
            if waiting.done():
                continue
            if end <= self._next:
                waiting.set_result(None)
            else:
                still.append((end, waiting))
        self._reached = still
