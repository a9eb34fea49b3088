"""Whole frames, both directions."""

import pytest

from kafscale.wire.buffer import MalformedMessage
from kafscale.wire.kafka import frame
from kafscale.wire.kafka.catalog import APIS
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafscale.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.fuzz.samples import Maker, plain

HEARTBEAT_V4 = bytes.fromhex(
    "0000001a"  # length           26
    "000c"  # api_key              12
    "0004"  # api_version          4
    "00000007"  # correlation_id   7
    "00026d65"  # client_id        "me", with the old length
    "00"  # tagged fields of the header
    "0267"  # group_id             "g"
    "00000003"  # generation_id    3
    "026d"  # member_id            "m"
    "00"  # group_instance_id      null
    "01 63 01 aa"  # tagged fields: number 99, unknown
)


def unframed(buffers: list[bytes | bytearray | memoryview]) -> memoryview:
    whole = b"".join(buffers)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return memoryview(whole)[4:]


def test_a_request_is_read_in_two_steps() -> None:
    body = memoryview(HEARTBEAT_V4)[4:]
    request = frame.read_request(body)
    assert request == (12, 4, 7, "me", 13)
    assert frame.read_body(request, body) == HeartbeatRequest("g", 3, "m", None)


def test_a_client_writes_what_a_broker_reads() -> None:
    for api in APIS:
        for version in api.versions:
            sent = Maker(("frame", api.name, version)).message(api.request, version)
            for client_id in (None, "", "client-ä"):
                got = unframed(frame.request_frame(-3, sent, version, client_id))
                request = frame.read_request(got)
                assert request[:4] == (api.key, version, -3, client_id)
                assert plain(frame.read_body(request, got)) == plain(sent)


def test_a_broker_writes_what_a_client_reads() -> None:
    for api in APIS:
        for version in api.versions:
            sent = Maker(("answer", api.name, version)).message(api.response, version)
            got = unframed(frame.response_frame(2**31 - 1, sent, version))
            correlation_id, read = frame.read_response(got, api.response, version)
            assert correlation_id == 2**31 - 1
            assert plain(read) == plain(sent)


def test_flexible_answers_have_tags_in_their_header_except_api_versions() -> None:
    flexible = unframed(frame.response_frame(1, HeartbeatResponse(error_code=27), 4))
    older = unframed(frame.response_frame(1, HeartbeatResponse(error_code=27), 3))
    assert bytes(flexible) == bytes.fromhex("00000001 00 00000000 001b 00")
    assert bytes(older) == bytes.fromhex("00000001 00000000 001b")
    first = unframed(frame.response_frame(1, ApiVersionsResponse(error_code=35), 3))
    assert bytes(first) == bytes.fromhex("00000001 0023 01 00000000 00")


def test_the_header_of_an_unknown_api_or_version_can_be_read() -> None:
    for head in ("0012 0063 00000005", "7fff 0000 00000005", "ffff ffff 00000005"):
        request = frame.read_request(memoryview(bytes.fromhex(head + "0001 61 feedfeed")))
        assert (request.correlation_id, request.client_id) == (5, "a")


@pytest.mark.parametrize(
    "head",
    [
        "",
        "0012 0003 000000",
        "0012 0003 00000001",  # client_id missing
        "0012 0003 00000001 0005 61",  # client_id cut off
        "0012 0003 00000001 fffe",  # negative length
        "0012 0003 00000001 0001 ff",  # not UTF-8
        "0012 0003 00000001 ffff",  # flexible, tagged fields missing
        "0012 0003 00000001 ffff 02 00 00 00 00",  # the same tag twice
    ],
)
def test_a_bad_header_is_malformed(head: str) -> None:
    with pytest.raises(MalformedMessage):
        frame.read_request(memoryview(bytes.fromhex(head)))


def test_a_bad_answer_header_is_malformed() -> None:
    for data in (b"", b"\0\0\0", b"\0\0\0\1"):
        with pytest.raises(MalformedMessage):
            frame.read_response(memoryview(data), HeartbeatResponse, 4)


def test_an_api_versions_request_of_a_newer_client_still_has_a_readable_header() -> None:
    sent = unframed(frame.request_frame(9, ApiVersionsRequest("n", "v"), 4, "me"))
    newer = bytearray(sent)
    newer[2:4] = b"\0\x7f"
    assert frame.read_request(memoryview(newer))[:4] == (18, 127, 9, "me")
