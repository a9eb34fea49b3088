"""The header: bytes by name, stamping, stepping through stored batches."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import CorruptBatch
from kafscale.records import batch
from kafscale.records.batch import BatchHeader, check_crc, read_header, stamp, walk

# Written by hand, byte by byte. The checksum is the one that kafka-python computes, and
# test_record.py has it read by other parsers.
GOLDEN = bytes.fromhex(
    "0000000000000000"  # base_offset        0
    "0000003e"  # batch_length       62: 49 header bytes after this field, 13 of records
    "ffffffff"  # leader_epoch       -1, the producer does not know
    "02"  # magic
    "e805fa6e"  # crc                of everything below
    "0000"  # attributes         no compression, create time
    "00000000"  # last_offset_delta  0
    "0000018bcfe56800"  # base_timestamp_ms  2023-11-14T22:13:20Z
    "0000018bcfe56800"  # max_timestamp_ms   the same
    "0000000000000007"  # producer_id        7
    "0003"  # producer_epoch     3
    "00000005"  # base_sequence      5
    "00000001"  # record_count       1
    "18"  # length             12
    "00"  # attributes
    "00"  # timestamp_delta    0
    "00"  # offset_delta       0
    "02" "6b"  # key                "k"
    "04" "7676"  # value              "vv"
    "02"  # headers            1
    "02" "68" "01"  # header             "h": null
)  # fmt: skip

PAGE = Path(__file__).parents[3] / "docs/formats/record-batch.md"


def test_the_golden_batch_reads_field_by_field() -> None:
    header = read_header(GOLDEN)
    assert header == BatchHeader(
        base_offset=0,
        batch_length=62,
        leader_epoch=-1,
        magic=2,
        crc=0xE805FA6E,
        attributes=0,
        last_offset_delta=0,
        base_timestamp_ms=1_700_000_000_000,
        max_timestamp_ms=1_700_000_000_000,
        producer_id=7,
        producer_epoch=3,
        base_sequence=5,
        record_count=1,
    )
    assert header.size == len(GOLDEN) == 74
    assert check_crc(GOLDEN)


def test_the_documented_table_is_the_struct() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    assert [name for _, _, name in rows] == list(BatchHeader._fields)
    place = 0
    one_by_one = []
    for offset, size, _ in rows:
        assert int(offset) == place
        field = GOLDEN[place : place + int(size)]
        one_by_one.append(int.from_bytes(field, signed=place != 17))  # only the crc is unsigned
        place += int(size)
    assert place == batch.HEADER_SIZE
    assert tuple(one_by_one) == read_header(GOLDEN)


@pytest.mark.parametrize("size", [0, 1, 60])
def test_a_header_needs_61_bytes(size: int) -> None:
    with pytest.raises(CorruptBatch):
        read_header(GOLDEN[:size])
    with pytest.raises(CorruptBatch):
        read_header(GOLDEN, len(GOLDEN) - size)


@given(base_offset=st.integers(0, 2**63 - 1), leader_epoch=st.integers(-1, 2**31 - 1))
def test_stamping_moves_the_batch_and_leaves_the_signed_bytes_alone(
    base_offset: int, leader_epoch: int
) -> None:
    stamped = bytearray(GOLDEN)
    stamp(memoryview(stamped), base_offset, leader_epoch)
    header = read_header(stamped)
    assert (header.base_offset, header.leader_epoch) == (base_offset, leader_epoch)
    assert header.next_offset == base_offset + 1
    assert stamped[16:] == GOLDEN[16:]
    assert check_crc(stamped)


def test_stamping_the_append_time_signs_the_batch_anew() -> None:
    stamped = bytearray(GOLDEN)
    batch.stamp_append_time(stamped, 1_800_000_000_000)
    header = read_header(stamped)
    assert header.log_append_time
    assert header.max_timestamp_ms == 1_800_000_000_000
    assert header.base_timestamp_ms == 1_700_000_000_000
    assert check_crc(stamped)
    assert not read_header(GOLDEN).log_append_time


def test_attributes_are_told_apart() -> None:
    header = read_header(GOLDEN)._replace(attributes=0x14)
    assert (header.codec, header.is_transactional, header.is_control) == (4, True, False)
    header = header._replace(attributes=0x2B)
    assert (header.codec, header.is_transactional, header.is_control) == (3, False, True)
    assert header.log_append_time


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [
        (0, 0, 0),
        (5, 4, 9),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31 - 1, 1, 0),
        (2**31 - 3, 9, 6),
        (-1, 9, -1),
    ],
)
def test_sequences_go_round_to_0(base: int, delta: int, last: int) -> None:
    header = read_header(GOLDEN)._replace(base_sequence=base, last_offset_delta=delta)
    assert header.last_sequence == last


@pytest.mark.parametrize("at", [8, 17, 21, 60, 61, 73])
def test_a_changed_byte_breaks_the_checksum(at: int) -> None:
    broken = bytearray(GOLDEN)
    broken[at] ^= 1
    assert not check_crc(broken)


def test_a_batch_that_is_not_whole_has_no_good_checksum() -> None:
    assert not any(check_crc(GOLDEN[:size]) for size in range(len(GOLDEN)))
    assert check_crc(GOLDEN + b"the next one")


@given(count=st.integers(0, 5), cut=st.integers(0, len(GOLDEN) - 1), before=st.integers(0, 9))
def test_walking_finds_every_whole_batch_and_stops_before_a_cut_one(
    count: int, cut: int, before: int
) -> None:
    stored = b"#" * before + GOLDEN * count + GOLDEN[:cut]
    places = [(at, header.size) for at, header in walk(stored, before)]
    assert places == [(before + n * len(GOLDEN), len(GOLDEN)) for n in range(count)]


def test_walking_obeys_its_end() -> None:
    assert [at for at, _ in walk(memoryview(GOLDEN * 3), 0, 2 * len(GOLDEN) + 70)] == [0, 74]
    assert [at for at, _ in walk(GOLDEN * 3, 74, 2 * len(GOLDEN))] == [74]


@pytest.mark.parametrize("length", [48, 0, -1, -(2**31)])
def test_walking_refuses_a_length_that_no_batch_has(length: int) -> None:
    nonsense = GOLDEN[:8] + length.to_bytes(4, signed=True) + GOLDEN[12:]
    steps = walk(GOLDEN + nonsense)
    assert next(steps)[0] == 0
    with pytest.raises(CorruptBatch):
        next(steps)
