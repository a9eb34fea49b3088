"""Rows R1 to R6: fetches, sessions and offsets that ask for what is not there."""

import struct
import threading
import time

import pytest

from tests.bad_input import payloads
from tests.bad_input.attacked_broker import Victim
from tests.bad_input.payloads import FETCH, LIST_OFFSETS, fetch_body
from tests.support import wire
from tests.support.wire import frame, string

OUT_OF_RANGE, UNKNOWN_TOPIC = 1, 3
SESSION_UNKNOWN, SESSION_EPOCH, FENCED, NEWER_EPOCH = 70, 71, 74, 75


@pytest.fixture(scope="module")
def batch_size(_broker: Victim) -> int:
    """Ten batches of one record each in the topic; gives the size of one."""
    sock = _broker.connect()
    one = payloads.good(b"x" * 1000)
    for number in range(10):
        assert wire.produce_error(_broker.ask(sock, wire.produce("reads", 0, one, -1, number))) == (
            0,
            number,
        )
    return len(one)


@pytest.fixture
def reader(victim: Victim, batch_size: int) -> Victim:
    """The victim, with ten batches to read."""
    return victim


def fetch(victim: Victim, body: bytes) -> tuple[int, int, memoryview]:
    return wire.fetched(victim.ask(victim.connect(), frame(FETCH, 11, 4, body)))


@pytest.mark.parametrize("offset", [-1, 11, 2**62, -(2**63)])
def test_r1_an_offset_outside_the_log_is_out_of_range(reader: Victim, offset: int) -> None:
    with reader.suffers("offset_out_of_range"):
        assert fetch(reader, fetch_body("reads", offset))[0] == OUT_OF_RANGE


def test_r1_a_partition_that_does_not_exist_is_unknown(reader: Victim) -> None:
    for topic, partition in (("reads", 5), ("reads", -1), ("shared", 1), ("unknown", 0)):
        with reader.suffers("unknown_topic"):
            assert fetch(reader, fetch_body(topic, 0, partition=partition))[0] == UNKNOWN_TOPIC


@pytest.mark.parametrize("limit", [0, -1, -(2**31), 1])
def test_r2_limits_that_are_too_small_still_give_one_batch(reader: Victim, limit: int) -> None:
    with reader.suffers(None):
        for body in (
            fetch_body("reads", 3, max_bytes=limit),
            fetch_body("reads", 3, partition_bytes=limit),
        ):
            code, high, records = fetch(reader, body)
            assert (code, high) == (0, 10)
            assert [row.base_offset for row in wire.batches(records)] == [3]


def test_r2_the_largest_limits_give_all_there_is(reader: Victim) -> None:
    with reader.suffers(None):
        most = 2**31 - 1
        _, _, records = fetch(reader, fetch_body("reads", 0, max_bytes=most, partition_bytes=most))
        assert [row.base_offset for row in wire.batches(records)] == list(range(10))


def test_r2_no_answer_exceeds_its_limit_by_more_than_its_first_batch(
    reader: Victim, batch_size: int
) -> None:
    with reader.suffers(None):
        limit = 3 * batch_size + 10
        _, _, records = fetch(reader, fetch_body("reads", 0, max_bytes=limit))
        assert len(records) == 3 * batch_size


def test_r3_an_unknown_session_is_told_so(reader: Victim) -> None:
    with reader.suffers("fetch_session_id_not_found"):
        assert fetch(reader, fetch_body("reads", 0, session=(12345, 1)))[0] == SESSION_UNKNOWN


def test_r3_a_wrong_session_epoch_is_told_so(reader: Victim) -> None:
    with reader.suffers("invalid_fetch_session_epoch"):
        sock = reader.connect()
        body = reader.ask(sock, frame(FETCH, 11, 1, fetch_body("reads", 0, session=(0, 0))))
        _, code, session = struct.unpack_from(">ihi", body)
        assert code == 0
        assert session > 0
        body = reader.ask(sock, frame(FETCH, 11, 2, fetch_body("reads", 0, session=(session, 7))))
        assert struct.unpack_from(">h", body, 4)[0] == SESSION_EPOCH


def test_r4_an_unknown_topic_id_is_told_so(reader: Victim) -> None:
    with reader.suffers("unknown_topic_id"):
        body = (
            b"\0"  # header tags
            + struct.pack(">iiiibii", -1, 0, 0, 1000, 0, 0, -1)
            + b"\x02"
            + b"\x5a" * 16
            + b"\x02"
            + struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 1000)
            + b"\0\0"  # tags of partition and topic
            + b"\x01\x01\0"  # nothing forgotten, no rack, no tags
        )
        answer = reader.ask(reader.connect(), frame(FETCH, 13, 1, body))
        # header tags, throttle, error, session, one topic, its id, one partition, number, error
        at = 1 + 4 + 2 + 4 + 1 + 16 + 1 + 4
        assert struct.unpack_from(">h", answer, at)[0] == 100


@pytest.mark.parametrize(
    ("step", "code", "reason"),
    [(-1, FENCED, "fenced_leader_epoch"), (1, NEWER_EPOCH, "unknown_leader_epoch")],
)
def test_r5_another_leader_epoch_is_told_so(
    reader: Victim, step: int, code: int, reason: str
) -> None:
    epoch = reader.leader_epoch("reads")
    with reader.suffers(reason):
        assert fetch(reader, fetch_body("reads", 0, leader_epoch=epoch + step))[0] == code
        assert fetch(reader, fetch_body("reads", 0, leader_epoch=epoch))[0] == 0


def test_r6_waiting_without_end_ends_with_new_data(reader: Victim) -> None:
    """The cap of 30 s is the handler's matter; here a wish for eternity is woken by a commit."""
    with reader.suffers(None):
        sock = reader.connect()
        topic = "eternity"
        body = reader.ask(sock, frame(19, 1, 1, payloads.create_body(topic)))
        assert payloads.created(body)[0] == 0
        most = 2**31 - 1
        sock.sendall(frame(FETCH, 11, 2, fetch_body(topic, 0, max_wait_ms=most, min_bytes=1)))

        def write() -> None:
            time.sleep(0.3)
            writer = reader.connect()
            writer.sendall(wire.produce(topic, 0, payloads.good(b"news"), -1, 1))
            wire.read_answer(writer)

        thread = threading.Thread(target=write)
        thread.start()
        _, answer = wire.read_answer(sock)
        thread.join()
        assert b"news" in bytes(wire.fetched(answer)[2])


@pytest.mark.parametrize(
    ("topic", "partition", "reason"),
    [
        ("unknown", 0, "unknown_topic"),
        ("reads", 99, "unknown_topic"),
        ("reads", -1, "unknown_topic"),
    ],
)
def test_offsets_of_nothing_are_unknown(
    reader: Victim, topic: str, partition: int, reason: str
) -> None:
    with reader.suffers(reason):
        body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, -1)
        answer = reader.ask(reader.connect(), frame(LIST_OFFSETS, 1, 1, body))
        at = 4 + 2 + len(topic) + 4 + 4
        assert struct.unpack_from(">hqq", answer, at) == (UNKNOWN_TOPIC, -1, -1)
