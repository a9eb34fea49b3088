"""The metadata port on etcd.

Here: reading, leases, and putting the parts together.
Next door: writing (commits.py), watching (watching.py), reaching etcd (client.py).
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

import grpc

from kafscale.metadata.etcd import messages, watching
from kafscale.metadata.etcd.client import EtcdClient, EtcdRefused, EtcdSettings
from kafscale.metadata.etcd.commits import Commits
from kafscale.metadata.etcd.ranges import entry_of, is_empty, range_of
from kafscale.metadata.lease import Lease, LeaseId
from kafscale.metadata.store import (
    Compare,
    Entry,
    Listing,
    Put,
    Remove,
    Watch,
    check_commit,
)
from kafscale.model.clock import Clock, moment
from kafscale.model.errors import MetadataConflict

_PAGE: Final = 1000  # entries per question
_REVOKE_S: Final = 2.0  # for revoking leases when the store is closed


class EtcdMetadataStore:
    """A cluster of etcd. Reading and comparing see everything that was committed anywhere."""

    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        """Must be made inside the event loop that uses it; connects when first asked."""
        self._client = EtcdClient(settings)
        self._root = settings.prefix
        self._clock = clock
        self._leases: dict[LeaseId, Lease] = {}
        self._commits = Commits(self._client, self._root, self.lease)

    async def get(self, key: str) -> Entry | None:
        """Read one key."""
        request = messages.RangeRequest(key=(self._root + key).encode())
        answer = await self._client.call(messages.RANGE, request)
        return entry_of(answer.kvs[0], self._root) if answer.kvs else None

    async def find(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        """Read a range of keys, or a page of it, all as of one moment."""
        begin, end = range_of(self._root + prefix, self._root + after if after else "")
        if is_empty(begin, end) or limit == 0:
            return []
        return (await self._read(begin, end, limit)).entries

    async def commit(self, writes: Sequence[Put | Remove], guards: Sequence[Compare] = ()) -> int:
        """Compare and write in one transaction, carried out once however often it is sent."""
        check_commit(writes, guards)
        if not writes:
            return await self._compare(guards)
        return await self._commits.commit(writes, guards)

    async def lease(self, ttl_s: float) -> Lease:
        """Take a lease; etcd counts in whole seconds and has a shortest time of its own."""
        asked = moment(self._clock)
        request = messages.GrantRequest(ttl=math.ceil(ttl_s))
        granted = await self._client.call(messages.GRANT, request)
        lease = Lease(LeaseId(granted.id), float(granted.ttl), self._clock, asked)
        question = messages.LeaseRequest(id=granted.id)

        async def renew() -> bool:
            answer = await self._client.exchange(messages.KEEP_ALIVE, question)
            return bool(answer.ttl > 0)

        async def revoke() -> None:
            self._leases.pop(lease.id, None)
            try:
                await self._client.call(messages.REVOKE, question)
            except EtcdRefused as refused:
                if refused.code is not grpc.StatusCode.NOT_FOUND:  # it has expired already
                    raise

        self._leases[lease.id] = lease
        lease.keep(renew, revoke)
        return lease

    def watch(self, prefix: str) -> Watch:
        """Follow what any process writes."""
        begin, end = range_of(self._root + prefix)
        return watching.watch(
            self._client, prefix, self._root, lambda: self._read(begin, end, None)
        )

    async def aclose(self) -> None:
        """Revoke the leases of this process and disconnect."""
        try:
            async with asyncio.timeout(_REVOKE_S):
                for lease in list(self._leases.values()):
                    await lease.revoke()
        except TimeoutError:
            pass  # they end by themselves
        await self._client.aclose()

    async def _read(self, begin: bytes, end: bytes, limit: int | None) -> Listing:
        while True:
            try:
                return await self._read_pages(begin, end, limit)
            except EtcdRefused as refused:
                if refused.code is not grpc.StatusCode.OUT_OF_RANGE:
                    raise
                # Compacted between two pages: read again from the first.

    async def _read_pages(self, begin: bytes, end: bytes, limit: int | None) -> Listing:
        listing, is_whole = Listing(0, []), False
        while not is_whole:
            left = _PAGE if limit is None else min(_PAGE, limit - len(listing.entries))
            request = messages.RangeRequest(
                key=begin, range_end=end, limit=left, revision=listing.version
            )
            answer: Any = await self._client.call(messages.RANGE, request)
            listing.entries.extend(entry_of(found, self._root) for found in answer.kvs)
            listing = Listing(listing.version or int(answer.header.revision), listing.entries)
            is_whole = not answer.more or len(listing.entries) == limit
            if not is_whole:
                begin = answer.kvs[-1].key + b"\0"
        return listing

    async def _compare(self, guards: Sequence[Compare]) -> int:
        request = messages.TxnRequest(
            compare=[
                messages.unchanged((self._root + guard.key).encode(), guard.version)
                for guard in guards
            ]
        )
        answer = await self._client.call(messages.TXN, request)
        if not answer.succeeded:
            names = ", ".join(guard.key for guard in guards)
            raise MetadataConflict(f"changed: one of {names}")
        return int(answer.header.revision)
