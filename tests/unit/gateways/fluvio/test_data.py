"""The data port: records in, streams out by credit, offsets of consumers."""

import asyncio
import struct

import pytest

from kafscale.access.quotas import QuotaKey, entity_of
from kafscale.engine.partitions.reads import PartitionRead
from kafscale.records import batch
from kafscale.records.record import Record, build_batch, open_batch
from kafscale.testing.in_process import InProcessBroker
from kafscale.wire.fluvio.errors import NO_ERROR, FluvioCode, FluvioError
from kafscale.wire.fluvio.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafscale.wire.fluvio.messages.consumer_offsets import (
    DeleteConsumerOffsetRequest,
    DeleteConsumerOffsetResponse,
    FetchConsumerOffsetsRequest,
    FetchConsumerOffsetsResponse,
    OffsetFilter,
    ReplicaKey,
    UpdateConsumerOffsetRequest,
    UpdateConsumerOffsetResponse,
)
from kafscale.wire.fluvio.messages.fetch_offsets import (
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    PartitionOffsets,
    TopicOffsetsRequest,
)
from kafscale.wire.fluvio.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafscale.wire.fluvio.messages.smart_modules import SmartModuleInvocation
from kafscale.wire.fluvio.messages.stream_fetch import (
    OffsetUpdate,
    StreamFetchRequest,
    StreamFetchResponse,
    UpdateOffsetsRequest,
    UpdateOffsetsResponse,
)
from tests.support.fluvio_records import GZIP, ZSTD, FluvioRecord, read_set, write_batch
from tests.support.fluvio_wire import FluvioConnection

pytestmark = pytest.mark.real_time

V = 24
PRODUCE, FETCH_OFFSETS, STREAM, CREDIT = 0, 1002, 1003, 1005
COMMIT, DELETE, FETCH_COMMITTED = 1006, 1007, 1008
NOW_MS = 1_700_000_000_000


def values(*texts: str) -> list[FluvioRecord]:
    return [FluvioRecord(b"k", text.encode()) for text in texts]


def produce_request(
    *sets: bytes, topic: str = "t", partition: int = 0, isolation: int = 1
) -> ProduceRequest:
    rows = [PartitionProduceData(partition, [one]) for one in sets]
    return ProduceRequest(isolation=isolation, topics=[TopicProduceData(topic, rows)])


async def produce(
    data: FluvioConnection, request: ProduceRequest, version: int = V
) -> list[PartitionProduceResponse]:
    answer = await data.ask(PRODUCE, version, request, ProduceResponse)
    assert [row.name for row in answer.topics] == [row.name for row in request.topics]
    return [row for topic in answer.topics for row in topic.partitions]


async def stored(broker: InProcessBroker, name: str = "t") -> list[Record]:
    topic = broker.engine.topics.get(name)
    (result,) = await broker.engine.partitions.fetch(
        [PartitionRead(topic, 0, 0, 1 << 20)], 1 << 20, 0, 0.0
    )
    assert result.error is None
    return [
        record
        for piece in result.batches
        for at, header in batch.walk(piece)
        for record in open_batch(piece[at : at + header.size], 1 << 20)
    ]


async def append(broker: InProcessBroker, built: bytes, name: str = "t") -> None:
    """What a Kafka client writes."""
    topic = broker.engine.topics.get(name)
    await broker.engine.partitions.open(topic, 0)
    done = broker.engine.partitions.append(
        topic, 0, memoryview(bytearray(built)), acknowledged=False
    )
    assert done.appended.committed is not None
    assert await done.appended.committed is None


class StreamOf:
    """A stream as a client reads it."""

    def __init__(self, data: FluvioConnection, request: StreamFetchRequest, version: int = V):
        self.data, self.version = data, version
        self.number = data.send(STREAM, version, request)

    async def answer(self) -> StreamFetchResponse:
        return await self.data.next(self.number, StreamFetchResponse, self.version)

    async def read(self) -> tuple[list[tuple[int, bytes]], int, int]:
        """Records of the next answer, the offset to go on from, and the stream's id."""
        answer = await self.answer()
        assert answer.error == NO_ERROR
        found, following = read_set(bytes(answer.records))
        return [(one.offset, one.value) for one in found], following, answer.stream_id

    async def give_credit(self, offset: int, stream_id: int) -> None:
        answer = await self.data.ask(
            CREDIT,
            0,
            UpdateOffsetsRequest([OffsetUpdate(offset, stream_id)]),
            UpdateOffsetsResponse,
        )
        assert [row.error for row in answer.status] == [NO_ERROR]


@pytest.fixture(autouse=True)
async def topic(broker: InProcessBroker) -> None:
    await broker.engine.topics.create("t", 1, {})


async def test_a_client_is_told_which_versions_there_are(data: FluvioConnection) -> None:
    answer = await data.ask(18, 2, ApiVersionsRequest(), ApiVersionsResponse)
    offered = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert offered == {
        0: (8, 25),
        1002: (22, 25),
        1003: (19, 25),
        1005: (0, 0),
        1006: (23, 25),
        1007: (23, 25),
        1008: (23, 25),
    }


@pytest.mark.parametrize("version", [8, 22, 23, 24, 25])
@pytest.mark.parametrize("isolation", [-1, 1])
async def test_records_are_stored_and_acknowledged_with_their_offset(
    data: FluvioConnection, broker: InProcessBroker, version: int, isolation: int
) -> None:
    sent = [FluvioRecord(None, b"a"), FluvioRecord(b"", b"b", 5), FluvioRecord(b"k", b"")]
    request = produce_request(write_batch(sent, GZIP, NOW_MS), isolation=isolation)
    (row,) = await produce(data, request, version)
    assert (row.error, row.base_offset) == (NO_ERROR, 0)
    assert [(one.key, one.value, one.timestamp_ms) for one in await stored(broker)] == [
        (None, b"a", NOW_MS),
        (b"", b"b", NOW_MS + 5),
        (b"k", b"", NOW_MS),
    ]


async def test_every_row_of_a_request_has_its_own_answer_in_the_same_order(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    good = [write_batch(values("a", "b")), write_batch(values("c"), ZSTD)]
    bad = write_batch(values("x"), attributes=0x10)
    rows = await produce(data, produce_request(good[0], bad, good[1], good[0] + good[1]))
    assert [row.base_offset for row in rows] == [0, -1, 2, 3]
    assert rows[1].error == FluvioError.other("schemas of records are not supported")
    assert [one.value for one in await stored(broker)] == [b"a", b"b", b"c", b"a", b"b", b"c"]


async def test_a_request_without_records_is_answered_as_it_came(data: FluvioConnection) -> None:
    assert await produce(data, ProduceRequest(topics=[TopicProduceData("t", [])])) == []


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (produce_request(write_batch(values("a")), topic="nowhere"), FluvioCode.TOPIC_NOT_FOUND),
        (produce_request(write_batch(values("a")), partition=7), FluvioCode.TOPIC_NOT_FOUND),
        (
            produce_request(write_batch(values("a")), topic="consumer-offset"),
            FluvioCode.PERMISSION_DENIED,
        ),
        (produce_request(b""), FluvioError.other("no records")),
        (produce_request(b"x" * 70), FluvioCode.OTHER),
        (
            produce_request(write_batch(values("a"), attributes=7)),
            FluvioCode.COMPRESSION_ERROR,
        ),
        (
            produce_request(write_batch([FluvioRecord(None, bytes(1_100_000))])),
            FluvioCode.MESSAGE_TOO_LARGE,
        ),
    ],
)
async def test_what_cannot_be_stored_is_refused_with_offset_minus_one(
    data: FluvioConnection,
    broker: InProcessBroker,
    request_: ProduceRequest,
    error: FluvioCode | FluvioError,
) -> None:
    (row,) = await produce(data, request_)
    assert row.base_offset == -1
    assert error in (row.error, row.error.code)
    assert await stored(broker) == []


async def test_transactions_and_smart_modules_are_refused_in_words(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    topics = produce_request(write_batch(values("a"))).topics
    for request, text in (
        (ProduceRequest("tx", topics=topics), "transactions"),
        (ProduceRequest(topics=topics, smart_modules=[SmartModuleInvocation()]), "SmartModules"),
    ):
        (row,) = await produce(data, request)
        assert row.error.code == FluvioCode.OTHER
        assert text in str(row.error.details[0])
    refused = await StreamOf(
        data, StreamFetchRequest("t", smart_modules=[SmartModuleInvocation()])
    ).answer()
    assert refused.error == FluvioError(FluvioCode.SMART_MODULE_NOT_FOUND, ("",))
    assert await stored(broker) == []


async def test_offsets_are_those_after_the_requests_before(data: FluvioConnection) -> None:
    data.send(PRODUCE, V, produce_request(write_batch(values("a", "b"))))
    asked = FetchOffsetsRequest([TopicOffsetsRequest("t", [0, 5]), TopicOffsetsRequest("x", [0])])
    answer = await data.ask(FETCH_OFFSETS, V, asked, FetchOffsetsResponse)
    missing = FluvioError(FluvioCode.TOPIC_NOT_FOUND)
    assert [row.partitions for row in answer.topics] == [
        [PartitionOffsets(NO_ERROR, 0, 0, 2), PartitionOffsets(missing, 5)],
        [PartitionOffsets(missing, 0)],
    ]


async def test_a_stream_sends_one_answer_for_each_credit(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    await produce(data, produce_request(write_batch(values("a", "b"))))
    stream = StreamOf(data, StreamFetchRequest("t", max_bytes=1 << 20))
    records, following, stream_id = await stream.read()
    assert (records, following) == ([(0, b"a"), (1, b"b")], 2)
    await produce(data, produce_request(write_batch(values("c"))))
    await produce(data, produce_request(write_batch(values("d"))))
    assert data.has_no_answer(stream.number)
    await stream.give_credit(2, stream_id)
    assert (await stream.read())[:2] == ([(2, b"c"), (3, b"d")], 4)
    await stream.give_credit(3, stream_id)  # the client may ask again for what it had
    assert (await stream.read())[:2] == ([(3, b"d")], 4)
    await stream.give_credit(4, stream_id)
    await produce(data, produce_request(write_batch(values("e"))))  # now it is woken
    assert (await stream.read())[:2] == ([(4, b"e")], 5)


async def test_a_stream_that_gets_no_credit_costs_one_answer_and_holds_up_nothing(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    await produce(data, produce_request(write_batch(values("a"))))
    streams = [StreamOf(data, StreamFetchRequest("t", max_bytes=10)) for _ in range(5)]
    for _ in range(20):
        await produce(data, produce_request(write_batch(values("x" * 100))))
    for stream in streams:
        assert (await stream.read())[0][0] == (0, b"a")
    await produce(data, produce_request(write_batch(values("last"))))
    assert all(data.has_no_answer(stream.number) for stream in streams)


async def test_an_answer_has_as_many_batches_as_the_client_wants_and_at_least_one(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    for text in ("a", "b", "c"):
        await produce(data, produce_request(write_batch(values(text * 1000))))
    for size, offsets in ((1, [0]), (1500, [0]), (1 << 20, [0, 1, 2])):
        stream = StreamOf(data, StreamFetchRequest("t", max_bytes=size))
        records, following, _ = await stream.read()
        assert [offset for offset, _ in records] == offsets
        assert following == len(offsets)


async def test_a_client_reads_what_kafka_clients_wrote(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    records = [
        Record(0, NOW_MS, None, b"no key"),
        Record(1, NOW_MS + 1, b"k", None),
        Record(2, NOW_MS + 2, b"k", b"v", (("h", b"1"), ("g", None))),
    ]
    await append(broker, build_batch(records, base_offset=0))
    stream = StreamOf(data, StreamFetchRequest("t", fetch_offset=0, max_bytes=1 << 20, isolation=1))
    answer = await stream.answer()
    found, following = read_set(bytes(answer.records))
    assert [tuple(one) for one in found] == [
        (0, NOW_MS, None, b"no key"),
        (1, NOW_MS + 1, b"k", b""),
        (2, NOW_MS + 2, b"k", b"v"),
    ]
    assert (following, answer.high_watermark, answer.log_start_offset) == (3, 3, 0)
    middle = StreamOf(data, StreamFetchRequest("t", fetch_offset=1, max_bytes=1 << 20))
    assert (await middle.read())[0] == [(1, b""), (2, b"v")]


async def test_a_stream_before_the_log_start_is_told_where_records_begin(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    await produce(data, produce_request(write_batch(values("a", "b", "c"))))
    await broker.engine.partitions.delete_records(broker.engine.topics.get("t"), 0, 2)
    evicted = await StreamOf(data, StreamFetchRequest("t", fetch_offset=1)).answer()
    assert evicted.error == FluvioError(FluvioCode.OFFSET_EVICTED, (1, 2))
    beyond = await StreamOf(data, StreamFetchRequest("t", fetch_offset=9)).answer()
    assert beyond.error == FluvioError(FluvioCode.OFFSET_OUT_OF_RANGE)
    for name, partition in (("nowhere", 0), ("t", 3), ("consumer-offset", 0)):
        refused = await StreamOf(data, StreamFetchRequest(name, partition)).answer()
        assert refused.error.code == FluvioCode.TOPIC_NOT_FOUND


async def test_a_stream_ends_with_its_topic(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    stream = StreamOf(data, StreamFetchRequest("t"))
    await data.ask(FETCH_OFFSETS, V, FetchOffsetsRequest(), FetchOffsetsResponse)
    await broker.engine.topics.delete("t")
    answer = await stream.answer()
    assert answer.error == FluvioError(FluvioCode.TOPIC_DELETED)
    credit = await data.ask(
        CREDIT, 0, UpdateOffsetsRequest([OffsetUpdate(0, answer.stream_id)]), UpdateOffsetsResponse
    )
    assert credit.status[0].error == FluvioError(FluvioCode.FETCH_SESSION_NOT_FOUND)


async def test_streams_end_with_their_connection(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    await produce(data, produce_request(write_batch(values("a"))))
    for _ in range(3):
        await StreamOf(data, StreamFetchRequest("t", max_bytes=100)).read()
    await data.aclose()
    while len(broker.connections):
        await asyncio.sleep(0.01)
    await append(broker, build_batch([Record(0, NOW_MS, None, b"b")], base_offset=0))
    assert broker.connections.held_bytes == 0


async def test_a_consumers_offset_is_a_groups_committed_offset(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    await produce(data, produce_request(write_batch(values("a", "b", "c"))))
    stream = StreamOf(data, StreamFetchRequest("t", max_bytes=1 << 20, consumer_id="shop"))
    _, _, stream_id = await stream.read()
    answer = await data.ask(
        COMMIT, V, UpdateConsumerOffsetRequest(1, stream_id), UpdateConsumerOffsetResponse
    )
    assert answer == UpdateConsumerOffsetResponse(1)
    committed = await broker.engine.offsets.committed("shop")
    assert [(place, one.offset) for place, one in committed.items()] == [(("t", 0), 2)]
    place = ReplicaKey("t", 0)
    for wanted in (None, OffsetFilter(place, "shop"), OffsetFilter(place), OffsetFilter()):
        found = await data.ask(
            FETCH_COMMITTED, V, FetchConsumerOffsetsRequest(wanted), FetchConsumerOffsetsResponse
        )
        assert [(one.consumer_id, one.replica, one.offset) for one in found.consumers] == [
            ("shop", place, 1)
        ]
        assert found.consumers[0].modified_time_s > 1_700_000_000
    for wanted in (OffsetFilter(place, "other"), OffsetFilter(ReplicaKey("t", 4))):
        found = await data.ask(
            FETCH_COMMITTED, V, FetchConsumerOffsetsRequest(wanted), FetchConsumerOffsetsResponse
        )
        assert found.consumers == []
    asked = FetchOffsetsRequest([TopicOffsetsRequest("t", [0])], "shop")
    bounds = await data.ask(FETCH_OFFSETS, 23, asked, FetchOffsetsResponse)
    assert bounds.topics[0].partitions == [PartitionOffsets(NO_ERROR, 0, 2, 3)]
    deleted = await data.ask(
        DELETE, V, DeleteConsumerOffsetRequest(place, "shop"), DeleteConsumerOffsetResponse
    )
    assert deleted.error == NO_ERROR
    assert await broker.engine.offsets.committed("shop") == {}


async def test_offsets_that_cannot_be_committed_are_refused_in_words(
    data: FluvioConnection, broker: InProcessBroker
) -> None:
    await produce(data, produce_request(write_batch(values("a"))))
    _, _, nameless = await StreamOf(data, StreamFetchRequest("t", max_bytes=9)).read()
    _, _, named = await StreamOf(
        data, StreamFetchRequest("t", max_bytes=9, consumer_id="c" * 2000)
    ).read()
    for stream_id, error in (
        (99, FluvioError(FluvioCode.FETCH_SESSION_NOT_FOUND)),
        (nameless, FluvioError.other("the stream was opened without a consumer id")),
        (named, FluvioError.other("a group id has 1 to 1000 characters")),
    ):
        answer = await data.ask(
            COMMIT, V, UpdateConsumerOffsetRequest(0, stream_id), UpdateConsumerOffsetResponse
        )
        assert answer.error == error
    gone = await data.ask(
        DELETE,
        V,
        DeleteConsumerOffsetRequest(ReplicaKey("t", 0), "no-group"),
        DeleteConsumerOffsetResponse,
    )
    assert gone.error.code == FluvioCode.OTHER


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">Hhi", 0, 24, 1),  # no client id
        struct.pack(">Hhih", 0, 24, 1, 0) + b"\7",  # no flag
        struct.pack(">Hhih", 1, 24, 1, 0),  # Fetch is not offered
        struct.pack(">Hhih", 2000, 24, 1, 0),
        struct.pack(">Hhih", 0, 7, 1, 0),
        struct.pack(">Hhih", 0, 26, 1, 0),
        struct.pack(">Hhih", 1003, 18, 1, 0),
    ],
)
async def test_a_request_that_cannot_be_read_ends_its_connection_alone(
    data: FluvioConnection, broker: InProcessBroker, frame: bytes
) -> None:
    other = await FluvioConnection.open(broker.endpoints["FLUVIO_SPU"])
    data.send_bytes(struct.pack(">i", len(frame)) + frame)
    with pytest.raises(ConnectionError):
        await data.next_frame(1)
    assert (await produce(other, produce_request(write_batch(values("a")))))[0].base_offset == 0
    await other.aclose()


@pytest.mark.parametrize("key", [QuotaKey.PRODUCED_BYTES, QuotaKey.CONSUMED_BYTES])
async def test_a_client_over_its_quota_is_not_read_from(
    data: FluvioConnection, broker: InProcessBroker, key: QuotaKey
) -> None:
    await produce(data, produce_request(write_batch(values("a" * 1000))))
    await broker.engine.quotas.alter(entity_of([("client-id", "test")]), {key: 1.0})
    if key is QuotaKey.PRODUCED_BYTES:
        await produce(data, produce_request(write_batch(values("b" * 1000))))
    else:
        await StreamOf(data, StreamFetchRequest("t", max_bytes=1 << 20)).read()
    (connection,) = broker.connections._open
    assert connection.is_muted
