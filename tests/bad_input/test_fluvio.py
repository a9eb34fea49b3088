"""Rows X1 to X12: hostile bytes at the two ports of the Fluvio door."""

import socket
import struct
import time

import pytest

from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.frame import request_frame
from kafscale.wire.fluvio.messages.fetch_offsets import FetchOffsetsRequest, TopicOffsetsRequest
from kafscale.wire.fluvio.messages.objects_envelope import sealed
from kafscale.wire.fluvio.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafscale.wire.fluvio.messages.stream_fetch import StreamFetchRequest
from kafscale.wire.fluvio.messages.watch import WatchRequest
from kafscale.wire.fluvio.schema import FluvioTable
from tests.bad_input.attacked_broker import ANSWER_S, Victim, is_closed
from tests.support import fluvio_records as fluvio
from tests.support import wire
from tests.support.fluvio_records import FluvioRecord, write_batch

PRODUCE, FETCH_OFFSETS, STREAM, WATCH = 0, 1002, 1003, 1004
V = 24


def framed(api: int, message: FluvioTable, version: int = V, number: int = 1) -> bytes:
    return b"".join(bytes(one) for one in request_frame(api, version, number, "test", message))


def produce_frame(*sets: bytes, topic: str = "t") -> bytes:
    rows = [PartitionProduceData(0, [one]) for one in sets]
    return framed(PRODUCE, ProduceRequest(topics=[TopicProduceData(topic, rows)]))


def produced(sock: socket.socket) -> list[tuple[int, int]]:
    """Error code and offset of every row of the next answer."""
    _, body = wire.read_answer(sock)
    answer = schema.decode(ProduceResponse, memoryview(body), V)
    return [
        (row.error.code, row.base_offset) for topic in answer.topics for row in topic.partitions
    ]


def header(api: int, version: int, body: bytes = b"") -> bytes:
    data = struct.pack(">Hhih", api, version, 1, 0) + body
    return struct.pack(">i", len(data)) + data


@pytest.fixture(params=["sc_port", "spu_port"])
def port(victim: Victim, request: pytest.FixtureRequest) -> int:
    return int(getattr(victim, request.param))


def test_x1_a_length_that_no_frame_has_closes_the_connection(victim: Victim, port: int) -> None:
    for length, reason in ((-1, "bad_frame_length"), (2**31 - 1, "frame_too_large")):
        with victim.suffers(reason):
            sock = victim.connect(port=port)
            sock.sendall(struct.pack(">i", length))
            assert is_closed(sock)


def test_x2_a_frame_without_a_whole_header_closes_the_connection(victim: Victim, port: int) -> None:
    for size in (1, 7, 9):
        with victim.suffers("malformed_request"):
            sock = victim.connect(port=port)
            sock.sendall(struct.pack(">i", size) + b"\x7f" * size)
            assert is_closed(sock)


def test_x3_an_api_that_is_not_offered_closes_the_connection(victim: Victim, port: int) -> None:
    for api in (1, 8, 2000, 65535):
        with victim.suffers("unsupported_api"):
            sock = victim.connect(port=port)
            sock.sendall(header(api, 1))
            assert is_closed(sock)


def test_x4_a_version_that_is_not_offered_closes_the_connection(victim: Victim) -> None:
    for port, api, version in (
        (victim.sc_port, WATCH, 10),
        (victim.sc_port, WATCH, 20),
        (victim.spu_port, PRODUCE, 7),
        (victim.spu_port, PRODUCE, 26),
        (victim.spu_port, STREAM, -1),
    ):
        with victim.suffers("unsupported_version"):
            sock = victim.connect(port=port)
            sock.sendall(header(api, version))
            assert is_closed(sock)


def test_x5_counts_beyond_the_frame_close_the_connection_before_memory_is_taken(
    victim: Victim,
) -> None:
    for api, body in (
        (PRODUCE, bytes.fromhex("00 0001 000005dc 7fffffff")),
        (PRODUCE, bytes.fromhex("00 0001 000005dc 00000001 0001 74 7fffffff")),
        (PRODUCE, bytes.fromhex("00 0001 000005dc 00000001 0001 74 00000001 00000000 7fffffff")),
        (FETCH_OFFSETS, bytes.fromhex("00000001 0001 74 7fffffff")),
        (STREAM, bytes.fromhex("0001 74 00000000 0000000000000000 00000001 00 7fffffff")),
    ):
        with victim.suffers("malformed_request"):
            sock = victim.connect(port=victim.spu_port)
            sock.sendall(header(api, V, body))
            assert is_closed(sock)


def test_x6_bytes_that_are_no_text_close_the_connection(victim: Victim) -> None:
    with victim.suffers("malformed_request"):
        sock = victim.connect(port=victim.sc_port)
        sock.sendall(header(WATCH, 19, b"\0\2\xff\xfe" + bytes(13)))
        assert is_closed(sock)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (write_batch([FluvioRecord(b"k", b"v")])[:-1] + b"\7", "corrupt_batch"),
        (write_batch([FluvioRecord(b"k", b"v")])[:30], "corrupt_batch"),
        (write_batch([FluvioRecord(b"k", b"v")], last_delta=99), "invalid_record"),
        (write_batch([FluvioRecord(b"k", b"v")], attributes=0x10), "invalid_request"),
        (write_batch([FluvioRecord(b"k", b"v")], attributes=6), "unsupported_compression"),
        (write_batch([], payload=b"\x7f\xff\xff\xff" + bytes(9), last_delta=0), "invalid_record"),
    ],
)
def test_x7_a_batch_that_is_wrong_is_refused_and_the_connection_goes_on(
    victim: Victim, data: bytes, reason: str
) -> None:
    with victim.suffers(reason):
        sock = victim.connect(port=victim.spu_port)
        sock.sendall(produce_frame(data))
        ((code, offset),) = produced(sock)
        assert code != 0
        assert offset == -1
        sock.sendall(produce_frame(write_batch([FluvioRecord(None, b"good")])))
        assert produced(sock)[0][0] == 0


@pytest.mark.parametrize("codec", [fluvio.GZIP, fluvio.SNAPPY, fluvio.LZ4, fluvio.ZSTD])
def test_x8_a_bomb_is_refused_and_takes_no_memory(victim: Victim, codec: int) -> None:
    bomb = write_batch([FluvioRecord(None, bytes(64 << 20))], codec)
    with victim.suffers("batch_too_large"):
        sock = victim.connect(port=victim.spu_port)
        sock.sendall(produce_frame(bomb))
        assert produced(sock) == [(10, -1)]


def test_x9_a_stream_that_never_gives_credit_gets_one_answer(victim: Victim) -> None:
    with victim.suffers(None):
        sock = victim.connect(port=victim.spu_port)
        sock.sendall(produce_frame(write_batch([FluvioRecord(None, b"x" * 1000)])))
        assert produced(sock)[0][0] == 0
        sock.sendall(framed(STREAM, StreamFetchRequest("t", fetch_offset=0, max_bytes=1), number=7))
        assert wire.read_answer(sock)[0] == 7
        for _ in range(5):
            sock.sendall(produce_frame(write_batch([FluvioRecord(None, b"x" * 1000)])))
            assert wire.read_answer(sock)[0] == 1  # and nothing of the stream


def test_x10_a_client_that_opens_watches_without_end_is_ended(victim: Victim) -> None:
    with victim.suffers("too_many_watches"):
        sock = victim.connect(port=victim.sc_port)
        one = framed(WATCH, sealed("SPU", WatchRequest(), 19), 19)
        sock.sendall(one * 101)
        deadline = time.monotonic() + ANSWER_S
        try:
            while sock.recv(1 << 16):
                assert time.monotonic() < deadline
        except ConnectionResetError:
            pass


def test_x11_a_client_that_does_not_read_costs_bounded_memory(victim: Victim) -> None:
    with victim.suffers("slow_reader"):
        sock = victim.connect(receive_buffer=4096, port=victim.spu_port)
        wanted = FetchOffsetsRequest([TopicOffsetsRequest("t", [0] * 5000)])
        frame = framed(FETCH_OFFSETS, wanted)
        sock.settimeout(1.0)
        try:
            for _ in range(400):
                sock.sendall(frame)
        except (TimeoutError, ConnectionError):
            pass


def test_x12_other_protocols_are_recognised(victim: Victim, port: int) -> None:
    with victim.suffers("frame_too_large") as lines:
        sock = victim.connect(port=port)
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_closed(sock)
    assert "HTTP" in str(lines[0]["detail"])
