"""Arrow rows become batches that every Kafka client can read."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import InvalidRecord
from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.records.record import Record, open_batch
from kafscale.spark.sink import encode
from kafscale.spark.sink.encode import BatchEncoder, RecordRows
from tests.support.examples import examples

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own use of the library
    from kafka.partitioner.default import murmur2 as kafka_murmur2
    from kafka.record.default_records import DefaultRecordBatch

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
LIMIT = 1 << 26

WAYS = [pytest.param(True, id="compiled"), pytest.param(False, id="plain")]

blob = st.one_of(st.none(), st.binary(max_size=300))
header = st.tuples(st.text(max_size=8), blob)
row = st.tuples(
    st.integers(0, 2**41),
    blob,
    blob,
    st.none() | st.one_of(st.none(), st.lists(header, max_size=3)),
)


def rows_of(rows: Sequence[tuple[int, Any, Any, Any]], *, large: bool = False) -> RecordRows:
    binary = pa.large_binary() if large else pa.binary()
    headers = [
        None if one[3] is None else [{"key": name, "value": held} for name, held in one[3]]
        for one in rows
    ]
    return RecordRows(
        pa.array([one[2] for one in rows], binary),
        key=pa.array([one[1] for one in rows], binary),
        headers=pa.array(headers, HEADERS),
        times_ms=np.array([one[0] for one in rows], np.int64),
    )


@pytest.mark.parametrize("fast", WAYS)
@examples(60)
@given(
    rows=st.lists(row, min_size=1, max_size=70),
    codec=st.sampled_from(Codec),
    base=st.integers(0, 2**40 - 1000),
    large=st.booleans(),
)
def test_batches_hold_what_the_rows_held(
    fast: bool, rows: list[tuple[int, Any, Any, Any]], codec: Codec, base: int, large: bool
) -> None:
    chosen = np.arange(len(rows))[::-1].copy()
    encoded = BatchEncoder(codec, fast=fast).encode(
        rows_of(rows, large=large), chosen, base_offset=base, leader_epoch=7
    )
    expected = [
        Record(base + at, time, key, value, tuple(headers or ()))
        for at, (time, key, value, headers) in enumerate(reversed(rows))
    ]
    assert batch.check_crc(encoded)
    assert open_batch(encoded, LIMIT) == expected
    found = batch.read_header(encoded)
    assert (found.leader_epoch, found.last_offset) == (7, base + len(rows) - 1)
    assert found.max_timestamp_ms == max(one[0] for one in rows)


@examples(60)
@given(
    rows=st.lists(
        st.tuples(st.integers(-(2**41), 2**62), blob, blob, st.none()), min_size=1, max_size=300
    ),
    step=st.integers(1, 10_000_000),
)
def test_all_ways_write_the_same_bytes(rows: list[tuple[int, Any, Any, None]], step: int) -> None:
    columns = rows_of(rows)
    chosen = np.arange(len(rows))
    deltas = chosen * step
    ways = [BatchEncoder(fast=fast) for fast in (True, False)]
    compiled, joined = (way.encode(columns, chosen, deltas=deltas) for way in ways)
    assert compiled == joined
    assert compiled == ways[1]._plain(columns, chosen, 0, deltas, int(deltas[-1]), 0)


@pytest.mark.parametrize("fast", WAYS)
def test_another_library_reads_them(fast: bool) -> None:
    rows = [
        (1_700_000_000_000 + at, b"k%d" % at, b"v" * at, [("h", b"x"), ("n", None)])
        for at in range(2_000)
    ]
    encoded = BatchEncoder(Codec.GZIP, fast=fast).encode(
        rows_of(rows), np.arange(len(rows)), base_offset=5
    )
    theirs = DefaultRecordBatch(bytes(encoded))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == [
        (5 + at, time, key, value, headers) for at, (time, key, value, headers) in enumerate(rows)
    ]


@pytest.mark.parametrize("fast", WAYS)
def test_a_batch_may_have_holes_and_reach_over_one_behind_it(fast: bool) -> None:
    rows = rows_of([(at, b"k", b"%d" % at, None) for at in range(3)])
    encoded = BatchEncoder(fast=fast).encode(
        rows,
        np.array([0, 2]),
        base_offset=100,
        deltas=np.array([4, 70_000]),
        last_delta=90_000,
    )
    assert [(r.offset, r.value) for r in open_batch(encoded, LIMIT)] == [
        (104, b"0"),
        (70_100, b"2"),
    ]
    assert batch.read_header(encoded).next_offset == 90_101
    assert batch.check_crc(encoded)


@pytest.mark.parametrize("fast", WAYS)
def test_slices_of_arrow_arrays_are_read_where_they_begin(fast: bool) -> None:
    values = pa.array([b"a", None, b"ccc", b"", b"e"])[1:4]
    headers = pa.array([None, [{"key": "n", "value": b"1"}], [], None, []], HEADERS)[1:4]
    rows = RecordRows(values, key=values, headers=headers, times_ms=np.zeros(3, np.int64))
    found = open_batch(BatchEncoder(fast=fast).encode(rows, np.arange(3)), LIMIT)
    assert [(r.key, r.value, r.headers) for r in found] == [
        (None, None, (("n", b"1"),)),
        (b"ccc", b"ccc", ()),
        (b"", b"", ()),
    ]


@given(sizes=st.lists(st.integers(0, 900), min_size=1, max_size=200), limit=st.integers(500, 5000))
def test_cutting_keeps_order_and_stays_near_the_limit(sizes: list[int], limit: int) -> None:
    rows = RecordRows(
        pa.array([b"v" * size for size in sizes]), times_ms=np.zeros(len(sizes), np.int64)
    )
    parts = BatchEncoder(fast=False).cut(rows, np.arange(len(sizes)), limit)
    assert np.concatenate(parts).tolist() == list(range(len(sizes)))
    assert all(int(rows.sizes[part].sum()) <= limit + 950 for part in parts)
    assert len(parts) <= -(-int(rows.sizes.sum()) // limit)


def test_batches_have_a_bounded_number_of_records() -> None:
    rows = RecordRows(pa.nulls(300_000), times_ms=np.zeros(300_000, np.int64))
    parts = BatchEncoder(fast=False).cut(rows, np.arange(300_000), 1 << 40)
    assert [len(part) for part in parts] == [100_000] * 3


def test_only_strings_and_bytes_can_be_written() -> None:
    with pytest.raises(InvalidRecord, match="int64"):
        encode.blobs(pa.array([1]))
    with pytest.raises(InvalidRecord, match="without a name"):
        RecordRows(
            pa.array([b""]),
            headers=pa.array([[{"key": None, "value": b""}]], HEADERS),
            times_ms=np.zeros(1, np.int64),
        )


@pytest.mark.parametrize("fast", WAYS)
@given(keys=st.lists(st.binary(max_size=40), min_size=1), count=st.integers(1, 1000))
def test_keys_go_where_kafka_would_put_them(fast: bool, keys: list[bytes], count: int) -> None:
    chosen = encode.partitions_of(encode.blobs(pa.array(keys)), count, fast=fast)
    assert chosen.tolist() == [(kafka_murmur2(key) & 0x7FFFFFFF) % count for key in keys]


def test_null_keys_are_spread_in_turn() -> None:
    keys = encode.blobs(pa.array([None, b"k", None, None, None], pa.binary()))
    chosen = encode.partitions_of(keys, 3, first=1)
    assert [chosen.tolist()[at] for at in (0, 2, 3, 4)] == [2, 0, 1, 2]


def test_without_the_compiler_the_fast_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "_loops", lambda: None)
    with pytest.raises(ImportError, match="numba"):
        BatchEncoder(fast=True)
    assert len(BatchEncoder().encode(rows_of([(0, b"k", b"v", None)]), np.arange(1)))
