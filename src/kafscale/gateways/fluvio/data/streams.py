"""Streams: partitions that a client reads, each as fast as the client gives credit.

Here: one stream and all streams of a connection. A stream sends one answer, then waits until the
client says which offset it wants next. So a client that never asks again costs one answer. A stream
that waits has no task and no memory but its own state. Few streams of a connection read at once,
and none while the client does not read its answers.
Next door: what an answer holds (records/outgoing.py), news of a partition
(engine/partitions/subscriptions.py), the connection (session.py).
"""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from kafscale.access.quotas import QuotaKey
from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.engine.topics.topic import Topic
from kafscale.gateways.fluvio.errors import DENIED, error_of
from kafscale.gateways.fluvio.records import outgoing
from kafscale.gateways.fluvio.records.outgoing import OpenedBatch
from kafscale.gateways.fluvio.smart_modules.chains import ModuleChain
from kafscale.model.buffers import Buffer
from kafscale.model.errors import KafscaleError, OffsetOutOfRange
from kafscale.model.security.access import AccessOperation, ResourceType
from kafscale.records import batch
from kafscale.records.batch import HEADER_SIZE, BatchHeader
from kafscale.records.compression import Codec, decompress
from kafscale.wire.fluvio.errors import FluvioCode, FluvioError
from kafscale.wire.fluvio.frame import FluvioRequest
from kafscale.wire.fluvio.messages.stream_fetch import StreamFetchResponse

if TYPE_CHECKING:
    from kafscale.gateways.fluvio.data.session import DataSession

_MOST_READING: Final = 2  # streams of one connection
_QUICK_BYTES: Final = 16 << 10  # what the event loop unpacks by itself
_LARGEST_OPENED_BYTES: Final = 128 << 20


class Stream:
    """One stream of a partition."""

    __slots__ = (
        "_chain",
        "_has_credit",
        "_is_over",
        "_is_queued",
        "_request",
        "_session",
        "_streams",
        "consumer_id",
        "stream_id",
        "subscription",
        "topic",
    )

    def __init__(
        self,
        streams: "Streams",
        session: "DataSession",
        request: FluvioRequest,
        stream_id: int,
        position: PartitionRead,
        consumer_id: str | None,
        chain: ModuleChain | None,
    ) -> None:
        """Begin at `position`, with credit for one answer. `chain`: what records go through."""
        assert isinstance(position.topic, Topic)
        self._streams = streams
        self._session = session
        self._request = request
        self._chain = chain
        self.stream_id = stream_id
        self.topic = position.topic
        self.consumer_id = consumer_id
        self.subscription = session.engine.partitions.subscribe(position, self.go_on)
        self._has_credit = True
        self._is_queued = False
        self._is_over = False

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self.subscription.position.partition

    def give_credit(self, offset: int) -> None:
        """The client wants one more answer, from this offset on."""
        self.subscription.seek(replace(self.subscription.position, offset=offset))
        self._has_credit = True
        self.go_on()

    def go_on(self) -> None:
        """Read if there is credit and something to read; else wait for either."""
        is_waiting = self._has_credit and not self._is_queued and not self._is_over
        if is_waiting and not self.subscription.watch():
            self._is_queued = True
            self._streams.queue(self)

    def close(self) -> None:
        """End the stream."""
        self._is_over = True
        self.subscription.close()
        if self._chain is not None:
            self._chain.close()

    async def deliver(self) -> None:
        """Send one answer, if there is something to send."""
        position = self.subscription.position
        log_start = -1
        if not self._may_read():
            self._is_queued = False
            self._end(DENIED, log_start)
            return
        try:
            result = await self.subscription.read(position.max_bytes)
            log_start = result.start
            if result.error is not None:
                raise result.error
            pieces, end, error = await self._convert(position, result)
        except KafscaleError as problem:
            self._refuse(problem, position.offset, log_start)
            return
        finally:
            self._is_queued = False
        if self._is_over:
            return
        if end > position.offset:
            self._has_credit = False
            self._answer(result.high, result.start, pieces, error)
            size = sum(map(len, pieces))
            self._session.charge(self._request, QuotaKey.CONSUMED_BYTES, size)
            reads = self._session.engine.metrics.reads_of(self.topic.name)
            reads.read(position.partition, result.from_memory, result.read_s)
            self.topic.fetched_bytes += size
            if error is not None:
                self._streams.end(self)
        else:
            await self._session.engine.turns.next()
            self.go_on()

    def _may_read(self) -> bool:
        """A stream may last for days: what its client may do is asked for every answer."""
        return self._session.allows(
            self._request, AccessOperation.READ, ResourceType.TOPIC, self.topic.name
        )

    async def _convert(
        self, position: PartitionRead, result: ReadResult
    ) -> tuple[list[Buffer], int, FluvioError | None]:
        """The batches of an answer, the offset behind them, and what a SmartModule objects to."""
        start = position.offset
        runs, end = await self._runs(position, result)
        error = None
        if self._chain is not None:
            work = partial(self._chain.process, runs)
            runs, error, stopped = await self._session.work.run(work)
            end = end if error is None else stopped
        return outgoing.record_set(runs, start, end), end, error

    async def _runs(
        self, position: PartitionRead, result: ReadResult
    ) -> tuple[list[outgoing.OffsetRun], int]:
        """What was read, cut where offsets are missing, and the offset behind it."""
        start = end = position.offset
        runs: list[outgoing.OffsetRun] = []
        size = 0
        for piece in result.batches:
            for at, header in batch.walk(piece):
                if header.next_offset <= start:
                    continue
                opened = await self._open(header, piece[at : at + header.size])
                runs += await self._session.engine.turns.finish(outgoing.cut(opened, start))
                end = header.next_offset
                size += len(opened.data)
                if size >= position.max_bytes:
                    return runs, end
        return runs, end

    async def _open(self, header: BatchHeader, stored: memoryview) -> OpenedBatch:
        if header.is_control:
            return OpenedBatch(header, b"")
        packed = stored[HEADER_SIZE:]
        codec = Codec(header.codec)
        if codec is Codec.NONE or len(packed) <= _QUICK_BYTES:
            return OpenedBatch(header, bytes(decompress(codec, packed, _LARGEST_OPENED_BYTES)))
        data = await self._session.work.run(
            lambda: bytes(decompress(codec, packed, _LARGEST_OPENED_BYTES))
        )
        return OpenedBatch(header, data)

    def _refuse(self, problem: KafscaleError, offset: int, log_start: int) -> None:
        """Tell the client why the stream ends."""
        if self._is_over:
            return
        error = error_of(problem)
        if isinstance(problem, OffsetOutOfRange) and offset < log_start:
            error = FluvioError(FluvioCode.OFFSET_EVICTED, (offset, log_start))
        elif self._session.engine.topics.find(self.topic.name) is not self.topic:
            error = FluvioError(FluvioCode.TOPIC_DELETED)
        self._session.note_refusal(self._request, problem)
        self._session.engine.metrics.reads_of(self.topic.name).refused(self.partition)
        self._end(error, log_start)

    def _end(self, error: FluvioError, log_start: int) -> None:
        if not self._is_over:
            self._streams.end(self)
            self._answer(-1, log_start, [], error)

    def _answer(
        self, high: int, log_start: int, pieces: list[Buffer], error: FluvioError | None = None
    ) -> None:
        self._session.send(
            self._request,
            StreamFetchResponse(
                topic=self.topic.name,
                stream_id=self.stream_id,
                partition=self.partition,
                error=error or FluvioError(),
                high_watermark=high,
                log_start_offset=log_start,
                records=pieces,
            ),
        )


class Streams:
    """All streams of one connection."""

    def __init__(self, session: "DataSession") -> None:
        self._session = session
        self._by_id: dict[int, Stream] = {}
        self._given_ids = 0
        self._queue: deque[Stream] = deque()
        self._reading = 0

    def __len__(self) -> int:
        """Count the open streams."""
        return len(self._by_id)

    def open(
        self,
        request: FluvioRequest,
        position: PartitionRead,
        consumer_id: str | None,
        chain: ModuleChain | None = None,
    ) -> Stream:
        """Begin a stream; its first answer comes as soon as there is one."""
        self._given_ids += 1
        stream = Stream(self, self._session, request, self._given_ids, position, consumer_id, chain)
        self._by_id[stream.stream_id] = stream
        return stream

    def find(self, stream_id: int) -> Stream | None:
        """The open stream with this id."""
        return self._by_id.get(stream_id)

    def queue(self, stream: Stream) -> None:
        """A stream has something to read."""
        self._queue.append(stream)
        self.go_on()

    def go_on(self) -> None:
        """Let streams read that have something to read, a few at once."""
        while (
            self._queue
            and self._reading < _MOST_READING
            and not self._session.connection.is_write_blocked
        ):
            self._reading += 1
            self._session.tasks.spawn(self._deliver(self._queue.popleft()), "fluvio stream")

    async def _deliver(self, stream: Stream) -> None:
        try:
            await stream.deliver()
        finally:
            self._reading -= 1
            self.go_on()

    def end(self, stream: Stream) -> None:
        """Forget a stream."""
        stream.close()
        self._by_id.pop(stream.stream_id, None)

    def close(self) -> None:
        """End all streams: the client has gone."""
        for stream in self._by_id.values():
            stream.close()
        self._by_id.clear()
        self._queue.clear()
