"""Messages: what is passed on uncopied, what versions leave out, what hostile bytes cost."""

import tracemalloc
from typing import Annotated

import pytest

from kafscale.turns import run_through
from kafscale.wire import buffer
from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.kafka import codec
from kafscale.wire.kafka.messages import fetch, metadata, produce
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafscale.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kafscale.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from kafscale.wire.kafka.schema import (
    Float64,
    Int32,
    Message,
    Struct,
    UInt16,
    UInt32,
    V,
    message,
)
from tests.fuzz.samples import Maker, plain
from tests.unit.wire.kafka.cases import FIRST_AND_LAST


class Inner(Struct):
    number: Int32 = 0


@message(api_key=999, versions=range(2), flexible_from=1)
class Unusual(Message):
    """What the protocol has but our tables do not use."""

    port: UInt16 = 0
    mask: UInt32 = 0
    ratio: Float64 = 0.0
    maybe: Inner | None = None
    numbers: Annotated[list[Int32] | None, V(1)] = None
    note: bytes | None = b""


def fetch_answer(records: object) -> fetch.FetchResponse:
    partition = fetch.PartitionData(1, records=records)  # type: ignore[arg-type]
    return fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse("orders", partitions=[partition])]
    )


def test_records_are_passed_on_without_copying() -> None:
    records = memoryview(bytes(64 * 1024))
    buffers = codec.encode(fetch_answer(records), 12)
    assert any(piece is records for piece in buffers)
    assert sum(map(len, buffers)) - len(records) < 100


def test_records_may_come_in_pieces_and_are_one_field() -> None:
    pieces = [b"a" * 2000, memoryview(b"b" * 3000), bytearray(b"c" * 10)]
    whole = b"".join(pieces)
    for version in (4, 12):
        in_pieces = codec.encode(fetch_answer(pieces), version)
        assert all(any(piece is one for one in in_pieces) for piece in pieces)
        assert b"".join(in_pieces) == b"".join(codec.encode(fetch_answer(whole), version))


def test_small_records_are_joined_with_their_neighbours() -> None:
    for records in (b"tiny", (b"ti", b"ny"), b"", None):
        assert len(codec.encode(fetch_answer(records), 12)) == 1


def test_decoded_records_are_slices_of_the_frame() -> None:
    sent = produce.ProduceRequest(
        topic_data=[
            produce.TopicProduceData("orders", [produce.PartitionProduceData(0, b"r" * 5000)])
        ]
    )
    frame = bytearray(b"".join(codec.encode(sent, 9)))
    got, _ = codec.decode(produce.ProduceRequest, memoryview(frame), 9)
    records = got.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_the_first_buffer_is_the_one_handed_in() -> None:
    out = bytearray(b"header")
    buffers = codec.encode(fetch_answer(bytes(5000)), 12, out)
    assert buffers[0] is out
    assert out.startswith(b"header")


def test_an_empty_message_is_one_empty_buffer() -> None:
    assert codec.encode(ApiVersionsRequest(), 0) == [bytearray()]


def test_fields_of_other_versions_are_left_out_and_come_back_as_defaults() -> None:
    asked = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(bytes(range(16)), "orders")],
        allow_auto_topic_creation=False,
    )
    got, _ = codec.decode(metadata.MetadataRequest, memoryview(b"".join(codec.encode(asked, 1))), 1)
    assert got == metadata.MetadataRequest([metadata.MetadataRequestTopic(name="orders")])
    assert got.allow_auto_topic_creation is True


def test_lists_of_two_decoded_messages_are_not_shared() -> None:
    empty = memoryview(b"".join(codec.encode(fetch.FetchRequest(), 0)))
    one, _ = codec.decode(fetch.FetchRequest, empty, 0)
    two, _ = codec.decode(fetch.FetchRequest, empty, 0)
    one.forgotten_topics_data.append(fetch.ForgottenTopic())
    assert two.forgotten_topics_data == []


def test_tagged_fields_are_sent_only_when_they_differ_from_their_default() -> None:
    plain_answer = b"".join(codec.encode(ApiVersionsResponse(), 3))
    tagged = ApiVersionsResponse(finalized_features_epoch=7)
    assert plain_answer.endswith(b"\0")
    assert (
        b"".join(codec.encode(tagged, 3))
        == plain_answer[:-1] + b"\x01\x01\x08" + bytes(7) + b"\x07"
    )


def test_unknown_tagged_fields_are_ignored() -> None:
    body = bytes.fromhex("02 61  02 31  01 63 03 aabbcc")
    got, end = codec.decode(ApiVersionsRequest, memoryview(body), 3)
    assert got == ApiVersionsRequest("a", "1")
    assert end == len(body)


def test_a_tagged_field_of_the_wrong_length_is_malformed() -> None:
    good = b"".join(codec.encode(ApiVersionsResponse(finalized_features_epoch=7), 3))
    for size, value in ((7, bytes(7)), (9, bytes(9))):
        bad = good[:-9] + bytes([size]) + value
        with pytest.raises(MalformedMessage):
            codec.decode(ApiVersionsResponse, memoryview(bad), 3)


def test_what_follows_the_message_is_left_alone() -> None:
    body = b"".join(codec.encode(ApiVersionsRequest("a", "1"), 3))
    _, end = codec.decode(ApiVersionsRequest, memoryview(b"xx" + body + b"yyy"), 3, at=2)
    assert end == 2 + len(body)


def test_a_version_without_table_is_refused() -> None:
    for version in (-1, 5):
        with pytest.raises(codec.UnknownVersion):
            codec.encode(ApiVersionsRequest(), version)
        with pytest.raises(codec.UnknownVersion):
            codec.decode(ApiVersionsRequest, memoryview(b""), version)


@pytest.mark.parametrize("version", [0, 1])
def test_types_no_table_uses_yet_survive_the_round_trip(version: int) -> None:
    for maybe, note in ((Inner(-5), b"x" * 200), (None, None)):
        sent = Unusual(65535, 2**32 - 1, -0.5, maybe, [1, 2] if version else None, note)
        written = b"".join(codec.encode(sent, version))
        assert codec.decode(Unusual, memoryview(written), version) == (sent, len(written))


def test_a_null_struct_is_a_single_byte() -> None:
    there = b"".join(codec.encode(Unusual(maybe=Inner(7)), 0))
    absent = b"".join(codec.encode(Unusual(), 0))
    assert there[14:19] == bytes.fromhex("01 00000007")
    assert absent[14:15] == b"\xff"


@pytest.mark.parametrize("size", [126, 127, 128, 300, 20_000])
def test_long_arrays_of_integers_have_long_counts(size: int) -> None:
    row = metadata.MetadataResponsePartition(replica_nodes=list(range(size)), isr_nodes=[7])
    sent = metadata.MetadataResponse(topics=[metadata.MetadataResponseTopic(partitions=[row] * 2)])
    for version in (0, 12):
        written = memoryview(b"".join(codec.encode(sent, version)))
        got, _ = codec.decode(metadata.MetadataResponse, written, version)
        assert [p.replica_nodes for p in got.topics[0].partitions] == [list(range(size))] * 2


@pytest.mark.parametrize(("kind", "version"), FIRST_AND_LAST)
def test_the_same_comes_out_in_steps(kind: type[Message], version: int) -> None:
    value = Maker("steps").message(kind, version)
    whole = b"".join(codec.encode(value, version))
    in_steps = run_through(codec.encode_in_steps(value, version, bytearray()))
    assert b"".join(in_steps) == whole
    read, end = run_through(codec.decode_in_steps(kind, memoryview(whole), version))
    assert (plain(read), end) == (plain(value), len(whole))


def test_a_message_of_many_rows_has_many_steps() -> None:
    sent = DeleteTopicsRequest(topic_names=[f"t{number}" for number in range(5_000)])
    whole = b"".join(codec.encode(sent, 1))
    assert len(list(codec.encode_in_steps(sent, 1, bytearray()))) > 10
    assert len(list(codec.decode_in_steps(DeleteTopicsRequest, memoryview(whole), 1))) > 10


@pytest.mark.parametrize(("kind", "version"), FIRST_AND_LAST)
def test_a_message_cut_anywhere_is_malformed(kind: type[Message], version: int) -> None:
    value = Maker("cut").message(kind, version)
    whole = b"".join(codec.encode(value, version))
    # Every byte of the first hundred; in what follows the fields repeat, so a sample will do.
    for cut in {*range(min(100, len(whole))), *range(0, len(whole), 1 + len(whole) // 50)}:
        with pytest.raises(MalformedMessage):
            codec.decode(kind, memoryview(whole)[:cut], version)
    assert plain(codec.decode(kind, memoryview(whole), version)[0]) == plain(value)


@pytest.mark.parametrize(("kind", "version"), FIRST_AND_LAST)
def test_bytes_that_claim_to_be_huge_cost_no_memory(kind: type[Message], version: int) -> None:
    whole = b"".join(codec.encode(Maker("huge").message(kind, version), version))[:100]
    codec.decode(kind, memoryview(b"".join(codec.encode(kind(), version))), version)  # compiled
    claims = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\0\0\0")
    tracemalloc.start()
    try:
        for claim in claims:
            for at in range(len(whole) + 1):
                try:
                    codec.decode(kind, memoryview(whole[:at] + claim + whole[at + 4 :]), version)
                except MalformedMessage:
                    continue
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_null_is_malformed_in_versions_that_do_not_allow_it() -> None:
    everything = memoryview(b"\xff\xff\xff\xff")
    assert codec.decode(metadata.MetadataRequest, everything, 1)[0].topics is None
    with pytest.raises(MalformedMessage, match="null"):
        codec.decode(metadata.MetadataRequest, everything, 0)


def test_rows_are_counted_before_they_become_objects() -> None:
    def names(count: int) -> memoryview:
        request = DeleteTopicsRequest(topic_names=["a"] * count)
        return memoryview(b"".join(codec.encode(request, 1)))

    most = codec.decode(DeleteTopicsRequest, names(buffer.MOST_ROWS), 1)[0]
    assert len(most.topic_names) == buffer.MOST_ROWS
    with pytest.raises(MalformedMessage, match="100001 rows in one message"):
        codec.decode(DeleteTopicsRequest, names(buffer.MOST_ROWS + 1), 1)


def test_rows_of_nested_lists_add_up() -> None:
    each = CreatableTopic("t", 1, 1, [CreatableReplicaAssignment(0, [1])] * 20_000)
    data = memoryview(b"".join(codec.encode(CreateTopicsRequest([each, each]), 1)))
    assert len(codec.decode(CreateTopicsRequest, data, 1)[0].topics) == 2
    data = memoryview(b"".join(codec.encode(CreateTopicsRequest([each, each, each]), 1)))
    with pytest.raises(MalformedMessage, match="rows in one message"):
        codec.decode(CreateTopicsRequest, data, 1)
