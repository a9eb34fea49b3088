"""Both engines against the plain decoder, on sound bytes and on others."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import BadBatch
from kafscale.records import varint
from kafscale.records.batch import HEADER_SIZE, read_header, stamp_append_time
from kafscale.records.record import Record, build_batch, open_batch
from kafscale.spark.kernels.decoder import PartitionWindow
from kafscale.spark.kernels.finders import position_finder
from kafscale.spark.kernels.positions import BrokenRegion, Regions
from kafscale.spark.kernels.positions_plain import PlainFinder
from tests.support.examples import examples
from tests.unit.records.samples import (
    NOW_MS,
    even_records,
    mixed_records,
    numbered,
    resigned,
    with_payload,
)
from tests.unit.spark.kernels.samples import ENGINES, decoded, expected

LIMIT = 2**24
ANYWHERE = PartitionWindow("t", 3, -(2**62), 2**62)
ANY_RECORDS = mixed_records() | even_records()


def opened(batch: bytes) -> list[Record] | None:
    """What the plain decoder makes of it; None: it refuses."""
    try:
        return open_batch(batch, LIMIT)
    except BadBatch:
        return None


def compare(batch: bytes) -> None:
    """All three see the same records, or none of them any."""
    plain = opened(batch)
    append_time = read_header(batch).log_append_time
    for fast in ENGINES:
        if plain is None:
            with pytest.raises(BadBatch):
                decoded(batch, fast=fast, lane=ANYWHERE, verify_crc=False)
        else:
            found = decoded(batch, fast=fast, lane=ANYWHERE, verify_crc=False)
            assert found == expected(plain, append_time=append_time)


@given(records=ANY_RECORDS)
def test_both_engines_see_what_the_plain_decoder_sees(records: list[Record]) -> None:
    compare(build_batch(records, base_offset=0))


@given(records=mixed_records(), gaps=st.lists(st.integers(0, 2**25), min_size=25, max_size=25))
def test_gaps_that_key_compaction_leaves_are_kept(records: list[Record], gaps: list[int]) -> None:
    base = 2**39
    offsets = (base + np.cumsum(gaps) + np.arange(25)).tolist()
    moved = [r._replace(offset=o) for r, o in zip(records, offsets, strict=False)]
    compare(build_batch(moved, base_offset=base))


@given(records=mixed_records())
def test_append_time_is_the_time_of_all_records(records: list[Record]) -> None:
    batch = bytearray(build_batch(records, base_offset=0))
    stamp_append_time(batch, NOW_MS + 5)
    compare(bytes(batch))


@examples(200)
@given(
    records=mixed_records(),
    at=st.integers(0, 2**31),
    byte=st.integers(0, 255),
    count=st.integers(-1, 1),
)
def test_a_changed_byte_is_judged_alike(
    records: list[Record], at: int, byte: int, count: int
) -> None:
    payload = bytearray(build_batch(records, base_offset=0)[HEADER_SIZE:])
    payload[at % len(payload)] = byte
    compare(with_payload(bytes(payload), len(records) + count))


@examples(200)
@given(
    payload=st.binary(max_size=80), count=st.integers(-(2**31) + 1, 2**31 - 1) | st.integers(0, 6)
)
def test_arbitrary_bytes_are_judged_alike(payload: bytes, count: int) -> None:
    compare(resigned(with_payload(payload, 1), record_count=count))


@given(records=mixed_records(), cut=st.integers(1, 60))
def test_cut_off_records_are_judged_alike(records: list[Record], cut: int) -> None:
    payload = build_batch(records, base_offset=0)[HEADER_SIZE:]
    compare(with_payload(payload[: max(len(payload) - cut, 0)], len(records)))


TIMES = [b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 9 + b"\x7f", b"\x80" * 9 + b"\x03"]


@pytest.mark.parametrize("time", [*TIMES, b"\x80" * 9 + b"\x80", b"\xfe\xff\xff\xff\xff\x3f"])
def test_the_longest_times_are_read_alike(time: bytes) -> None:
    body = b"\x00" + time + b"\x00\x01\x01\x00"
    compare(with_payload(varint.encode(len(body)) + body, 1))


@pytest.mark.parametrize("number", [b"\x80\x80\x80\x80\x00", b"\x80\x80\x80\x80\x80\x00"])
def test_needlessly_long_numbers_are_read_up_to_five_bytes(number: bytes) -> None:
    body = b"\x00\x00" + number + b"\x01\x01\x00"
    compare(with_payload(varint.encode(len(body)) + body, 1))


@pytest.mark.parametrize("fast", ENGINES)
def test_the_first_of_several_broken_regions_is_named(fast: bool) -> None:
    sound = build_batch(numbered(2), base_offset=0)[HEADER_SIZE:]
    data = np.frombuffer(sound * 4, np.uint8).copy()
    size = len(sound)
    data[2 * size] = 3  # the third region: a negative length
    starts = np.arange(4) * size
    counts = np.array([2, 2, 2, 900])
    regions = Regions(starts, starts + size, counts, starts, starts, starts, np.zeros(4, np.bool_))
    with pytest.raises(BrokenRegion) as caught:
        position_finder(fast).find(data, regions, 0, 2**60)
    assert caught.value.index == 2


@pytest.mark.parametrize("fast", ENGINES)
def test_regions_outside_the_buffer_are_refused(fast: bool) -> None:
    one = np.array([0])
    regions = Regions(one, one + 9, one + 1, one, one, one, np.zeros(1, np.bool_))
    with pytest.raises(ValueError, match="2 GiB"):
        position_finder(fast).find(np.zeros(8, np.uint8), regions, 0, 9)


def test_without_numba_the_plain_engine_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "kafscale.spark.kernels.positions_jit", raising=False)
    assert isinstance(position_finder(), PlainFinder)
    with pytest.raises(ImportError):
        position_finder(True)


def test_with_numba_the_compiled_engine_serves() -> None:
    from kafscale.spark.kernels.positions_jit import JitFinder

    assert isinstance(position_finder(), JitFinder)
