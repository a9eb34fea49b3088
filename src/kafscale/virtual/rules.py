"""Which topics are virtual, by the configuration's `mapping`.

Here: defaults, topics by name, topics by pattern. A topic's own name comes first, then patterns
in the order in which they are written, then the defaults; a pattern must match the whole name.
A key that could be a topic's name is one, dots included; everything else is a pattern. Clients
choose topic names, so patterns are matched in a time that grows with the name only (decision 46).
Next door: the arithmetic (arithmetic.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kafscale.model.errors import InvalidMapping, InvalidTopicName
from kafscale.model.names import check_topic_name
from kafscale.virtual.arithmetic import DEFAULT_RANGE, SMALLEST_RANGE


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """How many partitions clients see, on how many logs, with how many offsets each."""

    virtual_partitions: int | None = None  # if the client names no number
    physical_partitions: int | None = None  # None: one log per partition
    offset_range: int = DEFAULT_RANGE

    def check(self, what: str) -> None:
        """Refuse numbers that contradict each other; `what` names the topic or pattern."""
        virtual, physical = self.virtual_partitions, self.physical_partitions
        if not SMALLEST_RANGE <= self.offset_range <= DEFAULT_RANGE:
            raise InvalidMapping(f"{what}: an offset range lies between 2^20 and 2^40")
        if physical is not None and physical < 1:
            raise InvalidMapping(f"{what}: there must be a physical partition, not {physical}")
        if virtual is not None and virtual < (physical or 1):
            raise InvalidMapping(
                f"{what}: {virtual} virtual partitions are fewer than {physical or 1} physical"
            )


@dataclass(frozen=True, slots=True)
class Override:
    """The configured layout of some topics; None keeps the default."""

    virtual_partitions: int | None = None
    physical_partitions: int | None = None
    offset_range: int | None = None

    def over(self, default: PartitionLayout) -> PartitionLayout:
        """The default, with this override applied."""
        virtual, physical, offsets = (
            self.virtual_partitions,
            self.physical_partitions,
            self.offset_range,
        )
        return PartitionLayout(
            default.virtual_partitions if virtual is None else virtual,
            default.physical_partitions if physical is None else physical,
            default.offset_range if offsets is None else offsets,
        )


class NamePattern(Protocol):
    """A compiled pattern of RE2."""

    @property
    def pattern(self) -> str:
        """The pattern as it was written."""
        ...

    def fullmatch(self, name: str) -> object | None:
        """Whether the whole name matches: None if it does not."""
        ...


@dataclass(frozen=True, slots=True)
class LayoutRules:
    """Gives the layout of any topic."""

    default: PartitionLayout = PartitionLayout()
    by_name: Mapping[str, PartitionLayout] = field(default_factory=dict)
    patterns: tuple[tuple[NamePattern, PartitionLayout], ...] = ()

    @staticmethod
    def of(default: PartitionLayout, overrides: Mapping[str, Override]) -> "LayoutRules":
        """Read the configured mapping, in its order. Raises InvalidMapping."""
        default.check("the default")
        names: dict[str, PartitionLayout] = {}
        patterns: list[tuple[NamePattern, PartitionLayout]] = []
        for key, override in overrides.items():
            layout = override.over(default)
            layout.check(key)
            if _is_name(key):
                names[key] = layout
            else:
                patterns.append((_compiled(key), layout))
        return LayoutRules(default, names, tuple(patterns))

    def check_limits(self, most_logs: int, most_virtual: int) -> None:
        """Refuse layouts that no topic could be created with. Raises InvalidMapping."""
        rules = [
            ("the default", self.default),
            *self.by_name.items(),
            *((pattern.pattern, layout) for pattern, layout in self.patterns),
        ]
        for what, layout in rules:
            logs, partitions = layout.physical_partitions, layout.virtual_partitions or 1
            if logs is not None and logs > most_logs:
                raise InvalidMapping(
                    f"{what}: {logs} physical partitions are more than topics.maxPartitions "
                    f"({most_logs})"
                )
            limit, name = (
                (most_logs, "maxPartitions")
                if logs is None
                else (most_virtual, "maxVirtualPartitions")
            )
            if partitions > limit:
                raise InvalidMapping(
                    f"{what}: {partitions} virtual partitions are more than topics.{name} ({limit})"
                )

    def layout_of(self, topic: str) -> PartitionLayout:
        """The layout of a topic with this name."""
        found = self.by_name.get(topic)
        if found is not None:
            return found
        for pattern, layout in self.patterns:
            if pattern.fullmatch(topic):
                return layout
        return self.default


def _is_name(key: str) -> bool:
    try:
        check_topic_name(key)
    except InvalidTopicName:
        return False
    return True


def _compiled(key: str) -> NamePattern:
    import re2  # loaded only where there are patterns

    options = re2.Options()
    options.log_errors = False  # else RE2 writes to standard error by itself
    try:
        compiled: NamePattern = re2.compile(key, options)
    except re2.error as problem:
        reason = problem.args[0].decode() if problem.args else "not readable"
        raise InvalidMapping(f"{key}: neither a topic's name nor a pattern: {reason}") from None
    return compiled
