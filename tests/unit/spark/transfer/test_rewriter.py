"""Rows with offsets of their own keep them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.errors import InvalidRecord
from kafscale.records import batch
from kafscale.records.record import open_batch
from kafscale.spark.transfer.rewriter import Rewriter, rewritten


def rows(offsets: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"%d" % at for at in offsets], pa.binary()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([7_000 + at for at in offsets], pa.int64()),
        }
    )


@given(
    gaps=st.lists(st.integers(1, 400), max_size=60),
    first=st.integers(0, 1000),
    tail=st.integers(0, 500),
    batch_bytes=st.sampled_from([100, 500, 1_000_000]),
    codec=st.sampled_from(["none", "gzip"]),
)
def test_offsets_stay_and_no_gap_is_left_between_batches(
    gaps: list[int], first: int, tail: int, batch_bytes: int, codec: str
) -> None:
    offsets = [first + sum(gaps[: at + 1]) - 1 for at in range(len(gaps))]
    until = (offsets[-1] if offsets else first) + 1 + tail
    lane = rewritten([rows(offsets)], first, until, codec, batch_bytes)
    at = first
    found = []
    for one in lane.batches:
        header = batch.read_header(one)
        assert batch.check_crc(one)
        assert header.base_offset == at
        at = header.next_offset
        found += [(r.offset, r.value, r.timestamp_ms) for r in open_batch(one, 1 << 20)]
    assert at == until
    assert found == [(one, b"%d" % one, 7_000 + one) for one in offsets]
    assert (lane.first, lane.last, lane.records) == (first, until - 1, len(offsets))


def test_a_hole_wider_than_a_batch_can_reach_is_refused() -> None:
    writer = Rewriter("none", 0)
    writer.add(rows([1 << 32]))
    with pytest.raises(InvalidRecord, match="too wide"):
        writer.finish((1 << 32) + 1)
