"""A stream of pieces into Arrow: windows, codecs, chunks of any size, and what is broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import CorruptBatch, CorruptObject, KafscaleError
from kafscale.records.batch import CONTROL, stamp_append_time
from kafscale.records.compression import Codec
from kafscale.records.record import Record, build_batch
from kafscale.spark.kernels.decoder import ObjectPiece, PartitionWindow, UnreadableBatch
from tests.support.examples import examples
from tests.unit.records.samples import mixed_records, numbered, resigned
from tests.unit.spark.kernels.samples import ENGINES, chunked, decoded, expected, rows

BOTH = pytest.mark.parametrize("fast", ENGINES)


def log_of(groups: list[list[Record]], codecs: list[Codec]) -> tuple[list[Record], list[bytes]]:
    """The groups end to end, each a batch."""
    every: list[Record] = []
    batches = []
    for group, codec in zip(groups, codecs, strict=False):
        base = every[-1].offset + 1 if every else 0
        moved = [record._replace(offset=base + record.offset) for record in group]
        batches.append(build_batch(moved, base_offset=base, codec=codec))
        every += moved
    return every, batches


LOGS = st.builds(
    log_of,
    st.lists(mixed_records(), min_size=1, max_size=6),
    st.lists(st.sampled_from(list(Codec)), min_size=6, max_size=6),
)


@BOTH
@examples(40)
@given(log=LOGS, first=st.integers(0, 60), count=st.integers(0, 60), chunk=st.integers(1, 3000))
def test_a_window_of_any_log_in_chunks_of_any_size(
    fast: bool, log: tuple[list[Record], list[bytes]], first: int, count: int, chunk: int
) -> None:
    records, batches = log
    lane = PartitionWindow("t", 3, first, first + count)
    found = decoded(b"".join(batches), fast=fast, lane=lane, chunk=chunk, buffer_bytes=600)
    assert found == expected(r for r in records if first <= r.offset < first + count)


@BOTH
@examples(40)
@given(log=LOGS)
def test_pieces_of_several_objects_are_one_lane(
    fast: bool, log: tuple[list[Record], list[bytes]]
) -> None:
    records, batches = log
    pieces = [ObjectPiece(f"o{n}", 32, [data]) for n, data in enumerate(batches)]
    assert rows(pieces, fast=fast) == expected(records)


@BOTH
def test_only_wanted_columns_are_built(fast: bool) -> None:
    data = build_batch(numbered(3), base_offset=0)
    found = decoded(data, fast=fast, columns=("value", "offset"))
    assert found == [{"value": b"value", "offset": n} for n in range(3)]


@BOTH
def test_control_batches_are_passed_over(fast: bool) -> None:
    one = build_batch(numbered(2), base_offset=0)
    two = resigned(build_batch(numbered(1), base_offset=0), base_offset=2, attributes=CONTROL)
    assert len(decoded(one + two, fast=fast)) == 2


@BOTH
def test_producers_time_and_brokers_time_may_follow_each_other(fast: bool) -> None:
    ours = bytearray(build_batch(numbered(2), base_offset=0))
    stamp_append_time(ours, 7)
    theirs = build_batch([r._replace(offset=r.offset + 2) for r in numbered(2)], base_offset=2)
    found = decoded(bytes(ours) + theirs, fast=fast)
    assert [row["timestampType"] for row in found] == [1, 1, 0, 0]
    assert found[0]["timestamp"] == 7000


@BOTH
def test_nothing_is_asked_for_after_the_window(fast: bool) -> None:
    _, batches = log_of([numbered(2)] * 5, [Codec.NONE] * 5)
    asked = []

    def chunks(number: int) -> list[bytes]:
        asked.append(number)
        return [batches[number]]

    pieces = (ObjectPiece("o", 0, chunks(number)) for number in range(5))
    lane = PartitionWindow("t", 3, 0, 3)
    assert len(rows(pieces, fast=fast, lane=lane, buffer_bytes=len(batches[0]))) == 3
    assert asked == [0, 1, 2]


@BOTH
def test_a_wrong_checksum_names_object_byte_and_offset(fast: bool) -> None:
    _, batches = log_of([numbered(2)] * 3, [Codec.NONE] * 3)
    broken = bytearray(b"".join(batches))
    broken[len(batches[0]) + 70] ^= 1
    with pytest.raises(CorruptBatch, match=rf"o, byte {32 + len(batches[0])}, offset 2: the check"):
        decoded(broken, fast=fast)


@BOTH
def test_findings_are_put_down_and_reading_goes_on(fast: bool) -> None:
    records, batches = log_of([numbered(2)] * 4, [Codec.NONE, Codec.ZSTD, Codec.LZ4, Codec.NONE])
    broken = [bytearray(one) for one in batches]
    broken[1][70:] = bytes(len(broken[1]) - 70)
    broken[3] = bytearray(resigned(bytes(broken[3]), record_count=9))
    findings: list[UnreadableBatch] = []
    data = b"".join(broken)
    found = decoded(data, fast=fast, verify_crc=False, findings=findings)
    assert found == expected(records[0:2] + records[4:6])
    at = 32 + len(batches[0])
    assert [(row.key, row.offset) for row in findings] == [("o", 2), ("o", 6)]
    assert findings[0].position == at


@BOTH
def test_a_lost_footing_costs_the_rest_of_its_object_only(fast: bool) -> None:
    records, batches = log_of([numbered(2)] * 3, [Codec.NONE] * 3)
    lost = batches[0] + bytes(200) + batches[1]
    findings: list[UnreadableBatch] = []
    pieces = [ObjectPiece("a", 0, chunked(lost, 10)), ObjectPiece("b", 0, [batches[2]])]
    found = rows(pieces, fast=fast, findings=findings, buffer_bytes=256)
    assert found == expected(records[0:2] + records[4:6])
    assert findings == [UnreadableBatch("a", len(batches[0]), -1, "a batch length of 0")]


@BOTH
def test_an_object_that_ends_within_a_batch_is_corrupt(fast: bool) -> None:
    data = build_batch(numbered(2), base_offset=0)
    pieces = [ObjectPiece("a", 0, [data[:-1]]), ObjectPiece("b", 0, [data])]
    with pytest.raises(CorruptObject, match="a, byte 0: ends within a batch"):
        rows(pieces, fast=fast)


@BOTH
def test_a_batch_larger_than_the_buffer_makes_it_grow(fast: bool) -> None:
    big = [Record(0, 5, b"k", b"v" * 5000), Record(1, 5, None, b"")]
    data = build_batch(big, base_offset=0)
    assert decoded(data, fast=fast, buffer_bytes=100, chunk=333) == expected(big)


@BOTH
def test_an_unknown_codec_is_named(fast: bool) -> None:
    data = resigned(build_batch(numbered(1), base_offset=0), attributes=6)
    with pytest.raises(CorruptBatch, match="codec 6"):
        decoded(data, fast=fast)


@BOTH
@examples(60)
@given(
    log=LOGS, changes=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=6)
)
def test_whatever_the_bytes_there_are_rows_or_an_error(
    fast: bool, log: tuple[list[Record], list[bytes]], changes: list[tuple[int, int]]
) -> None:
    data = bytearray(b"".join(log[1]))
    for at, byte in changes:
        data[at % len(data)] = byte
    said = ""
    try:
        decoded(data, fast=fast, verify_crc=False, buffer_bytes=500)
    except KafscaleError as problem:
        said = str(problem)
    assert not said or said.startswith("o, byte")


@BOTH
@examples(40)
@given(data=st.binary(max_size=400))
def test_noise_never_crashes(fast: bool, data: bytes) -> None:
    findings: list[UnreadableBatch] = []
    decoded(data, fast=fast, verify_crc=False, buffer_bytes=64, findings=findings)


@BOTH
def test_header_names_that_are_no_text_are_shown(fast: bool) -> None:
    records = [Record(0, 1, None, None, (("a\udcff", b"1"), ("b", None)))]
    assert decoded(build_batch(records, base_offset=0), fast=fast) == expected(records)
