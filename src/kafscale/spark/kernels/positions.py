"""Where records keep their fields: the question, the form of its answer.

Here: what goes in (regions of unpacked records) and what comes out (positions).
Next door: the compiled finder (positions_jit.py, needs numba) and the plain one
(positions_plain.py), which give the same answers and find the same faults; the choice between them
(finders.py).
Never here: copying any field.
"""

from typing import NamedTuple, Protocol

import numpy as np

from kafscale.model.errors import InvalidRecord
from kafscale.spark.kernels.arrays import BoolArray, ByteArray, IntArray, LongArray

# Spans are Arrow's 32-bit offsets; no buffer may be longer.
LARGEST_BUFFER = 2**31 - 1


class Regions(NamedTuple):
    """Runs of records in one buffer, one per batch, in the order of the buffer."""

    starts: LongArray
    ends: LongArray
    counts: LongArray
    base_offsets: LongArray
    base_times: LongArray
    append_times: LongArray  # the time of all records where `appended` says so
    appended: BoolArray

    @property
    def total(self) -> int:
        """How many regions."""
        return len(self.starts)

    def without(self, index: int) -> "Regions":
        """The others."""
        return Regions._make(np.delete(column, index) for column in self)


class Positions(NamedTuple):
    """Fields of the records in a window of offsets.

    Spans are start, end, start, end, ...: never falling, empty where the field is null. They may
    lie in a finder's own memory and hold until it is asked again.
    """

    offsets: LongArray
    times_ms: LongArray
    keys: IntArray
    key_nulls: BoolArray
    values: IntArray
    value_nulls: BoolArray
    header_ends: IntArray  # headers up to and with each record
    names: IntArray
    header_values: IntArray
    header_nulls: BoolArray


class BrokenRegion(InvalidRecord):
    """The records of one region contradict themselves; those before it are sound."""

    def __init__(self, index: int) -> None:
        super().__init__(f"region {index} does not hold the records it claims")
        self.index = index


class PositionFinder(Protocol):
    """Finds positions. Raises BrokenRegion for the first region that is not sound."""

    def find(self, data: ByteArray, regions: Regions, first: int, until: int) -> Positions:
        """Positions of the records with first <= offset < until."""
        ...


def first_overfull(regions: Regions, smallest: int) -> int | None:
    """The first region that claims more records than its bytes can hold."""
    sizes = regions.ends - regions.starts
    bad = np.flatnonzero(regions.counts * smallest > sizes)
    return int(bad[0]) if len(bad) else None


def check_bounds(data: ByteArray, regions: Regions) -> None:
    """Refuse regions outside the buffer: everything after trusts them."""
    sound = (regions.starts >= 0) & (regions.starts <= regions.ends) & (regions.ends <= len(data))
    if len(data) > LARGEST_BUFFER or not bool(sound.all()):
        raise ValueError("regions must lie in a buffer of less than 2 GiB")
