"""Frames of the PyPI client 0.21.0, byte for byte, and what they mean."""

from typing import Final

import pytest

from kafscale.wire.fluvio import frame, schema
from kafscale.wire.fluvio.errors import FluvioCode, FluvioError
from kafscale.wire.fluvio.messages import (
    api_versions,
    change_objects,
    consumer_offsets,
    fetch_offsets,
    list_objects,
    produce,
    smart_modules,
    stream_fetch,
    watch,
)
from kafscale.wire.fluvio.messages.objects import (
    Assigned,
    AssignedPartition,
    Computed,
    HostEndpoint,
    Ingress,
    PartitionObject,
    PublicEndpoint,
    ReplicaStatus,
    Segment,
    SpuObject,
    Storage,
    TopicObject,
    TopicSpec,
    TopicStatus,
)
from kafscale.wire.fluvio.messages.objects_envelope import ObjectEnvelope, sealed
from kafscale.wire.fluvio.schema import FluvioTable
from tests.support.fluvio_wire import Updates

_SET: Final = bytes.fromhex(
    "0000000000000000 00000042 ffffffff 02 43407642 0000 00000000 000001a1e06ad58d"
    "000001a1e06ad58d ffffffffffffffff ffff ffffffff 00000001 20 00 00 00 01 04 6b31"
    "0e 68656c6c6f2d31 00"
)
_PRODUCE_1: Final = (
    "0000007c 0000 0018 00000001 0006 666c7576696f 00 0001 000005dc 00000001 0001 74"
    "00000001 00000000 0000004e" + _SET.hex() + "00000000"
)

REQUESTS: Final[list[tuple[str, FluvioTable, type[FluvioTable]]]] = [
    (
        _PRODUCE_1,
        produce.ProduceRequest(
            topics=[produce.TopicProduceData("t", [produce.PartitionProduceData(0, _SET)])]
        ),
        produce.ProduceRequest,
    ),
    (
        "00000026 0000 0018 00000002 0006 666c7576696f 00 0001 000005dc 00000001 0001 74"
        "00000000 00000000",
        produce.ProduceRequest(topics=[produce.TopicProduceData("t", [])]),
        produce.ProduceRequest,
    ),
    (
        "0000001f 03ea 0018 00000004 0006 666c7576696f 00000001 0001 74 00000001 00000000",
        fetch_offsets.FetchOffsetsRequest([fetch_offsets.TopicOffsetsRequest("t", [0])]),
        fetch_offsets.FetchOffsetsRequest,
    ),
    (
        "00000029 03eb 0018 00000006 0006 666c7576696f 0001 74 00000000 0000000000000000"
        "0010013a 00 00000000 00",
        stream_fetch.StreamFetchRequest("t", 0, 0, 1048890),
        stream_fetch.StreamFetchRequest,
    ),
    (
        "00000040 03eb 0018 0000000c 0006 666c7576696f 0001 74 00000000 0000000000000000"
        "0010013a 00 00000001 00 0009 6d792d66696c746572 07 00 0001 0001 61 0001 62 00 00",
        stream_fetch.StreamFetchRequest(
            "t",
            max_bytes=1048890,
            smart_modules=[
                smart_modules.SmartModuleInvocation(
                    smart_modules.Predefined("my-filter"), smart_modules.Generic(), {"a": "b"}
                )
            ],
        ),
        stream_fetch.StreamFetchRequest,
    ),
    (
        "0000004e 03eb 0018 00000003 0006 666c7576696f 0001 74 00000000 0000000000000000"
        "0010013a 00 00000001 01 0000001c"
        "1f8b08000000000000ff63482cce656460600000ce334b1c08000000 00 0000 00 00",
        stream_fetch.StreamFetchRequest(
            "t",
            max_bytes=1048890,
            smart_modules=[
                smart_modules.SmartModuleInvocation(
                    smart_modules.AdHoc(
                        bytes.fromhex("1f8b08000000000000ff63482cce656460600000ce334b1c08000000")
                    )
                )
            ],
        ),
        stream_fetch.StreamFetchRequest,
    ),
    (
        "00000020 03ed 0000 00000007 0006 666c7576696f 00000001 0000000000000003 00000001",
        stream_fetch.UpdateOffsetsRequest([stream_fetch.OffsetUpdate(3, 1)]),
        stream_fetch.UpdateOffsetsRequest,
    ),
    (
        "00000021 03f0 0018 00000003 0006 666c7576696f 01 01 0001 74 0000000001 0005 6772702d31",
        consumer_offsets.FetchConsumerOffsetsRequest(
            consumer_offsets.OffsetFilter(consumer_offsets.ReplicaKey("t", 0), "grp-1")
        ),
        consumer_offsets.FetchConsumerOffsetsRequest,
    ),
    (
        "0000001c 03ee 0018 00000007 0006 666c7576696f 0000000000000003 00000001",
        consumer_offsets.UpdateConsumerOffsetRequest(3, 1),
        consumer_offsets.UpdateConsumerOffsetRequest,
    ),
    (
        "0000001e 03ef 0018 00000015 0006 666c7576696f 0001 74 00000000 0005 6772702d31",
        consumer_offsets.DeleteConsumerOffsetRequest(consumer_offsets.ReplicaKey("t", 0), "grp-1"),
        consumer_offsets.DeleteConsumerOffsetRequest,
    ),
]

# The label, the payload as a row, and the whole frame.
ABOUT_OBJECTS: Final[list[tuple[str, str, FluvioTable]]] = [
    (
        "00000021 03ec 0013 00000001 0005 64756d6d79 0003 535055 000000090000000000000000 00",
        "SPU",
        watch.WatchRequest(),
    ),
    (
        "0000004b 03e9 0013 00000005 0006 666c7576696f 0005 546f706963 00000030"
        "000a 6e65772d746f70696332 00 00 01 00000002 00000001 01 01 00 00000e10"
        "01 01 00989680 01 000000003b9aca00 03 00 00",
        "Topic",
        change_objects.CreateTopic(
            "new-topic2",
            spec=TopicSpec(
                Computed(2, 1, True), Segment(3600), Storage(10_000_000, 1_000_000_000), 3
            ),
        ),
    ),
    (
        "00000024 03eb 0013 00000008 0006 666c7576696f 0005 546f706963 00000009"
        "00000001 0001 74 00 00",
        "Topic",
        list_objects.ListRequest(["t"]),
    ),
    (
        "00000027 03ea 0013 0000000b 0006 666c7576696f 0005 546f706963 0000000c"
        "0009 6e65772d746f706963 00",
        "Topic",
        change_objects.DeleteTopic("new-topic"),
    ),
    (
        "00000046 03e9 0013 00000005 0006 666c7576696f 0005 546f706963 0000002b 0003 617367"
        "00 00 00 00000002 00000000 00000001 00001389 00 00000001 00000001 00001389 00"
        "00 00 04 00 00",
        "Topic",
        change_objects.CreateTopic(
            "asg",
            spec=TopicSpec(Assigned([AssignedPartition(0, [5001]), AssignedPartition(1, [5001])])),
        ),
    ),
]

RESPONSES: Final[list[tuple[str, int, int, FluvioTable]]] = [
    (
        "00000030 00000001 0000 00000005 03e9 0009 0013 03ea 0001 0013 03eb 000f 0013"
        "03ec 000f 0013 03ee 0001 0013 0006 302e31372e33",
        1,
        2,
        api_versions.ApiVersionsResponse(
            api_keys=[
                api_versions.ApiVersionKey(key, least, 19)
                for key, least in ((1001, 9), (1002, 1), (1003, 15), (1004, 15), (1006, 1))
            ],
            platform_version="0.17.3",
        ),
    ),
    (
        "00000031 00000001 00000001 0001 74 00000001 00000000 0000 0000000000000000"
        "ffffffffffffffff 0000000000000000 00000000",
        1,
        24,
        produce.ProduceResponse(
            [
                produce.TopicProduceResponse(
                    "t",
                    [produce.PartitionProduceResponse(0, base_offset=0, log_start_offset=0)],
                )
            ]
        ),
    ),
    (
        "00000052 00000001 00000001 0009 7265667573652d6d65 00000001 00000000 0002 0017"
        "7265667573656420627920676174657761792074657374 ffffffffffffffff ffffffffffffffff"
        "ffffffffffffffff 00000000",
        1,
        24,
        produce.ProduceResponse(
            [
                produce.TopicProduceResponse(
                    "refuse-me",
                    [
                        produce.PartitionProduceResponse(
                            0, FluvioError.other("refused by gateway test")
                        )
                    ],
                )
            ]
        ),
    ),
    (
        "00000025 00000004 00000001 0001 74 00000001 0000 00000000 0000000000000000"
        "0000000000000003",
        4,
        24,
        fetch_offsets.FetchOffsetsResponse(
            [
                fetch_offsets.TopicOffsets(
                    "t",
                    [
                        fetch_offsets.PartitionOffsets(
                            partition=0, start_offset=0, last_stable_offset=3
                        )
                    ],
                )
            ]
        ),
    ),
    (
        "0000007c 00000006 0001 74 00000001 00000000 0000 0000000000000003 ffffffffffffffff"
        "0000000000000000 00 0000004e" + _SET.hex(),
        6,
        24,
        stream_fetch.StreamFetchResponse(
            "t", 1, high_watermark=3, log_start_offset=0, records=[_SET]
        ),
    ),
    (
        "0000000e 00000007 00000001 00000001 0000",
        7,
        0,
        stream_fetch.UpdateOffsetsResponse([stream_fetch.OffsetUpdateStatus(1)]),
    ),
    (
        "0000000e 00000007 0000000000000003 0000",
        7,
        24,
        consumer_offsets.UpdateConsumerOffsetResponse(3),
    ),
    (
        "00000028 00000008 0000 00000001 0005 6772702d31 0001 74 00000000 0000000000000003"
        "000000006af9f6b1",
        8,
        24,
        consumer_offsets.FetchConsumerOffsetsResponse(
            consumers=[
                consumer_offsets.ConsumerOffset(
                    "grp-1", consumer_offsets.ReplicaKey("t", 0), 3, 0x6AF9F6B1
                )
            ]
        ),
    ),
    ("00000006 00000015 0000", 0x15, 24, consumer_offsets.DeleteConsumerOffsetResponse()),
    (
        "00000012 00000006 0009 6e65772d746f706963 07d2 00",
        6,
        19,
        change_objects.Status("new-topic", FluvioError(FluvioCode.TOPIC_ALREADY_EXISTS)),
    ),
]

SPU: Final = SpuObject(
    "custom-spu-5001",
    5001,
    public_endpoint=PublicEndpoint(19005, [Ingress("127.0.0.1")]),
    private_endpoint=HostEndpoint(9006, "127.0.0.1"),
)
PARTITION: Final = PartitionObject("new-topic-0", 5001, [5001], leader_status=ReplicaStatus(5001))
TOPIC: Final = TopicObject("new-topic", TopicSpec(), TopicStatus(replica_map={0: [5001]}))
UPDATES: Final[list[tuple[str, int, str, FluvioTable, bool]]] = [
    (
        "00000058 00000001 0003 535055 0000004b 0000000000000001 00000000 00000001"
        "000f 637573746f6d2d7370752d35303031 00001389 01 4a3d 00000001 01 0009"
        "3132372e302e302e31 00 00 232e 0009 3132372e302e302e31 00 00 00 00",
        1,
        "SPU",
        SPU,
        True,
    ),
    (
        "00000071 00000002 0009 506172746974696f6e 0000005e 0000000000000002 00000001 00"
        "000b 6e65772d746f7069632d30 00001389 00000001 00001389 00 00 04 00 00 00 01"
        "00001389 0000000000000000 0000000000000000 00000000 00000000 fffffffffffffffe 00"
        "0000000000000000 00000000",
        2,
        "Partition",
        PARTITION,
        False,
    ),
    (
        "0000004d 00000003 0005 546f706963 0000003e 0000000000000002 00000001 00"
        "0009 6e65772d746f706963 01 00000001 00000001 00 00 00 04 00 00 04"
        "0001 00000000 00000001 00001389 0000 0000 00000000",
        3,
        "Topic",
        TOPIC,
        False,
    ),
]


def joined(pieces: list[object]) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]


@pytest.mark.parametrize(("text", "row", "kind"), REQUESTS)
def test_a_captured_request_means_this_and_is_written_the_same(
    text: str, row: FluvioTable, kind: type[FluvioTable]
) -> None:
    data = bytes.fromhex(text)
    body = memoryview(data)[4:]
    head = frame.read_request(body)
    read = schema.decode(kind, body, head.version, head.body_start)
    again = frame.request_frame(
        head.api_key, head.version, head.correlation_id, head.client_id, _in_pieces(read)
    )
    assert joined(again) == data
    written = frame.request_frame(
        head.api_key, head.version, head.correlation_id, head.client_id, _in_pieces(row)
    )
    assert joined(written) == data


def _in_pieces(row: FluvioTable) -> FluvioTable:
    """Record sets are read as one slice and written in pieces."""
    if not isinstance(row, produce.ProduceRequest):
        return row
    return produce.ProduceRequest(
        topics=[
            produce.TopicProduceData(
                topic.name,
                [
                    produce.PartitionProduceData(one.partition, [one.records])
                    for one in topic.partitions
                ],  # type: ignore[list-item]
            )
            for topic in row.topics
        ]
    )


@pytest.mark.parametrize(("text", "label", "row"), ABOUT_OBJECTS)
def test_a_captured_request_about_objects_means_this_and_is_written_the_same(
    text: str, label: str, row: FluvioTable
) -> None:
    data = bytes.fromhex(text)
    body = memoryview(data)[4:]
    head = frame.read_request(body)
    envelope = schema.decode(ObjectEnvelope, body, head.version, head.body_start)
    assert envelope.label == label
    assert isinstance(envelope.payload, memoryview)
    assert schema.decode(type(row), envelope.payload, head.version) == row
    again = frame.request_frame(
        head.api_key,
        head.version,
        head.correlation_id,
        head.client_id,
        sealed(label, row, head.version),
    )
    assert joined(again) == data


@pytest.mark.parametrize(("text", "number", "version", "row"), RESPONSES)
def test_a_response_is_what_the_client_could_read(
    text: str, number: int, version: int, row: FluvioTable
) -> None:
    data = bytes.fromhex(text)
    assert joined(frame.response_frame(number, row, version)) == data


@pytest.mark.parametrize(("text", "number", "label", "row", "is_all"), UPDATES)
def test_an_update_of_a_watch_is_what_the_client_could_read(
    text: str, number: int, label: str, row: FluvioTable, is_all: bool
) -> None:
    data = bytes.fromhex(text)
    written = joined(schema.encode(row, 19))
    changes = [] if is_all else [watch.ObjectChange(watch.UPDATE, written)]
    updates = watch.WatchUpdates(1 if is_all else 2, changes, [written] if is_all else [])
    assert joined(frame.response_frame(number, sealed(label, updates, 19), 19)) == data
    envelope = schema.decode(ObjectEnvelope, memoryview(data), 19, 8)
    assert isinstance(envelope.payload, memoryview)
    read = Updates(envelope.payload, type(row), 19)
    assert (read.all or [change for _, change in read.changes]) == [row]
