"""Rows F1 to F10: lengths that lie, clients that dawdle, clients of other protocols."""

import socket
import ssl
import struct
import time
from pathlib import Path

import pytest

from tests.bad_input import payloads
from tests.bad_input.attacked_broker import ANSWER_S, FRAME_S, MOST_GROWTH_BYTES, Victim, is_closed
from tests.support import wire

API_VERSIONS = wire.frame(wire.API_VERSIONS, 0, 5, b"")


@pytest.mark.parametrize("length", [-1, -(2**31)])
def test_f1_a_negative_length_closes_the_connection(victim: Victim, length: int) -> None:
    with victim.suffers("bad_frame_length"):
        sock = victim.connect()
        sock.sendall(struct.pack(">i", length))
        assert is_closed(sock)


@pytest.mark.parametrize("length", [(100 << 20) + 1, 2**31 - 1])
def test_f2_a_length_above_the_limit_closes_before_anything_is_allocated(
    victim: Victim, length: int
) -> None:
    with victim.suffers("frame_too_large"):
        sock = victim.connect()
        sock.sendall(struct.pack(">i", length))
        assert is_closed(sock)


def test_f3_a_length_of_zero_closes_the_connection(victim: Victim) -> None:
    with victim.suffers("bad_frame_length"):
        sock = victim.connect()
        sock.sendall(struct.pack(">i", 0))
        assert is_closed(sock)


@pytest.mark.parametrize("length", range(1, 8))
def test_f4_a_frame_shorter_than_a_header_closes_the_connection(
    victim: Victim, length: int
) -> None:
    with victim.suffers("malformed_request"):
        sock = victim.connect()
        sock.sendall(struct.pack(">i", length) + bytes(length))
        assert is_closed(sock)


def test_f5_bytes_that_are_announced_and_never_come_cost_no_memory_and_end_in_time(
    victim: Victim,
) -> None:
    with victim.suffers("slow_frame"):
        sock = victim.connect()
        sock.sendall(struct.pack(">i", 100 << 20) + b"\0" * 100)
        began = time.monotonic()
        assert is_closed(sock)
        assert time.monotonic() - began >= FRAME_S / 2


def test_f5_a_large_frame_takes_memory_only_as_it_comes(victim: Victim) -> None:
    with victim.suffers("slow_frame"):
        sock = victim.connect()
        sock.sendall(struct.pack(">i", 100 << 20) + b"\0" * (1 << 20))
        resident = victim.resident_bytes()
        assert is_closed(sock)
        assert victim.resident_bytes() - resident < MOST_GROWTH_BYTES


def test_f6_two_hundred_half_frames_leave_the_door_open(victim: Victim) -> None:
    with victim.suffers("slow_frame", times=200):
        loris = [victim.connect() for _ in range(200)]
        for number, sock in enumerate(loris):
            # From a single byte of the length to most of the frame.
            sock.sendall((struct.pack(">i", 50 << 20) + bytes(60))[: 1 + number % 64])
        assert victim.is_served(victim.connect())
        assert all(is_closed(sock) for sock in loris)


def test_f6_a_byte_now_and_then_does_not_stretch_the_deadline(victim: Victim) -> None:
    with victim.suffers("slow_frame"):
        sock = victim.connect()
        began = time.monotonic()
        frame = struct.pack(">i", 1000) + bytes(1000)
        try:
            for at in range(len(frame)):
                sock.sendall(frame[at : at + 1])
                time.sleep(0.2)
        except OSError:
            pass
        assert time.monotonic() - began < 100, "all of it would take 200 s"


def test_f7_a_peer_that_fell_silent_is_let_go(tmp_path: Path) -> None:
    impatient = Victim(tmp_path, idle_s=5.0)
    with impatient.process, impatient.suffers("idle"):
        sock = impatient.connect()
        assert impatient.is_served(sock)
        # The bystander of this test must not fall silent as well.
        impatient.close_connections_but(sock)
        began = time.monotonic()
        assert is_closed(sock)
        assert time.monotonic() - began > 2.5
        impatient.close_connections()


def test_f8_a_reader_that_never_reads_is_paused_and_then_let_go(victim: Victim) -> None:
    filler = victim.connect()
    for number in range(5):
        answer = victim.ask(filler, wire.produce("t", 0, payloads.good(b"x" * 900_000), -1, number))
        assert wire.produce_error(answer)[0] == 0
    first = wire.produce_error(
        victim.ask(filler, wire.produce("t", 0, payloads.good(b"last"), -1, 9))
    )[1]
    victim.close_connections()
    with victim.suffers("slow_reader"):
        sock = victim.connect(receive_buffer=4096)
        sock.setblocking(False)
        body = payloads.fetch_body("t", first - 4, max_bytes=50 << 20, partition_bytes=50 << 20)
        request = wire.frame(wire.FETCH, 11, 1, body)
        deadline = time.monotonic() + ANSWER_S
        sent, peak = 0, 0
        resident = victim.resident_bytes()
        while time.monotonic() < deadline:
            try:
                sent += sock.send(request)
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:
                break
            peak = max(peak, victim.resident_bytes() - resident)
        else:
            raise AssertionError("the connection was never let go")
        assert peak < 2 * MOST_GROWTH_BYTES, f"memory grew by {peak >> 20} MiB meanwhile"
        assert sent > 10 * len(request)


def test_f9_http_at_this_door_is_refused_and_the_log_says_so(victim: Victim) -> None:
    with victim.suffers("frame_too_large") as lines:
        sock = victim.connect()
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: kafscale\r\n\r\n")
        assert is_closed(sock)
    assert "looks like HTTP" in str(lines[0]["detail"])


def test_f9_tls_at_this_door_is_refused_and_the_log_says_so(victim: Victim) -> None:
    with victim.suffers("frame_too_large") as lines:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        sock = socket.create_connection(("127.0.0.1", victim.process.port), ANSWER_S)
        try:
            with pytest.raises(OSError, match=r".*"), context.wrap_socket(sock):
                pass
        finally:
            sock.close()
    assert "looks like TLS" in str(lines[0]["detail"])


def test_f10_fifty_pipelined_requests_are_answered_strictly_in_order(victim: Victim) -> None:
    with victim.suffers(None):
        sock = victim.connect()
        frames = [
            wire.produce("t", 0, payloads.good(b"v"), -1, number)
            if number % 3
            else wire.frame(wire.API_VERSIONS, 0, number, b"")
            for number in range(50)
        ]
        sock.sendall(b"".join(frames))
        assert [wire.read_answer(sock)[0] for _ in frames] == list(range(50))


def test_requests_behind_a_bad_frame_are_never_begun(victim: Victim) -> None:
    sock = victim.connect()
    before = wire.produce_error(victim.ask(sock, wire.produce("t", 0, payloads.good(), -1, 1)))[1]
    with victim.suffers("malformed_request"):
        bad = struct.pack(">i", 3) + bytes(3)
        sock.sendall(bad + wire.produce("t", 0, payloads.good(b"never"), -1, 2) + bad)
        assert is_closed(sock)
    after = wire.produce_error(
        victim.ask(victim.connect(), wire.produce("t", 0, payloads.good(), -1, 3))
    )[1]
    assert after == before + 1
