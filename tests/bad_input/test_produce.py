"""Rows P1 to P24: batches that will not be stored, each with the code its sender can act on."""

import gzip
import struct

import lz4.frame
import pytest

from tests.bad_input import payloads
from tests.bad_input.attacked_broker import Victim, is_closed
from tests.bad_input.payloads import NOW_MS, PRODUCE, forged, good, produce_body, record
from tests.support import wire
from tests.support.wire import frame, varint

CORRUPT, UNKNOWN_TOPIC, TOO_LARGE, LIST_TOO_LARGE, BAD_ACKS = 2, 3, 10, 18, 21
BAD_TIMESTAMP, OUT_OF_ORDER, STALE_EPOCH = 32, 45, 47
BAD_MAPPING, NO_LEAVE = 49, 53
UNSUPPORTED_CODEC, INVALID_RECORD = 76, 87


def produce(victim: Victim, records: bytes | None, *, topic: str = "t", version: int = 7) -> int:
    """The error code a batch gets."""
    body = produce_body([(topic, 0, records)], version=version)
    answer = victim.ask(victim.connect(), frame(PRODUCE, version, 3, body))
    return wire.produce_error(answer)[0]


def refuses(
    victim: Victim, records: bytes | None, code: int, reason: str, *, version: int = 7
) -> None:
    with victim.suffers(reason):
        assert produce(victim, records, version=version) == code


def topic_with(victim: Victim, name: str, **configs: str) -> str:
    body = payloads.create_body(name, configs={k.replace("_", "."): v for k, v in configs.items()})
    code, message = payloads.created(
        victim.ask(victim.connect(), frame(payloads.CREATE_TOPICS, 1, 1, body))
    )
    assert code in (0, 36), message
    return name


# -- the batch as a whole --------------------------------------------------------------------


def test_p1_a_wrong_checksum_is_a_corrupt_message(victim: Victim) -> None:
    broken = bytearray(good(b"value"))
    broken[-2] ^= 1
    refuses(victim, bytes(broken), CORRUPT, "corrupt_batch")


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_p2_an_unknown_magic_is_a_corrupt_message(victim: Victim, magic: int) -> None:
    refuses(victim, forged(record(), magic=magic), CORRUPT, "corrupt_batch")


@pytest.mark.parametrize("magic", [0, 1])
def test_p3_old_formats_are_invalid_records_from_version_3_on(victim: Victim, magic: int) -> None:
    refuses(victim, forged(record(), magic=magic), INVALID_RECORD, "invalid_record")


@pytest.mark.parametrize("length", [48, 13, 0, -1, -(2**31)])
def test_p4_a_batch_length_that_cannot_be_is_a_corrupt_message(victim: Victim, length: int) -> None:
    refuses(victim, forged(record(), length=length), CORRUPT, "corrupt_batch")


@pytest.mark.parametrize("length", [200, 2**31 - 1])
def test_p5_a_batch_length_beyond_the_data_is_an_invalid_record(
    victim: Victim, length: int
) -> None:
    refuses(victim, forged(record(), length=length), INVALID_RECORD, "invalid_record")


def test_p6_two_batches_are_an_invalid_record(victim: Victim) -> None:
    refuses(victim, good() + good(), INVALID_RECORD, "invalid_record")


@pytest.mark.parametrize("records", [b"", None])
def test_p7_no_records_are_an_invalid_record(victim: Victim, records: bytes | None) -> None:
    refuses(victim, records, INVALID_RECORD, "invalid_record")


# -- the records inside ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "records",
    [
        forged(record(0) + record(1), count=2, record_count=3, last_offset_delta=2),
        forged(record(0) + record(1), count=2, last_offset_delta=5),
        forged(record(0) + record(1), count=2, record_count=1, last_offset_delta=0),
        forged(record(1) + record(0), count=2),
        forged(record(0) + record(7), count=2),
        forged(record(0), record_count=0, last_offset_delta=-1),
        forged(record(0), record_count=-1),
    ],
    ids=["too many", "delta", "too few", "shuffled", "gap", "none", "negative"],
)
def test_p8_counts_and_offset_deltas_that_disagree_are_an_invalid_record(
    victim: Victim, records: bytes
) -> None:
    refuses(victim, records, INVALID_RECORD, "invalid_record")


def test_p9_a_record_count_of_two_billion_is_refused_without_allocation(victim: Victim) -> None:
    huge = 2**31 - 1
    records = forged(record(), record_count=huge, last_offset_delta=huge - 1)
    refuses(victim, records, INVALID_RECORD, "invalid_record")


@pytest.mark.parametrize(
    "payload",
    [
        record(headers=varint(1000)),
        record(headers=varint(2**31 - 1)),
        record(headers=varint(-1)),
        record(headers=varint(1) + varint(-1) + varint(0)),
        varint(7) + b"\0\0\0" + varint(-2) + varint(0) + b"\0\0",
        varint(6) + b"\0\0\0" + varint(2) + b"a",
        b"\xff" * 12,
    ],
    ids=["many", "most", "negative", "no name", "key of -2", "key beyond", "endless varint"],
)
def test_p10_lengths_inside_a_record_that_cannot_be_are_an_invalid_record(
    victim: Victim, payload: bytes
) -> None:
    refuses(victim, forged(payload), INVALID_RECORD, "invalid_record")


def test_p11_a_control_batch_from_a_client_is_an_invalid_record(victim: Victim) -> None:
    control = record(key=b"\0\0\0\0", value=b"\0\0\0\0\0\0")
    refuses(victim, forged(control, attributes=0x20), INVALID_RECORD, "invalid_record")


# -- compression -----------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_p12_an_unknown_codec_is_unsupported(victim: Victim, codec: int) -> None:
    refuses(
        victim, forged(record(), attributes=codec), UNSUPPORTED_CODEC, "unsupported_compression"
    )


def test_p13_zstd_before_version_7_is_unsupported(victim: Victim) -> None:
    refuses(
        victim,
        forged(b"\x28\xb5\x2f\xfd", attributes=4),
        UNSUPPORTED_CODEC,
        "unsupported_compression",
        version=6,
    )


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_p14_a_broken_stream_is_a_corrupt_message(victim: Victim, codec: int) -> None:
    refuses(victim, forged(b"\x17" * 40, attributes=codec), CORRUPT, "corrupt_batch")


def test_p15_a_bomb_of_64_mib_in_63_kib_is_too_large(victim: Victim) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    assert len(bomb) < 70_000
    refuses(victim, forged(bomb, attributes=1), TOO_LARGE, "batch_too_large")


def test_p15_a_nested_bomb_is_not_opened_twice(victim: Victim) -> None:
    inner = gzip.compress(bytes(8 << 20))
    refuses(
        victim,
        forged(gzip.compress(inner), attributes=1),
        INVALID_RECORD,
        "invalid_record",
    )


def lz4_header_promising(size: int) -> bytes:
    """The start of an lz4 frame; its own checksum is found by trying."""
    start = b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", size)
    for guess in range(256):
        header = start + bytes([guess])
        try:
            lz4.frame.get_frame_info(header)
        except RuntimeError:
            continue
        return header
    raise AssertionError("no checksum fits")


@pytest.mark.parametrize(
    ("codec", "stream"),
    [
        (4, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 60) + b"\x01\0\0"),
        (3, lz4_header_promising(1 << 60) + b"\0\0\0\0"),
        (2, b"\xff\xff\xff\xff\x0f" + b"\0" * 20),
    ],
    ids=["zstd", "lz4", "snappy"],
)
def test_p15_a_stream_that_claims_a_huge_size_is_not_believed(
    victim: Victim, codec: int, stream: bytes
) -> None:
    refuses(victim, forged(stream, attributes=codec), CORRUPT, "corrupt_batch")


# -- limits ----------------------------------------------------------------------------------


def test_p16_a_batch_above_max_message_bytes_is_too_large(victim: Victim) -> None:
    refuses(victim, good(b"x" * (1 << 21)), TOO_LARGE, "batch_too_large")


def test_p17_a_batch_above_the_segment_size_is_a_list_too_large(victim: Victim) -> None:
    topic = topic_with(victim, "small-segments", segment_bytes="1000")
    with victim.suffers("record_list_too_large"):
        assert produce(victim, good(b"x" * 2000), topic=topic) == LIST_TOO_LARGE


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_p18_acks_other_than_all_one_none_are_refused(victim: Victim, acks: int) -> None:
    with victim.suffers("invalid_required_acks"):
        body = produce_body([("t", 0, good())], acks=acks)
        answer = victim.ask(victim.connect(), frame(PRODUCE, 7, 1, body))
        assert wire.produce_error(answer)[0] == BAD_ACKS


def test_p19_an_error_with_acks_0_closes_the_connection(victim: Victim) -> None:
    with victim.suffers_all("corrupt_batch", "refused_request"):
        sock = victim.connect()
        broken = bytearray(good(b"value"))
        broken[-2] ^= 1
        sock.sendall(frame(PRODUCE, 7, 1, produce_body([("t", 0, bytes(broken))], acks=0)))
        assert is_closed(sock)


@pytest.mark.parametrize(
    ("topic", "partition"),
    [("t", -1), ("t", 999), ("shared", -1), ("shared", 999), ("unknown", 0), ("", 0), ("../t", 0)],
)
def test_p20_no_such_partition_or_topic_is_unknown(
    victim: Victim, topic: str, partition: int
) -> None:
    with victim.suffers("unknown_topic"):
        body = produce_body([(topic, partition, good())])
        answer = victim.ask(victim.connect(), frame(PRODUCE, 7, 1, body))
        assert wire.produce_error(answer)[0] == UNKNOWN_TOPIC


@pytest.mark.parametrize(
    "times",
    [{"max_ms": NOW_MS + 86_400_000}, {"base_ms": NOW_MS + 86_400_000}],
    ids=["last record", "first record"],
)
def test_p22_a_time_in_the_far_future_is_an_invalid_timestamp(
    victim: Victim, times: dict[str, int]
) -> None:
    refuses(victim, forged(record(), **times), BAD_TIMESTAMP, "invalid_timestamp")


def test_p22_a_producer_may_not_claim_the_brokers_clock(victim: Victim) -> None:
    refuses(victim, forged(record(), attributes=8), BAD_TIMESTAMP, "invalid_timestamp")


def test_p23_a_batch_of_an_unknown_transactional_id_is_refused(victim: Victim) -> None:
    records = forged(
        record(), attributes=0x10, producer_id=7_000_000, producer_epoch=0, base_sequence=0
    )
    body = produce_body([("t", 0, records)], transactional_id="tx")
    answer = victim.ask(victim.connect(), frame(PRODUCE, 7, 1, body))
    assert wire.produce_error(answer)[0] == BAD_MAPPING


def test_p23_a_transactional_batch_without_a_transactional_id_is_refused(victim: Victim) -> None:
    records = forged(
        record(), attributes=0x10, producer_id=7_000_000, producer_epoch=0, base_sequence=0
    )
    refuses(victim, records, NO_LEAVE, "no_transactional_id")


# -- idempotence -----------------------------------------------------------------------------


def from_producer(victim: Victim, producer_id: int, epoch: int, sequence: int) -> tuple[int, int]:
    """Error code and base offset of one record of an idempotent producer."""
    records = forged(
        record(), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    answer = victim.ask(victim.connect(), frame(PRODUCE, 7, 1, produce_body([("t", 0, records)])))
    return wire.produce_error(answer)


def test_p24_a_gap_in_the_sequence_is_out_of_order(victim: Victim) -> None:
    assert from_producer(victim, 1001, 0, 0)[0] == 0
    with victim.suffers("out_of_order_sequence"):
        assert from_producer(victim, 1001, 0, 2)[0] == OUT_OF_ORDER


def test_p24_a_duplicate_is_answered_with_its_old_offset(victim: Victim) -> None:
    with victim.suffers(None):
        code, first = from_producer(victim, 1002, 0, 0)
        assert code == 0
        for sequence in range(1, 5):
            assert from_producer(victim, 1002, 0, sequence) == (0, first + sequence)
        assert from_producer(victim, 1002, 0, 0) == (0, first), "five batches are remembered"
        assert from_producer(victim, 1002, 0, 5) == (0, first + 5), "nothing was stored twice"


def test_p24_an_old_epoch_is_fenced(victim: Victim) -> None:
    assert from_producer(victim, 1003, 1, 0)[0] == 0
    with victim.suffers("stale_producer_epoch"):
        assert from_producer(victim, 1003, 0, 1)[0] == STALE_EPOCH


# -- memory ----------------------------------------------------------------------------------


def test_a_small_batch_does_not_keep_its_large_request_in_memory(victim: Victim) -> None:
    """One stored byte must not pin megabytes of rubbish that came in the same request."""
    rubbish = bytes(4 << 20)
    with victim.suffers_all(*["corrupt_batch"] * 20):
        sock = victim.connect()
        for number in range(20):
            body = produce_body([("t", 0, good(b"v")), ("t", 0, rubbish)])
            answer = victim.ask(sock, frame(PRODUCE, 7, number, body))
            assert wire.produce_error(answer)[0] == 0
