"""The address view: where the partition remapper's formulas would put a record, and back.

Here: virtual partition and offset to physical partition and address, by the configured mapping
alone. No record lies at such an address: an Apache Kafka gives out its own offsets.
Next door: the formulas (virtual/arithmetic.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafscale.model.errors import MappingError
from kafscale.proxy.settings import ProxySettings
from kafscale.settings.values import ConfigError
from kafscale.virtual.arithmetic import Remapper


class AddressRow(NamedTuple):
    """One place, in both views."""

    virtual_partition: int
    offset: int
    physical_partition: int
    group: int  # the lane: which of the partitions that share the physical one
    address: int


def remapper_of(settings: ProxySettings, topic: str) -> Remapper:
    """The formulas of a topic. Raises ConfigError if the mapping does not name it."""
    layout = settings.rules.layout_of(topic)
    if layout.virtual_partitions is None or layout.physical_partitions is None:
        raise ConfigError(f"{topic} has no mapping")
    return Remapper(layout.virtual_partitions, layout.physical_partitions, layout.offset_range)


def addresses(
    remapper: Remapper, places: Sequence[str], *, from_physical: bool
) -> list[AddressRow]:
    """Read PARTITION or PARTITION:OFFSET and give both views of each. Raises ConfigError."""
    try:
        return [_row(remapper, *_read(place), from_physical=from_physical) for place in places]
    except MappingError as problem:
        raise ConfigError(str(problem)) from None


def _read(place: str) -> tuple[int, int]:
    partition, _, offset = place.partition(":")
    try:
        return int(partition), int(offset or 0)
    except ValueError:
        raise ConfigError(f"expected PARTITION or PARTITION:OFFSET, found {place}") from None


def _row(remapper: Remapper, partition: int, offset: int, *, from_physical: bool) -> AddressRow:
    if from_physical:
        virtual, offset = remapper.physical_to_virtual(partition, offset)
    else:
        virtual = partition
    found = remapper.virtual_to_physical_offset(virtual, offset)
    return AddressRow(virtual, offset, found.physical_partition, found.lane, found.physical_offset)
