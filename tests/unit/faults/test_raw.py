"""Bytes that the fault harness reads by itself."""

import struct

from tests.faults import raw
from tests.faults.history import Found
from tests.faults.places import KINDS
from tests.faults.s3_proxy import Manners, epochs, together
from tests.support import wire


def stamped(values: list[str], base: int, epoch: int) -> bytes:
    data = wire.batch([value.encode() for value in values], timestamp_ms=1)
    return struct.pack(">qii", base, len(data) - 12, epoch) + data[16:]


def test_records_are_read_with_their_offsets_and_epochs() -> None:
    data = stamped(["a", "b" * 200], 5, 3) + stamped(["c"], 7, 4)
    assert list(raw.opened(2, data)) == [
        Found(2, 5, "a", 3),
        Found(2, 6, "b" * 200, 3),
        Found(2, 7, "c", 4),
    ]


def test_a_piece_of_a_batch_is_left_out() -> None:
    data = stamped(["a"], 0, 1) + stamped(["b"], 1, 1)
    assert [one.value for one in raw.opened(0, data[:-1])] == ["a"]


def test_a_segment_tells_its_first_and_last_epoch() -> None:
    batches = stamped(["a"], 0, 3) + stamped(["b"], 1, 3) + stamped(["c"], 2, 7)
    assert epochs(bytes(32) + batches + bytes(16)) == (3, 7)
    assert epochs(bytes(48)) == (-1, -1)


def test_watermarks_with_an_error_are_no_watermarks() -> None:
    body = struct.pack(">i", 2)
    for kind, rows in ((KINDS[0], [(0, 0, 17), (1, 6, -1)]), (KINDS[2], [(1, 0, 5)])):
        body += wire.string(kind.topic) + struct.pack(">i", len(rows))
        body += b"".join(struct.pack(">ihqq", p, error, -1, at) for p, error, at in rows)
    shared = KINDS[0].partitions + KINDS[1].partitions
    assert raw.offsets_listed(body) == {0: 17, shared + 1: 5}


def test_two_faults_at_one_door_are_both_felt() -> None:
    both = together([Manners(errors=0.3), Manners(hang=True, errors=0.1)])
    assert both == Manners(hang=True, errors=0.3)
