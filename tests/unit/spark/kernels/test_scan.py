"""Headers as columns, against the header one at a time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafscale.records import batch
from kafscale.records.record import Record, build_batch
from kafscale.spark.kernels import scan
from tests.unit.records.samples import mixed_records, numbered


@given(groups=st.lists(mixed_records(), min_size=1, max_size=4), cut=st.integers(0, 100))
def test_columns_hold_what_the_headers_say(groups: list[list[Record]], cut: int) -> None:
    whole = b"".join(build_batch(rows, base_offset=0, producer_id=2**40) for rows in groups)
    data = bytearray(whole[: max(len(whole) - cut, 0)])
    walked = scan.walk(memoryview(data), 0, len(data))
    plain = list(batch.walk(data))
    assert walked.positions == [at for at, _ in plain]
    assert walked.stop == (plain[-1][0] + plain[-1][1].size if plain else 0)
    if plain:
        found = scan.read_headers(np.frombuffer(data, np.uint8), walked.positions)
        for name in batch.BatchHeader._fields:
            assert found.column(name).tolist() == [getattr(h, name) for _, h in plain]
        assert found.sizes.tolist() == [h.size for _, h in plain]
        assert found.last_offsets.tolist() == [h.last_offset for _, h in plain]


def test_a_length_no_batch_can_have_stops_the_walk() -> None:
    first = build_batch(numbered(1), base_offset=0)
    data = memoryview(first + b"\x00" * 80)
    assert scan.walk(data, 0, len(data)) == ([0], len(first), "a batch length of 0")


def test_the_stored_form_is_the_one_of_the_batch_header() -> None:
    assert scan.STORED.names == batch.BatchHeader._fields
    packed = batch.HEADER.pack(*range(1, 14))
    assert list(np.frombuffer(packed, scan.STORED)[0].tolist()) == list(range(1, 14))
