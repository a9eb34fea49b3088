"""The metadata port: a small ordered key-value store with versions and transactions.

Here: get, find, and an all-or-nothing commit of writes guarded by comparisons.
Next door: key names (keys.py), the SQLite adapter (embedded.py).
Never here: segment lists, heartbeats, anything written per flush.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

MAX_OPERATIONS = 128  # etcd's limit on one transaction; kept by every adapter
BEYOND = "\U0010ffff"  # sorts after every character a key has: prefix + BEYOND is behind its keys


class Entry(NamedTuple):
    """A key, its value, and the store revision that last wrote it."""

    key: str
    value: bytes
    version: int  # > 0 and rising with every write to the store


@dataclass(frozen=True, slots=True)
class Compare:
    """Guard: the key's version must be this one; 0 means the key must not exist."""

    key: str
    version: int


@dataclass(frozen=True, slots=True)
class Put:
    """Write a value."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a key; no error when it is not there."""

    key: str


class MetadataStore(Protocol):
    """Errors: MetadataConflict when a guard fails, MetadataUnavailable when nothing is known."""

    async def get(self, key: str) -> Entry | None:
        """Read one key."""
        ...

    async def find(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        """Read all keys that begin with `prefix`, in key order.

        `after` and `limit` take them a page at a time: only keys behind this one, so many at most.
        """
        ...

    async def commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare] = ()) -> int:
        """Apply all writes if all guards hold, else raise MetadataConflict.

        Gives the version all written entries now have; a key is written at most once per commit.
        """
        ...

    async def aclose(self) -> None:
        """Release the file or the connection."""
        ...
