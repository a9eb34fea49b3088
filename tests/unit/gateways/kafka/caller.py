"""A client that says exactly what a test wants, and shows exactly what came back."""

import asyncio
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from kafscale.records.batch import BatchHeader, walk
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch, open_batch
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.catalog import BY_KEY
from kafscale.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafscale.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kafscale.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafscale.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kafscale.wire.kafka.schema import NO_UUID, Message

NOW_MS = 1_700_000_000_000
ANSWER_S = 25.0


def make_batch(
    *values: bytes, timestamp_ms: int = NOW_MS, codec: Codec = Codec.NONE, **fields: int
) -> bytes:
    """A batch of these values, one millisecond apart."""
    rows = [Record(at, timestamp_ms + at, None, value) for at, value in enumerate(values)]
    return build_batch(rows, base_offset=0, codec=codec, **fields)


class Caller:
    """One connection. Use with `async with`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._number = 0
        self._sent: list[tuple[int, type[Message], int]] = []

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=1 << 27
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            pass  # the broker was faster

    # -- any request -------------------------------------------------------------------------

    def send(self, request: Message, version: int) -> None:
        """Send without waiting; `answer` gives the answers in order."""
        self._number += 1
        self._sent.append((self._number, BY_KEY[request.api_key].response, version))
        self.writer.writelines(frame.request_frame(self._number, request, version, "tests"))

    async def answer(self) -> Any:
        """The answer to the earliest request that has none yet."""
        async with asyncio.timeout(ANSWER_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            raw = await self.reader.readexactly(size)
        number, kind, version = self._sent.pop(0)
        correlation_id, message = frame.read_response(memoryview(bytearray(raw)), kind, version)
        assert correlation_id == number
        return message

    async def ask(self, request: Message, version: int) -> Any:
        """Send and wait for the answer."""
        self.send(request, version)
        return await self.answer()

    async def is_closed(self) -> bool:
        """Whether the broker ends the connection without a further word."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    # -- requests with one row ---------------------------------------------------------------

    async def create(
        self,
        name: str,
        partitions: int = 1,
        *,
        configs: dict[str, str | None] | None = None,
        assignments: dict[int, list[int]] | None = None,
        replication: int = 1,
        validate_only: bool = False,
        version: int = 7,
    ) -> CreatableTopicResult:
        topic = CreatableTopic(
            name,
            partitions,
            replication,
            [CreatableReplicaAssignment(*row) for row in (assignments or {}).items()],
            [CreatableTopicConfig(*row) for row in (configs or {}).items()],
        )
        request = CreateTopicsRequest([topic], 10_000, validate_only)
        (result,) = (await self.ask(request, version)).topics
        assert isinstance(result, CreatableTopicResult)
        return result

    async def delete(self, name: str) -> int:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name)], timeout_ms=10_000)
        return int((await self.ask(request, 6)).responses[0].error_code)

    async def produce(
        self,
        topic: str,
        records: bytes | None,
        *,
        partition: int = 0,
        acks: int = -1,
        timeout_ms: int = 10_000,
        version: int = 9,
    ) -> PartitionProduceResponse:
        request = produce_request(
            topic, records, partition=partition, acks=acks, timeout_ms=timeout_ms
        )
        (row,) = (await self.ask(request, version)).responses[0].partition_responses
        assert isinstance(row, PartitionProduceResponse)
        return row

    async def fetch(
        self, topic: str | bytes, offset: int = 0, *, version: int = 12, **wishes: int
    ) -> PartitionData:
        """One partition's part; without a session."""
        request = fetch_request([(topic, wishes.pop("partition", 0), offset)], **wishes)
        (row,) = (await self.ask(request, version)).responses[0].partitions
        assert isinstance(row, PartitionData)
        return row

    async def offset(
        self,
        topic: str,
        timestamp: int,
        *,
        partition: int = 0,
        version: int = 7,
        leader_epoch: int = -1,
        max_num_offsets: int = 1,
    ) -> ListOffsetsPartitionResponse:
        one = ListOffsetsPartition(partition, leader_epoch, timestamp, max_num_offsets)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [one])])
        (row,) = (await self.ask(request, version)).topics[0].partitions
        assert isinstance(row, ListOffsetsPartitionResponse)
        return row


def produce_request(
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 10_000,
) -> ProduceRequest:
    data = [TopicProduceData(topic, [PartitionProduceData(partition, records)])]
    return ProduceRequest(None, acks, timeout_ms, data)


def fetch_request(
    wanted: Sequence[tuple[str | bytes, int, int]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
    leader_epoch: int = -1,
    forgotten: Sequence[tuple[str | bytes, int]] = (),
) -> FetchRequest:
    """Wanted: topic name or id, partition, offset."""
    topics: dict[str | bytes, FetchTopic] = {}
    for topic, partition, offset in wanted:
        name, topic_id = (topic, NO_UUID) if isinstance(topic, str) else ("", topic)
        row = topics.setdefault(topic, FetchTopic(name, topic_id, []))
        row.partitions.append(
            FetchPartition(partition, leader_epoch, offset, -1, -1, partition_bytes)
        )
    gone = [
        ForgottenTopic(topic, NO_UUID, [number])
        if isinstance(topic, str)
        else ForgottenTopic("", topic, [number])
        for topic, number in forgotten
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=gone,
    )


def headers_of(row: PartitionData) -> list[BatchHeader]:
    """The headers of the batches in a partition's part."""
    assert isinstance(row.records, memoryview)
    return [header for _, header in walk(row.records)]


def values_of(row: PartitionData) -> list[bytes | None]:
    """The values of all records in a partition's part."""
    return [record.value for record in records_of(row)]


def records_of(row: PartitionData) -> list[Record]:
    data = row.records
    assert isinstance(data, memoryview)
    return [
        record
        for at, header in walk(data)
        for record in open_batch(data[at : at + header.size], 1 << 27)
    ]
