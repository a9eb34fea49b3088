"""Sending batches to the leaders of physical partitions, many at a time.

Here: one queue per upstream broker. A request holds at most one batch of each physical partition,
as the protocol wants it; several requests are under way at once, and are answered in order.
Next door: which batches, and what their answers mean (partitions/partition.py).
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from kafscale.model.buffers import Buffer
from kafscale.model.errors import KafscaleError
from kafscale.model.metrics.meters import Counter
from kafscale.proxy.upstream.cluster import Upstream
from kafscale.proxy.upstream.link import CLIENT_ID, Link
from kafscale.tasks import Tasks
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.frame import MalformedMessage
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_MOST_UNDER_WAY: Final = 8  # requests to one broker
_MOST_BYTES: Final = 8 << 20  # of one request
_TIMEOUT_MS: Final = 20_000
_ANSWER_S: Final = 30.0
LOST: Final = -1000  # instead of an error code: nothing is known of the batch


class AppendOutcome:
    """What became of a batch."""

    __slots__ = ("append_time_ms", "base", "code", "log_start")

    def __init__(self, code: int, base: int = -1, append_time_ms: int = -1, log_start: int = -1):
        self.code = code
        self.base = base
        self.append_time_ms = append_time_ms
        self.log_start = log_start


class Source(Protocol):
    """A physical partition that has batches to send."""

    topic: str
    index: int

    def take(self) -> Buffer | None:
        """The next batch to send; None: none now."""
        ...

    def answered(self, outcome: AppendOutcome) -> None:
        """Hear of the oldest batch that was taken and not answered."""
        ...


class Appender:
    """All batches on their way to the upstream."""

    def __init__(self, upstream: Upstream, tasks: Tasks, errors: Counter | None = None) -> None:
        """`errors` counts batches that the upstream did not take at once."""
        self._errors = errors or Counter("")
        self._upstream = upstream
        self._tasks = tasks
        self._queues: dict[int, dict[Source, None]] = {}
        self._wanted: dict[int, asyncio.Event] = {}
        self._under_way: dict[int, int] = {}

    def submit(self, node: int, source: Source) -> None:
        """Send a partition's batches to its leader."""
        if node not in self._queues:
            self._queues[node] = {}
            self._wanted[node] = asyncio.Event()
            self._under_way[node] = 0
            self._tasks.spawn(self._send_all(node), "append")
        self._queues[node][source] = None
        self._wanted[node].set()

    async def _send_all(self, node: int) -> None:
        queue, wanted = self._queues[node], self._wanted[node]
        while True:
            wanted.clear()
            if not queue or self._under_way[node] >= _MOST_UNDER_WAY:
                await wanted.wait()
                continue
            try:
                link = await self._upstream.link(node, "append")
            except (KafscaleError, TimeoutError):
                self._fail(queue)
                continue
            self._send(node, link, queue)
            await asyncio.sleep(0)  # what arrives meanwhile goes with the next request

    def _fail(self, queue: dict[Source, None]) -> None:
        """The broker cannot be reached: the partitions find out who leads them now."""
        for source in list(queue):
            del queue[source]
            if source.take() is not None:
                source.answered(AppendOutcome(LOST))

    def _send(self, node: int, link: Link, queue: dict[Source, None]) -> None:
        taken: list[Source] = []
        topics: dict[str, list[PartitionProduceData]] = {}
        size = 0
        for source in list(queue):
            batch = source.take() if size < _MOST_BYTES else None
            if batch is None:
                if size < _MOST_BYTES:
                    del queue[source]
                continue
            size += len(batch)
            taken.append(source)
            topics.setdefault(source.topic, []).append(PartitionProduceData(source.index, batch))
        if not taken:
            return
        rows = [TopicProduceData(name, parts) for name, parts in topics.items()]
        request = ProduceRequest(None, -1, _TIMEOUT_MS, rows)
        version = link.version_of(ProduceRequest)
        sent = link.send(frame.request_frame(0, request, version, CLIENT_ID))
        self._under_way[node] += 1
        self._tasks.spawn(self._answer(node, link, taken, sent, version), "appended")

    async def _answer(
        self,
        node: int,
        link: Link,
        taken: Sequence[Source],
        sent: "asyncio.Future[memoryview]",
        version: int,
    ) -> None:
        found: dict[tuple[str, int], AppendOutcome] = {}
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = frame.read_response(await sent, ProduceResponse, version)[1]
            for topic in answer.responses:
                for row in topic.partition_responses:
                    found[topic.name, row.index] = AppendOutcome(
                        row.error_code,
                        row.base_offset,
                        row.log_append_time_ms,
                        row.log_start_offset,
                    )
        except (KafscaleError, TimeoutError, MalformedMessage):
            link.close()
        finally:
            self._under_way[node] -= 1
            for source in taken:
                outcome = found.get((source.topic, source.index)) or AppendOutcome(LOST)
                if outcome.code:
                    self._errors.inc()
                source.answered(outcome)
            self._wanted[node].set()
