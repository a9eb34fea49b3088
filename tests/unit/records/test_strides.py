"""The fast walk: it must say what the rule says, record for record."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafscale.model.errors import BadBatch, InvalidRecord
from kafscale.records import strides, varint
from kafscale.records.batch import HEADER_SIZE
from kafscale.records.record import Record, build_batch, open_batch
from tests.support.examples import examples
from tests.support.walks import FAST_WALKS
from tests.unit.records.oracles import check_one_by_one
from tests.unit.records.samples import (
    NOW_MS,
    even_records,
    mixed_records,
    numbered,
    with_payload,
)

ANY_RECORDS = mixed_records() | even_records()


def verdict(check, data: bytes, count: int, require_key: bool = False) -> str:
    """What a walk says: sound, or the error's name."""
    try:
        check(data, HEADER_SIZE, count, require_key)
    except BadBatch as refused:
        return type(refused).__name__
    return "sound"


def both(data: bytes, count: int, require_key: bool = False) -> str:
    """The verdict of the rule, which must be that of every fast walk too."""
    slow = verdict(check_one_by_one, data, count, require_key)
    for name, check in FAST_WALKS.items():
        assert verdict(check, data, count, require_key) == slow, name
    return slow


def opened(data: bytes, count: int) -> str:
    """A third opinion: open every record as a value, and look at its offset."""
    try:
        records = open_batch(with_payload(data[HEADER_SIZE:], count), 2**30)
    except InvalidRecord as refused:
        return type(refused).__name__
    return "sound" if [r.offset for r in records] == list(range(count)) else "InvalidRecord"


@given(records=ANY_RECORDS)
def test_sound_batches_pass(records: list[Record]) -> None:
    data = build_batch(records, base_offset=0)
    assert both(data, len(records)) == "sound"
    keyed = all(record.key is not None for record in records)
    assert both(data, len(records), require_key=True) == ("sound" if keyed else "InvalidRecord")


@given(records=ANY_RECORDS, spot=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
@examples(200)
def test_one_changed_byte_is_judged_alike(records: list[Record], spot: float, flip: int) -> None:
    data = bytearray(build_batch(records, base_offset=0))
    at = HEADER_SIZE + int(spot * (len(data) - HEADER_SIZE))
    data[at] ^= flip
    assert both(bytes(data), len(records)) == opened(bytes(data), len(records))
    both(bytes(data), len(records), require_key=True)


def test_every_bit_of_a_run_is_judged_alike() -> None:
    records = [Record(n, NOW_MS + n, b"key", b"v" * 20, (("h", b"x"),)) for n in range(40)]
    sound = build_batch(records, base_offset=0)
    size = (len(sound) - HEADER_SIZE) // len(records)
    assert HEADER_SIZE + size * len(records) == len(sound)
    refused = 0
    for number in (0, 1, 20):  # where a run begins, goes on, and has gone on for a while
        for at in range(HEADER_SIZE + number * size, HEADER_SIZE + (number + 1) * size):
            for bit in range(8):
                data = bytearray(sound)
                data[at] ^= 1 << bit
                refused += both(bytes(data), len(records)) != "sound"
    assert refused > 3 * 8 * 6  # at least the three records' lengths and deltas


@given(
    records=ANY_RECORDS,
    cut=st.integers(1, 30),
    more=st.binary(max_size=30),
    count=st.integers(-2, 2),
)
def test_cut_and_padded_batches_are_judged_alike(
    records: list[Record], cut: int, more: bytes, count: int
) -> None:
    data = build_batch(records, base_offset=0)
    claimed = max(1, len(records) + count)
    assert both(data[: max(HEADER_SIZE, len(data) - cut)] + more, claimed) == opened(
        data[: max(HEADER_SIZE, len(data) - cut)] + more, claimed
    )


@given(noise=st.binary(max_size=300), count=st.integers(1, 40))
@example(noise=b"\x0e\x00\x00\x00\x01\x01\x00" * 9, count=9)
def test_noise_is_judged_alike(noise: bytes, count: int) -> None:
    assert both(bytes(HEADER_SIZE) + noise, count) == opened(bytes(HEADER_SIZE) + noise, count)


def test_offset_deltas_of_one_two_and_three_bytes_are_followed() -> None:
    for count in (64, 65, 8_192, 8_193, 9_000):
        assert both(build_batch(numbered(count), base_offset=0), count) == "sound"


def test_mixed_sizes_are_followed_into_deltas_of_three_bytes() -> None:
    records = [Record(n, NOW_MS, b"k" * (n * 7 % 5), b"v" * (n * 3 % 70)) for n in range(8_400)]
    data = build_batch(records, base_offset=0)
    assert both(data, len(records)) == "sound"
    broken = bytearray(data)
    broken[data.rindex(varint.encode(8_367))] ^= 2
    assert both(bytes(broken), len(records)) == "InvalidRecord"


def test_more_records_than_the_tables_reach_are_followed() -> None:
    tiny = [Record(n, NOW_MS, None, None) for n in range(strides._TOP + 300)]
    data = build_batch(tiny, base_offset=0)
    for check in FAST_WALKS.values():
        assert verdict(check, data, len(tiny)) == "sound"
        assert verdict(check, data, len(tiny) - 1) == "InvalidRecord"


@pytest.mark.parametrize("swap", [(0, 1), (63, 64), (100, 140), (8_191, 8_192)])
def test_shuffled_offset_deltas_are_refused(swap: tuple[int, int]) -> None:
    records = numbered(8_300)
    first, second = swap
    records[first], records[second] = records[second], records[first]
    assert both(build_batch(records, base_offset=0), len(records)) == "InvalidRecord"


@pytest.mark.parametrize("width", range(1, 11))
def test_timestamps_of_every_width_are_followed(width: int) -> None:
    far = 2 ** (7 * (width - 1) - 1) if width > 1 else 0
    alternating = [Record(n, far * (n % 2), b"k", b"v" * (n % 3)) for n in range(200)]
    even = [Record(n, far if n else 0, b"k", b"v") for n in range(200)]
    for records in (alternating, even):
        assert both(build_batch(records, base_offset=0), len(records)) == "sound"
