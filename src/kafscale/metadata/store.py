"""The metadata port: a small ordered key-value store with versions and transactions.

Here: get, find, an all-or-nothing commit of writes guarded by comparisons, keys that live as long
as a lease, and watching what others write.
Next door: key names (keys.py), leases (lease.py), the adapters (embedded.py, etcd/).
Never here: segment lists, heartbeats, anything written per flush.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafscale.metadata.lease import Lease, LeaseId

# etcd takes 128 operations in one transaction, and its adapter needs one of them for itself.
MAX_OPERATIONS = 127
MAX_BYTES = 1 << 20  # of one commit; etcd takes 1.5 MiB, and that is not all of it
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
    """Write a value; with a lease it goes when the lease goes, and fails when it has gone."""

    key: str
    value: bytes
    lease: LeaseId | None = None
    synced: bool = False  # what is written with it must outlast a loss of power


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a key; no error when it is not there."""

    key: str


class Listing(NamedTuple):
    """Every watched entry: a watcher forgets what it knew before."""

    version: int
    entries: list[Entry]


class Change(NamedTuple):
    """What one commit did among the watched keys."""

    version: int
    written: list[Entry]
    removed: list[str]


Watch = AsyncGenerator[Listing | Change, None]


def check_commit(writes: Sequence[Put | Remove], guards: Sequence[Compare]) -> None:
    """Raise ValueError for what one adapter could not do: all adapters take the same commits."""
    if max(len(writes), len(guards)) > MAX_OPERATIONS:
        raise ValueError(f"one commit takes at most {MAX_OPERATIONS} writes and as many guards")
    if len({write.key for write in writes}) < len(writes):
        raise ValueError("one commit writes a key at most once")


def pages(writes: Sequence[Put | Remove], most: int = MAX_OPERATIONS) -> Iterator[slice]:
    """Cut many writes, in their order, into as many at a time as one commit takes."""
    begin = size = 0
    for at, write in enumerate(writes):
        more = len(write.key) + (len(write.value) if isinstance(write, Put) else 0)
        if at > begin and (at - begin == most or size + more > MAX_BYTES):
            yield slice(begin, at)
            begin, size = at, 0
        size += more
    if begin < len(writes):
        yield slice(begin, len(writes))


class MetadataStore(Protocol):
    """Errors: MetadataConflict when a guard fails, MetadataUnavailable without an answer."""

    async def get(self, key: str) -> Entry | None:
        """Read one key."""
        ...

    async def find(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        """Read all keys that begin with `prefix`, in key order.

        `after` and `limit` read a page at a time: keys behind `after`, at most `limit` of them.
        """
        ...

    async def commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare] = ()) -> int:
        """Apply all writes if all guards hold, else raise MetadataConflict.

        Gives the version all written entries now have; a key is written at most once per commit.
        MetadataConflict means that nothing was or will be written. After MetadataUnavailable that
        is not known, but what this store commits later is never overwritten by it.
        """
        ...

    async def lease(self, ttl_s: float) -> Lease:
        """Take a lease and keep it alive until it is revoked or lost.

        The store may choose a longer time than asked for.
        """
        ...

    def watch(self, prefix: str) -> Watch:
        """Follow the keys that begin with `prefix`: a Listing first, then every Change, in order.

        Goes on until it is closed with `aclose()`, over any loss of connection. Where changes can
        no longer be had one by one, another Listing takes their place.
        """
        ...

    async def aclose(self) -> None:
        """Release the file or the connection."""
        ...
