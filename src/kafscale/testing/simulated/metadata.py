"""A simulated metadata store that behaves as etcd: versions, leases that run out, late watches.

Here: the store that all brokers share, and one handle on it per process.
Next door: what goes wrong on the way (remote.py), the port (metadata/store.py).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextvars import Context
from typing import Final, TypeVar

from kafscale.metadata.keys import TOPICS
from kafscale.metadata.lease import Lease, LeaseId
from kafscale.metadata.store import (
    Change,
    Compare,
    Entry,
    Listing,
    Put,
    Remove,
    check_commit,
)
from kafscale.model.clock import Clock, moment
from kafscale.model.errors import MetadataConflict, MetadataUnavailable
from kafscale.testing.simulated.remote import Line, Remote, RemoteFaults

_T = TypeVar("_T")
_LOOK_AGAIN_S: Final = 0.2


class SimulatedEtcd(Remote):
    """The keys, the leases, and every change so far."""

    def __init__(
        self,
        seed: int = 0,
        faults: RemoteFaults | None = None,
        context: Context | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Begin empty. `relist_chance`: a watcher is told everything instead of one change."""
        super().__init__("etcd", seed, faults, context, note)
        self.relist_chance = 0.0
        self.version = 0
        self.changes: list[Change] = []
        self._entries: dict[str, Entry] = {}
        self._lease_of: dict[str, LeaseId] = {}
        self._ends_s: dict[LeaseId, float] = {}
        self._granted = 0
        self._waiting: list[asyncio.Future[None]] = []

    def get(self, key: str) -> Entry | None:
        """Read one key."""
        return self._entries.get(key)

    def list(self, prefix: str) -> Listing:
        """Read a prefix."""
        keys = sorted(key for key in self._entries if key.startswith(prefix))
        return Listing(self.version, [self._entries[key] for key in keys])

    def commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare]) -> int:
        """Compare and write."""
        for write in writes:
            lease = write.lease if isinstance(write, Put) else None
            if lease is not None and lease not in self._ends_s:
                raise MetadataConflict(f"lease {lease} is lost")
        for guard in guards:
            entry = self._entries.get(guard.key)
            version = entry.version if entry else 0
            if version != guard.version:
                raise MetadataConflict(f"{guard.key} is at {version}, not at {guard.version}")
        if writes:
            self._write(writes)
        return self.version

    def _write(self, writes: Sequence[Put | Remove]) -> None:
        self.version += 1
        change = Change(self.version, [], [])
        for write in writes:
            self._lease_of.pop(write.key, None)
            match write:
                case Put(key, value, lease):
                    entry = self._entries[key] = Entry(key, bytes(value), self.version)
                    change.written.append(entry)
                    if lease is not None:
                        self._lease_of[key] = lease
                case Remove(key):
                    if self._entries.pop(key, None) is not None:
                        change.removed.append(key)
        self.changes.append(change)
        waiting, self._waiting = self._waiting, []
        for watcher in waiting:
            if not watcher.done():
                watcher.set_result(None)

    def news(self) -> asyncio.Future[None]:
        """Done when something has changed."""
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(watcher)
        return watcher

    def grant(self, ttl_s: float) -> LeaseId:
        """Give a new lease."""
        self._granted += 1
        lease_id = LeaseId(self._granted)
        self._extend(lease_id, ttl_s)
        return lease_id

    def renew(self, lease_id: LeaseId, ttl_s: float) -> bool:
        """Renew a lease, if it has not run out."""
        if lease_id not in self._ends_s:
            return False
        self._extend(lease_id, ttl_s)
        return True

    def _extend(self, lease_id: LeaseId, ttl_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._ends_s[lease_id] = loop.time() + ttl_s
        loop.call_at(self._ends_s[lease_id], self._expire, lease_id, context=self.context)

    def _expire(self, lease_id: LeaseId) -> None:
        if self._ends_s.get(lease_id, float("inf")) <= asyncio.get_running_loop().time():
            self.note(f"etcd lease {lease_id} runs out")
            self.revoke(lease_id)

    def revoke(self, lease_id: LeaseId) -> None:
        """End a lease and what was written under it."""
        if self._ends_s.pop(lease_id, None) is not None:
            keys = sorted(key for key, owner in self._lease_of.items() if owner == lease_id)
            if keys:
                self._write([Remove(key) for key in keys])


class SimulatedMetadataStore(Line):
    """One process's connection to the store; implements metadata.store.MetadataStore."""

    def __init__(self, etcd: SimulatedEtcd, clock: Clock) -> None:
        """Reach `etcd`; leases are counted by the process's own clock."""
        super().__init__(etcd, MetadataUnavailable)
        self._etcd = etcd
        self._clock = clock
        self._leases: list[Lease] = []
        self.is_deaf = False  # news of topics do not come through, all else does

    async def get(self, key: str) -> Entry | None:
        """Read one key."""
        return await self.ask(f"get {key}", lambda: self._etcd.get(key))

    async def find(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        """Read a prefix, or a page of it."""
        found = await self.ask(f"find {prefix}", lambda: self._etcd.list(prefix))
        return [entry for entry in found.entries if entry.key > after][:limit]

    async def commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare] = ()) -> int:
        """Compare and write in one transaction."""
        check_commit(writes, guards)
        given, asked = tuple(writes), tuple(guards)
        what = f"commit {[write.key for write in given]}"
        return await self.ask(what, lambda: self._etcd.commit(given, asked), in_order=True)

    async def lease(self, ttl_s: float) -> Lease:
        """Take a lease and keep it alive."""
        asked = moment(self._clock)
        lease_id = await self.ask("lease", lambda: self._etcd.grant(ttl_s))
        lease = Lease(lease_id, ttl_s, self._clock, asked)

        async def renew() -> bool:
            return await self.ask(f"renew {lease_id}", lambda: self._etcd.renew(lease_id, ttl_s))

        async def revoke() -> None:
            await self.ask(f"revoke {lease_id}", lambda: self._etcd.revoke(lease_id))

        lease.keep(renew, revoke)
        self._leases.append(lease)
        return lease

    async def watch(self, prefix: str) -> AsyncGenerator[Listing | Change, None]:
        """Follow a prefix: late, over any cut, and now and then with everything told again."""
        etcd = self._etcd
        while True:
            try:
                listing = await self.ask(f"watch {prefix}", lambda: etcd.list(prefix))
            except MetadataUnavailable:
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            yield listing
            at = listing.version  # every change has its place: the first is version 1
            while not etcd.relist_chance or etcd.dice.random() >= etcd.relist_chance:
                while at >= len(etcd.changes):
                    await etcd.news()
                await self._arrival()
                while self.is_deaf and prefix == TOPICS:  # noqa: ASYNC110 - as below
                    await asyncio.sleep(_LOOK_AGAIN_S)
                change = _touching(etcd.changes[at], prefix)
                at += 1
                if change is not None:
                    yield change

    async def _arrival(self) -> None:
        """Wait for the delay of a watch."""
        if delay_s := self.remote.delay_s():
            await asyncio.sleep(delay_s)
        while self.remote.is_down or self.is_cut:  # noqa: ASYNC110 - as etcd's clients do
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def aclose(self) -> None:
        """Give up the leases."""
        for lease in self._leases:
            await lease.revoke()


def _touching(change: Change, prefix: str) -> Change | None:
    written = [entry for entry in change.written if entry.key.startswith(prefix)]
    removed = [key for key in change.removed if key.startswith(prefix)]
    return Change(change.version, written, removed) if written or removed else None
