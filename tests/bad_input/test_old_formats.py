"""Rows O1 to O14: message sets of formats 0 and 1 that will not be stored."""

import gzip
import struct

import lz4.frame
import pytest

from tests.bad_input import payloads
from tests.bad_input.attacked_broker import Victim, is_closed
from tests.bad_input.payloads import NOW_MS
from tests.support import wire
from tests.support.old_wire import (
    GZIP,
    LZ4,
    SNAPPY,
    Old,
    fetch,
    fetched,
    forged,
    message,
    plain,
    produce,
    shallow,
    sized,
    wrapper,
)

CORRUPT, TOO_LARGE, BAD_TIMESTAMP, UNSUPPORTED_CODEC, INVALID_RECORD = 2, 10, 32, 76, 87
BOTH = pytest.mark.parametrize("magic", [0, 1])
NULL = sized(None)
MOST_BYTES = 1048588


@pytest.fixture(scope="module", autouse=True)
def _warm(_broker: Victim) -> None:
    """The threads that convert have their working memory before anything is measured."""
    largest = plain([Old(n, NOW_MS, None, bytes(100_000)) for n in range(95)], 1)
    for codec in (GZIP, LZ4) * 2:
        assert offer(_broker, wrapper(1, largest, codec)) == 0
    _broker.close_connections()


def offer(victim: Victim, records: bytes, version: int = 2, topic: str = "t") -> int:
    answer = victim.ask(victim.connect(), produce(topic, records, version))
    return wire.produce_error(answer)[0]


def refuses(victim: Victim, records: bytes, code: int, reason: str) -> None:
    for version in (0, 2):
        with victim.suffers(reason):
            assert offer(victim, records, version) == code


def body(magic: int, rest: bytes, attributes: int = 0) -> bytes:
    return struct.pack(">bb", magic, attributes) + (bytes(8) if magic else b"") + rest


@BOTH
def test_o1_a_wrong_checksum_is_a_corrupt_message(victim: Victim, magic: int) -> None:
    good = message(magic)
    broken = good[:-1] + b"w"
    refuses(victim, broken, CORRUPT, "corrupt_batch")
    refuses(victim, good + broken, CORRUPT, "corrupt_batch")
    refuses(victim, wrapper(magic, good + broken, GZIP), CORRUPT, "corrupt_batch")


@pytest.mark.parametrize("size", [13, 0, -1, -(2**31)])
@BOTH
def test_o2_a_size_that_cannot_be_is_a_corrupt_message(
    victim: Victim, magic: int, size: int
) -> None:
    refuses(victim, forged(body(magic, NULL + NULL), size=size), CORRUPT, "corrupt_batch")


@pytest.mark.parametrize("size", [100, 2**31 - 1])
@BOTH
def test_o3_a_size_beyond_the_data_is_an_invalid_record(
    victim: Victim, magic: int, size: int
) -> None:
    refuses(victim, forged(body(magic, NULL + NULL), size=size), INVALID_RECORD, "invalid_record")
    packed = forged(body(magic, NULL + sized(b"x"), GZIP), size=size)
    refuses(victim, packed, INVALID_RECORD, "invalid_record")


@pytest.mark.parametrize("key", [-2, -(2**31), 50, 2**31 - 1])
@BOTH
def test_o4_keys_and_values_that_do_not_fit_are_invalid_records(
    victim: Victim, magic: int, key: int
) -> None:
    for rest in (struct.pack(">i", key) + NULL, NULL + struct.pack(">i", key)):
        refuses(victim, forged(body(magic, rest)), INVALID_RECORD, "invalid_record")


@BOTH
def test_o5_a_wrapper_in_a_wrapper_is_an_invalid_record(victim: Victim, magic: int) -> None:
    nested = wrapper(magic, wrapper(magic, message(magic), GZIP), GZIP)
    refuses(victim, nested, INVALID_RECORD, "invalid_record")


@BOTH
def test_o6_a_wrapper_is_alone_in_its_set(victim: Victim, magic: int) -> None:
    one, packed = message(magic), wrapper(magic, message(magic), GZIP)
    for records in (packed + packed, one + packed, packed + one):
        refuses(victim, records, INVALID_RECORD, "invalid_record")


@BOTH
def test_o7_a_wrapper_of_nothing_is_an_invalid_record(victim: Victim, magic: int) -> None:
    for records in (wrapper(magic, b"", GZIP), message(magic, None, None, attributes=GZIP)):
        refuses(victim, records, INVALID_RECORD, "invalid_record")


@BOTH
def test_o8_two_formats_in_a_set_are_an_invalid_record(victim: Victim, magic: int) -> None:
    other = message(1 - magic)
    for records in (message(magic) + other, wrapper(magic, other, GZIP)):
        refuses(victim, records, INVALID_RECORD, "invalid_record")
    refuses(victim, message(magic) + message(9), CORRUPT, "corrupt_batch")


@pytest.mark.parametrize("codec", [4, 5, 7])
@BOTH
def test_o9_a_codec_the_old_formats_do_not_have_is_unsupported(
    victim: Victim, magic: int, codec: int
) -> None:
    records = message(magic, None, b"anything", attributes=codec)
    refuses(victim, records, UNSUPPORTED_CODEC, "unsupported_compression")


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
@BOTH
def test_o10_a_broken_stream_is_a_corrupt_message(victim: Victim, magic: int, codec: int) -> None:
    inside = plain([Old(n, NOW_MS, None, b"%d" % n) for n in range(50)], magic)
    streams = {GZIP: gzip.compress(inside)[:-9], LZ4: lz4.frame.compress(inside)[:-9]}
    value = streams.get(codec, b"\xff" * 50)
    refuses(victim, message(magic, None, value, attributes=codec), CORRUPT, "corrupt_batch")


@pytest.mark.parametrize("codec", [GZIP, LZ4])
@BOTH
def test_o11_a_bomb_is_too_large_and_costs_no_memory(
    victim: Victim, magic: int, codec: int
) -> None:
    bomb = wrapper(magic, bytes(150 << 20), codec)
    assert len(bomb) < MOST_BYTES
    refuses(victim, bomb, TOO_LARGE, "batch_too_large")


@BOTH
def test_o11_a_message_above_the_limit_is_too_large(victim: Victim, magic: int) -> None:
    refuses(victim, message(magic, None, bytes(MOST_BYTES)), TOO_LARGE, "batch_too_large")


def test_o12_a_time_that_cannot_be_is_invalid(victim: Victim) -> None:
    for time_ms in (NOW_MS + 2 * 3_600_000, -2, -(2**63)):
        refuses(victim, message(1, timestamp_ms=time_ms), BAD_TIMESTAMP, "invalid_timestamp")


@BOTH
def test_o13_a_compacted_topic_refuses_messages_without_keys(victim: Victim, magic: int) -> None:
    create = payloads.create_body("old-keys", configs={"cleanup.policy": "compact"})
    made = victim.ask(victim.connect(), wire.frame(payloads.CREATE_TOPICS, 1, 1, create))
    assert payloads.created(made)[0] in (0, 36)
    with victim.suffers("invalid_record"):
        assert offer(victim, message(magic, None), topic="old-keys") == INVALID_RECORD


def test_o14_a_bad_set_without_acks_closes_the_connection(victim: Victim) -> None:
    with victim.suffers_all("corrupt_batch", "refused_request"):
        sock = victim.connect()
        rows: list[tuple[str, int, bytes | None]] = [("t", 0, message(0)[:-1] + b"w")]
        raw = payloads.produce_body(rows, acks=0, version=1)
        sock.sendall(wire.frame(wire.PRODUCE, 1, 1, raw))
        assert is_closed(sock)


@pytest.mark.parametrize("cut", range(1, 27))
def test_messages_cut_off_anywhere_are_refused(victim: Victim, cut: int) -> None:
    records = message(0) + message(0)
    sock = victim.connect()
    before = victim.refusals()
    answer = victim.ask(sock, produce("t", records[:-cut], 0))
    assert wire.produce_error(answer)[0] == INVALID_RECORD
    assert victim.refused_since(before).total() == 1


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_good_sets_are_still_taken_and_read(victim: Victim, version: int, magic: int) -> None:
    with victim.suffers(None):
        sock = victim.connect()
        answer = victim.ask(sock, produce("t", wrapper(magic, message(magic), GZIP), 2))
        error, first = wire.produce_error(answer)
        assert error == 0
        for limit in (1 << 20, 0, -1, -(2**31), 2**31 - 1):
            body = victim.ask(sock, fetch("t", first, version, max_bytes=limit))
            code, high, records = fetched(body, version)
            assert code == 0
            assert high > first
            assert next(shallow(records)) == (first, magic, GZIP)
