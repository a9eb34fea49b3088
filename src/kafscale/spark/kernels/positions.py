"""Where records keep their fields: the question, the form of its answer, the choice of engine.

Here: what goes in (regions of unpacked records) and what comes out (positions).
Next door: the compiled engine (positions_jit.py, needs numba) and the plain one
(positions_plain.py); they give the same answers and find the same faults.
Never here: copying any field.
"""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kafscale.model.errors import InvalidRecord

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

# Spans are Arrow's 32-bit offsets; no buffer may be longer.
LARGEST_BUFFER = 2**31 - 1


class Regions(NamedTuple):
    """Runs of records in one buffer, one per batch, in the order of the buffer."""

    starts: Longs
    ends: Longs
    counts: Longs
    base_offsets: Longs
    base_times: Longs
    append_times: Longs  # the time of all records where `appended` says so
    appended: Flags

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
    lie in an engine's own memory and hold until it is asked again.
    """

    offsets: Longs
    times_ms: Longs
    keys: Ints
    key_nulls: Flags
    values: Ints
    value_nulls: Flags
    header_ends: Ints  # headers up to and with each record
    names: Ints
    header_values: Ints
    header_nulls: Flags


class BrokenRegion(InvalidRecord):
    """The records of one region contradict themselves; those before it are sound."""

    def __init__(self, index: int) -> None:
        super().__init__(f"region {index} does not hold the records it claims")
        self.index = index


class Engine(Protocol):
    """Finds positions. Raises BrokenRegion for the first region that is not sound."""

    def find(self, data: Bytes, regions: Regions, first: int, until: int) -> Positions:
        """Positions of the records with first <= offset < until."""
        ...


def engine(fast: bool | None = None) -> Engine:
    """The compiled engine where numba is installed, else the plain one; or the one asked for."""
    from kafscale.spark.kernels.positions_plain import PlainEngine

    if fast is False:
        return PlainEngine()
    try:
        from kafscale.spark.kernels.positions_jit import JitEngine
    except ImportError:
        if fast:
            raise
        return PlainEngine()
    return JitEngine()


def first_overfull(regions: Regions, smallest: int) -> int | None:
    """The first region that claims more records than its bytes can hold."""
    sizes = regions.ends - regions.starts
    bad = np.flatnonzero(regions.counts * smallest > sizes)
    return int(bad[0]) if len(bad) else None


def check_bounds(data: Bytes, regions: Regions) -> None:
    """Refuse regions outside the buffer: everything after trusts them."""
    sound = (regions.starts >= 0) & (regions.starts <= regions.ends) & (regions.ends <= len(data))
    if len(data) > LARGEST_BUFFER or not bool(sound.all()):
        raise ValueError("regions must lie in a buffer of less than 2 GiB")
