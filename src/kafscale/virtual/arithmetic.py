"""From virtual partitions and offsets to physical ones and back.

Here: numbers only. A virtual partition v of V on P logs is lane `v // P` of log `v % P`; on that
log its offset o has the address `lane * R + o`. The ranges of two lanes never meet, because an
offset that reaches R is refused, never spilled.
Next door: which topics are virtual (rules.py).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from kafscale.model.errors import (
    InvalidMapping,
    NegativeOffset,
    NegativePartition,
    OffsetRangeExhausted,
    PhysicalPartitionOutOfRange,
    VirtualPartitionOutOfRange,
)

DEFAULT_RANGE: Final = 1 << 40
SMALLEST_RANGE: Final = 1 << 20
_BEYOND_OFFSETS: Final = 1 << 63


class VirtualPlace(NamedTuple):
    """Where a virtual partition lives."""

    physical_partition: int
    lane: int


class PhysicalOffset(NamedTuple):
    """Where a record of a virtual partition is addressed."""

    physical_partition: int
    physical_offset: int
    lane: int


class VirtualOffset(NamedTuple):
    """What a physical offset means to a client."""

    virtual_partition: int
    virtual_offset: int


def place_of(partition: int, logs: int) -> VirtualPlace:
    """The log and the lane of a partition that exists. For any number of partitions."""
    return VirtualPlace(partition % logs, partition // logs)


def partition_of(log: int, lane: int, logs: int) -> int:
    """The partition that has a lane of a log."""
    return lane * logs + log


@dataclass(frozen=True, slots=True)
class Remapper:
    """V virtual partitions on P physical ones, each with room for R offsets.

    The partition remapper's interface: tools show addresses by it. The log itself needs only
    `place_of` and `partition_of`, which hold for any V and P.
    """

    virtual_partitions: int
    physical_partitions: int
    offset_range: int = DEFAULT_RANGE

    def __post_init__(self) -> None:
        """Refuse what the formulas do not hold for."""
        virtual, physical = self.virtual_partitions, self.physical_partitions
        if physical < 1:
            raise InvalidMapping(f"there must be a physical partition, not {physical}")
        if virtual < physical:
            raise InvalidMapping(f"{virtual} virtual partitions are fewer than {physical} physical")
        if virtual % physical:
            raise InvalidMapping(
                f"{virtual} virtual partitions do not divide by {physical} physical ones"
            )
        if self.offset_range < SMALLEST_RANGE:
            raise InvalidMapping(f"an offset range of {self.offset_range} is below 2^20")
        if self.compression_ratio * self.offset_range > _BEYOND_OFFSETS:
            raise InvalidMapping(
                f"{self.compression_ratio} ranges of {self.offset_range} pass the largest offset"
            )

    @property
    def compression_ratio(self) -> int:
        """How many virtual partitions share a physical one."""
        return self.virtual_partitions // self.physical_partitions

    def virtual_to_physical(self, virtual_partition: int) -> VirtualPlace:
        """Where a virtual partition lives."""
        self._check_virtual(virtual_partition)
        return place_of(virtual_partition, self.physical_partitions)

    def virtual_to_physical_offset(
        self, virtual_partition: int, virtual_offset: int
    ) -> PhysicalOffset:
        """Where an offset of a virtual partition is addressed."""
        place = self.virtual_to_physical(virtual_partition)
        self._check_offset(virtual_partition, virtual_offset)
        address = place.lane * self.offset_range + virtual_offset
        return PhysicalOffset(place.physical_partition, address, place.lane)

    def physical_to_virtual(self, physical_partition: int, physical_offset: int) -> VirtualOffset:
        """Which offset of which virtual partition an address is."""
        self._check_physical(physical_partition)
        if physical_offset < 0:
            raise NegativeOffset(f"offset {physical_offset} is negative")
        lane, offset = divmod(physical_offset, self.offset_range)
        if lane >= self.compression_ratio:
            raise OffsetRangeExhausted(
                f"physical offset {physical_offset} is behind the last of "
                f"{self.compression_ratio} ranges"
            )
        return VirtualOffset(
            partition_of(physical_partition, lane, self.physical_partitions), offset
        )

    def offset_belongs_to_virtual(
        self, physical_partition: int, physical_offset: int, virtual_partition: int
    ) -> bool:
        """Whether an address lies in a virtual partition's range."""
        found = self.physical_to_virtual(physical_partition, physical_offset)
        return found.virtual_partition == virtual_partition

    def virtual_partitions_for_physical(self, physical_partition: int) -> range:
        """All virtual partitions of a physical one, lane by lane."""
        self._check_physical(physical_partition)
        return range(physical_partition, self.virtual_partitions, self.physical_partitions)

    def offset_range_for_virtual(self, virtual_partition: int) -> tuple[int, int]:
        """First and last address of a virtual partition."""
        first = self.virtual_to_physical(virtual_partition).lane * self.offset_range
        return first, first + self.offset_range - 1

    def _check_virtual(self, partition: int) -> None:
        if partition < 0:
            raise NegativePartition(f"partition {partition} is negative")
        if partition >= self.virtual_partitions:
            raise VirtualPartitionOutOfRange(
                f"virtual partition {partition} is above {self.virtual_partitions - 1}"
            )

    def _check_physical(self, partition: int) -> None:
        if partition < 0:
            raise NegativePartition(f"partition {partition} is negative")
        if partition >= self.physical_partitions:
            raise PhysicalPartitionOutOfRange(
                f"physical partition {partition} is above {self.physical_partitions - 1}"
            )

    def _check_offset(self, partition: int, offset: int) -> None:
        if offset < 0:
            raise NegativeOffset(f"offset {offset} is negative")
        if offset >= self.offset_range:
            raise OffsetRangeExhausted(
                f"offset {offset} of partition {partition} is beyond its range of "
                f"{self.offset_range}"
            )
