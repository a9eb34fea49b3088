"""What the door to the bucket reads off a segment that passes."""

from kafscale.log.formats.producers import SEALER
from kafscale.records import batch
from kafscale.records.control import control_batch, empty_batch
from tests.faults.s3_proxy import epochs

HEADER, FOOTER = bytes(32), bytes(16)


def written(offset: int, epoch: int) -> bytes:
    return bytes(empty_batch(offset, offset, 0, epoch))


def sealed(offset: int, epoch: int) -> bytes:
    seal = memoryview(control_batch(0, SEALER))
    batch.stamp(seal, offset, epoch)
    return bytes(seal)


def test_epochs_are_those_of_the_first_and_the_last_batch() -> None:
    assert epochs(HEADER + written(0, 3) + written(1, 4) + written(2, 5) + FOOTER) == (3, 5)


def test_seals_do_not_count_because_any_broker_may_write_them() -> None:
    assert epochs(HEADER + sealed(7, 3) + FOOTER) == (-1, -1)
    assert epochs(HEADER + written(0, 8) + sealed(7, 3) + FOOTER) == (8, 8)
