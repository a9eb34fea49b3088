"""Leases: keys that vanish when the process that wrote them has gone silent.

Here: how long a lease surely holds, its renewal, and the news that it is lost.
Next door: the stores that grant and renew leases (embedded.py, etcd/store.py).

Time is counted from before a renewal was asked for, so that the holder's end comes before the
store's: when others see the keys go, the holder has known for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NewType

import structlog

from kafscale.model.clock import Clock, Moment, age_s, moment
from kafscale.model.errors import MetadataUnavailable

logger = structlog.get_logger()

LeaseId = NewType("LeaseId", int)

_RENEWALS_PER_TTL: Final = 3
_RETRIES_PER_TTL: Final = 10


class Lease:
    """Held by one process. Once lost it stays lost: take another."""

    def __init__(self, lease_id: LeaseId, ttl_s: float, clock: Clock, asked: Moment) -> None:
        """Hold a lease that was asked for at this moment."""
        self.id = lease_id
        self.ttl_s = ttl_s
        self._clock = clock
        self._asked = asked
        self._lost = asyncio.Event()
        self._revoke: Callable[[], Awaitable[None]] | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def deadline_s(self) -> float:
        """Until then, by the clock's `elapsed_s`, the store surely keeps it; then count it lost."""
        return self._asked.elapsed_s + self.ttl_s

    def remaining_s(self) -> float:
        """For how long it surely holds; 0 when it is lost."""
        if self._lost.is_set():
            return 0.0
        return max(0.0, self.ttl_s - age_s(self._clock, self._asked))

    async def lost(self) -> None:
        """Wait until it is lost: the store said so, or its deadline passed without a renewal."""
        await self._lost.wait()

    async def revoke(self) -> None:
        """Give it up: its keys go now, or by themselves where the store cannot be reached."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._end()

    def keep(
        self, renew: Callable[[], Awaitable[bool]], revoke: Callable[[], Awaitable[None]]
    ) -> None:
        """Renew until it is lost; `renew` says whether the store still has it."""
        self._revoke = revoke
        self._keeping = asyncio.get_running_loop().create_task(
            self._keep(renew), name=f"lease-{self.id:x}"
        )

    async def _keep(self, renew: Callable[[], Awaitable[bool]]) -> None:
        pause_s = self.ttl_s / _RENEWALS_PER_TTL
        while self.remaining_s() > 0:
            await asyncio.sleep(min(pause_s, self.remaining_s()))
            asked = moment(self._clock)
            try:
                async with asyncio.timeout(self.remaining_s()):
                    if not await renew():
                        break
            except (MetadataUnavailable, TimeoutError):
                pause_s = self.ttl_s / _RETRIES_PER_TTL
                continue
            pause_s = self.ttl_s / _RENEWALS_PER_TTL
            if self.remaining_s() > 0:  # an answer that comes too late brings nothing back
                self._asked = asked
        logger.warning("lease_lost", lease=f"{self.id:x}", ttl_s=self.ttl_s)
        await self._end()

    async def _end(self) -> None:
        self._lost.set()
        revoke, self._revoke = self._revoke, None
        if revoke is None:
            return
        try:
            # The store may still have the lease: its keys must not outlive the holder's belief.
            await revoke()
        except MetadataUnavailable as problem:
            logger.info("lease_left_to_expire", lease=f"{self.id:x}", error=str(problem))
