"""One batch without some of its records, and the rule that chooses them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import CorruptBatch, InvalidRecord
from kafscale.records import batch, compacted
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch, open_batch

NOW_MS = 1_700_000_000_000

some_bytes = st.one_of(st.none(), st.binary(max_size=200))
some_records = st.lists(
    st.tuples(some_bytes, some_bytes, st.integers(-(2**40), 2**40), st.integers(1, 300)),
    min_size=1,
    max_size=20,
)


def build(rows: list[tuple[bytes | None, bytes | None, int, int]], codec: Codec) -> memoryview:
    """A batch at offset 1000, perhaps with gaps between its records."""
    records, offset = [], 999
    for key, value, delta_ms, step in rows:
        offset += step
        records.append(Record(offset, NOW_MS + delta_ms, key, value, (("h", b"1"),)))
    return memoryview(build_batch(records, base_offset=1000, codec=codec))


@pytest.mark.parametrize(
    ("newest", "is_value", "horizon", "stays"),
    [
        (-1, True, 0, True),  # no key, or one that no dirty record has
        (5, True, 0, True),  # the newest itself
        (6, True, 0, False),
        (5, False, 5, True),  # a tombstone that waits
        (5, False, 6, False),  # a tombstone that has waited
        (5, True, 6, True),
        (6, False, 0, False),
    ],
)
def test_the_rule(newest: int, is_value: bool, horizon: int, stays: bool) -> None:
    assert bool(compacted.survives(5, newest, is_value, horizon)) is stays


@given(some_records, st.sampled_from(list(Codec)))
def test_records_are_found_without_their_values(
    rows: list[tuple[bytes | None, bytes | None, int, int]], codec: Codec
) -> None:
    whole = build(rows, codec)
    header = batch.read_header(whole)
    records = compacted.unpack_records(whole, header, 1 << 20)
    keyed = list(compacted.keyed_records(records, header.record_count))
    assert [
        (row.offset_delta + 1000, row.time_delta + header.base_timestamp_ms, row.key, row.is_value)
        for row in keyed
    ] == [
        (row.offset, row.timestamp_ms, row.key, row.key is None or row.value is not None)
        for row in open_batch(whole, 1 << 20)
    ]
    assert [0, *(row.end for row in keyed)] == [*(row.start for row in keyed), len(records)]


@given(some_records, st.sampled_from(list(Codec)), st.data())
def test_a_batch_keeps_its_offsets_and_the_bytes_of_what_stays(
    rows: list[tuple[bytes | None, bytes | None, int, int]], codec: Codec, data: st.DataObject
) -> None:
    whole = build(rows, codec)
    header = batch.read_header(whole)
    before = open_batch(whole, 1 << 20)
    chosen = data.draw(st.sets(st.integers(0, len(before) - 1), min_size=1))
    records = compacted.unpack_records(whole, header, 1 << 20)
    keyed = list(compacted.keyed_records(records, header.record_count))
    left = [keyed[at] for at in sorted(chosen)]
    newest_ms = header.base_timestamp_ms + max(row.time_delta for row in left)
    made = compacted.with_records(header, [records[r.start : r.end] for r in left], newest_ms)
    assert batch.check_crc(made)
    assert open_batch(made, 1 << 20) == [before[at] for at in sorted(chosen)]
    after = batch.read_header(made)
    kept = ("base_offset", "last_offset", "codec", "producer_id", "base_sequence", "leader_epoch")
    assert [getattr(after, name) for name in kept] == [getattr(header, name) for name in kept]
    assert after.max_timestamp_ms == max(before[at].timestamp_ms for at in chosen)


def test_a_time_that_the_broker_set_stays() -> None:
    whole = bytearray(build([(b"a", b"1", 0, 1), (b"b", b"2", 5, 1)], Codec.NONE))
    batch.stamp_append_time(whole, NOW_MS + 99)
    header = batch.read_header(whole)
    records = compacted.unpack_records(memoryview(whole), header, 1 << 20)
    first = next(compacted.keyed_records(records, 2))
    made = compacted.with_records(header, [records[first.start : first.end]], NOW_MS)
    assert open_batch(made, 1 << 20)[0].timestamp_ms == NOW_MS + 99


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_without_records_is_a_header(codec: Codec) -> None:
    header = batch.read_header(build([(b"a", b"1", 0, 1), (b"a", b"2", 0, 7)], codec))
    empty = memoryview(compacted.without_records(header))
    assert len(empty) == batch.HEADER_SIZE
    assert batch.check_crc(empty)
    after = batch.read_header(empty)
    assert (after.base_offset, after.last_offset, after.record_count) == (1000, 1007, 0)
    assert compacted.unpack_records(empty, after, 1 << 20) == b""


def test_what_is_no_record_is_refused() -> None:
    whole = build([(b"key", b"value", 0, 1)], Codec.NONE)
    header = batch.read_header(whole)
    records = compacted.unpack_records(whole, header, 1 << 20)
    for broken, count in ((records[:-1], 1), (records + b"x", 1), (records, 2)):
        with pytest.raises(InvalidRecord):
            list(compacted.keyed_records(broken, count))
    with pytest.raises(CorruptBatch):
        compacted.unpack_records(whole, header._replace(attributes=7), 1 << 20)
