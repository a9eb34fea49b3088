"""The topics of a run, of several kinds, and their partitions under one numbering.

In this room: from a row of kinds to topics and *places*. A history speaks of the numbers of places
only, so that the checker cannot tell one kind from another.
Next door: which kinds a seed means (scenario.py). Pure.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

SHARED: Final = {"storage.placement": "shared"}
# Each is a topic; the two that share logs are neighbours of each other.
KINDS: Final[dict[str, dict[str, str]]] = {
    "ordinary": {},
    "virtual": {"physical.partitions": "1"},
    "shared": SHARED,
    "shared-too": SHARED,
}


class Place(NamedTuple):
    """One partition."""

    number: int  # in the history
    topic: str
    partition: int


class Plan(NamedTuple):
    """One topic."""

    topic: str
    partitions: int
    configs: dict[str, str]


def places(kinds: Sequence[str], name: str = "orders") -> list[Place]:
    """One place for each kind in the row."""
    return [
        Place(number, f"{name}-{kind}", kinds[:number].count(kind))
        for number, kind in enumerate(kinds)
    ]


def plans(
    kinds: Sequence[str], name: str = "orders", more: dict[str, str] | None = None
) -> list[Plan]:
    """The topics that these places are in; `more`: settings of all of them."""
    return [
        Plan(f"{name}-{kind}", kinds.count(kind), KINDS[kind] | (more or {}))
        for kind in dict.fromkeys(kinds)
    ]
