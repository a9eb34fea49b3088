"""A broker's life in the fleet: lease, registration, following, settling, leaving.

Here: everything that waits for the metadata store. A broker registers under a lease; what it
lost by a new generation it lets go of and then says so in its registration; what it gained it
waits for until all others have said so. When the lease is lost everything is dropped, and the
broker registers anew, as another incarnation, as soon as the store is back.
Next door: what follows from all this (fleet_state.py), who decides (controller.py).
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec
import structlog

from kafscale import __version__
from kafscale.engine.cluster import identity
from kafscale.engine.cluster.controller import Controller
from kafscale.engine.cluster.fleet_state import FleetState, readable
from kafscale.engine.cluster.identity import Identity
from kafscale.engine.cluster.membership import HAND_OVER_S, ClusterEvents, Node
from kafscale.metadata import keys
from kafscale.metadata.lease import Lease
from kafscale.metadata.store import Change, Compare, Listing, MetadataStore, Put
from kafscale.model.clock import Clock
from kafscale.model.errors import KafscaleError, MetadataConflict, MetadataUnavailable
from kafscale.model.topics import iso_time
from kafscale.tasks import Tasks

logger = structlog.get_logger()

_JOIN_S: Final = 10.0
_LEAVE_S: Final = 10.0
_LAST_WORDS_S: Final = 2.0
_PAUSE_S: Final = 0.5
_LOOK_S: Final = 0.5


class _Replaced(KafscaleError):
    """Another process has registered under this broker's id."""


class Fleet(FleetState):
    """Implements Membership by the metadata store."""

    def __init__(
        self, metadata: MetadataStore, identity: Identity, clock: Clock, *, lease_s: float
    ) -> None:
        """Register for `lease_s` at a time, once `join` is called."""
        super().__init__(identity, clock)
        self._metadata = metadata
        self._lease_s = lease_s
        self._controller = Controller(self, metadata)
        self._tasks = Tasks()
        self._incarnations = {identity.epoch}
        self._is_first = True
        self._started_at = iso_time(clock.now_ms())
        self._row: keys.BrokerRow | None = None  # what the store has under our name
        self._version = 0
        self._writing = asyncio.Lock()
        self._joined = asyncio.Event()
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    # -- coming and going --------------------------------------------------------------------

    def start(self, events: ClusterEvents) -> None:
        """Tell `events` what changes from now on."""
        self.events = events

    async def join(self, node: Node) -> None:
        """Register, and wait a while until there is a generation with us in it."""
        self.node = node
        joined = self.bell()
        self._tasks.spawn(self._run(), "fleet")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_JOIN_S):
                while not self._has_place() and not self._failed.done():
                    await joined.wait()
                    joined.clear()
        self._joined.set()

    def _has_place(self) -> bool:
        return self.is_member and self.is_settled and self.controller is not None

    @property
    def has_joined(self) -> bool:
        """Whether there was a generation with us in it, or it took too long."""
        return self._joined.is_set()

    async def joined(self) -> None:
        """Wait for that."""
        await self._joined.wait()

    async def leave(self) -> None:
        """Have our share given to others, and hand it over, if there are others."""
        self.is_leaving = True
        news = self.bell()
        try:
            async with asyncio.timeout(_LEAVE_S):
                await self._write(leaving=True)
                while self._is_needed():
                    await news.wait()
                    news.clear()
        except (TimeoutError, KafscaleError) as problem:
            logger.warning("left_without_hand_over", reason=str(problem))

    def _is_needed(self) -> bool:
        """Whether somebody is there to take over what we still have."""
        others = [row for who, row in self.brokers.items() if who != self.identity.broker_id]
        if self.lease is None or all(row.leaving for row in others):
            return False
        return self.is_member or self._row is None or self._row.generation < self.generation

    async def failure(self) -> str:
        """Wait for the news that this broker must stop."""
        return await asyncio.shield(self._failed)

    async def aclose(self) -> None:
        """Give up the lease, and with it registration and office."""
        self.is_leaving = True
        await self._tasks.aclose()

    # -- one lease after the other -----------------------------------------------------------

    async def _run(self) -> None:
        while not self._failed.done():
            try:
                await self._session()
            except _Replaced as problem:
                logger.error("broker_replaced", reason=str(problem))
                self._failed.set_result(str(problem))
            except (MetadataConflict, MetadataUnavailable) as problem:
                logger.warning("fleet_lost", reason=str(problem))
                await asyncio.sleep(_PAUSE_S)
            except Exception as problem:
                # Better to be restarted than to live on without a part in the fleet.
                self._failed.set_result(f"the broker cannot follow the fleet: {problem!r}")
                raise

    async def _session(self) -> None:
        """Live as one incarnation, until the lease is lost."""
        if not self._is_first:
            self.incarnation = await identity.next_epoch(self._metadata)
            self._incarnations.add(self.incarnation)
        lease = await self._metadata.lease(self._lease_s)
        work = Tasks()
        try:
            await self._register(lease)
            running = [
                work.spawn(part, "fleet", awaited=True)
                for part in (
                    self._follow(keys.BROKERS, self.take_brokers),
                    self._follow(keys.CONTROLLER, self.take_controller),
                    self._follow(keys.MEMBERS, self.take_members),
                    self._look_after_ourselves(),
                    self._let_go(),
                    self._settle_down(),
                    self._controller.run(),
                    _end_of(lease),
                )
            ]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for ended in running:
                if ended.done():
                    ended.result()
        finally:
            self.lose()
            await work.aclose()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await lease.revoke()

    async def _register(self, lease: Lease) -> None:
        """Say where we are. At the first start a predecessor of the same id is taken for dead."""
        key = keys.broker(self.identity.broker_id)
        while True:
            found = await self._metadata.get(key)
            if not self._is_first:
                for there in readable(keys.BrokerRow, [found] if found else []):
                    self._check_ours(there)
            members = await self._metadata.find(keys.MEMBERS)
            newest = [there.generation for there in readable(keys.MemberList, members)]
            first = next(iter(self.node.endpoints.values()))
            row = keys.BrokerRow(
                broker_id=self.identity.broker_id,
                host=first.host,
                port=first.port,
                endpoints=dict(self.node.endpoints),
                rack=self.node.rack,
                started_at=self._started_at,
                version=__version__,
                incarnation=self.incarnation,
                leaving=self.is_leaving,
                generation=max(newest, default=0),  # we have nothing to let go of
            )
            try:
                self._version = await self._metadata.commit(
                    [Put(key, keys.encode(row), lease.id)],
                    [Compare(key, found.version if found else 0)],
                )
            except MetadataConflict:
                if lease.remaining_s() <= 0:
                    raise
                continue
            self._row, self.lease, self._is_first = row, lease, False
            return

    def _check_ours(self, row: keys.BrokerRow) -> None:
        if row.incarnation not in self._incarnations:
            raise _Replaced(
                f"another broker has registered as broker {row.broker_id}, "
                f"at {row.host}:{row.port}; every broker needs an id of its own (broker.id)"
            )

    async def _write(self, *, leaving: bool | None = None, generation: int | None = None) -> None:
        """Change our registration, unless somebody else has changed it."""
        async with self._writing:
            if self._row is None or self.lease is None:
                raise MetadataUnavailable("the broker is not registered")
            changed = msgspec.structs.replace(
                self._row,
                leaving=self._row.leaving if leaving is None else leaving,
                generation=self._row.generation if generation is None else generation,
            )
            if changed == self._row:
                return
            key = keys.broker(self._row.broker_id)
            self._version = await self._metadata.commit(
                [Put(key, keys.encode(changed), self.lease.id)], [Compare(key, self._version)]
            )
            self._row = changed
        self.ring()

    # -- what goes on while the lease holds --------------------------------------------------

    async def _follow(self, prefix: str, take: Callable[[Listing | Change], None]) -> None:
        async with contextlib.aclosing(self._metadata.watch(prefix)) as watch:
            async for news in watch:
                take(news)

    async def _look_after_ourselves(self) -> None:
        """Notice that our registration has been taken over or removed."""
        bell = self.bell()
        seen = False
        while True:
            await bell.wait()
            bell.clear()
            row = self.brokers.get(self.identity.broker_id)
            if row is not None:
                self._check_ours(row)
                seen = seen or row.incarnation == self.incarnation
            elif seen:
                raise MetadataUnavailable("the registration of this broker was removed")

    async def _let_go(self) -> None:
        """Say which generation's losses have been handed over."""
        bell = self.bell()
        while True:
            await bell.wait()
            bell.clear()
            while self.handing_over:
                await asyncio.wait([self.handing_over[0]])
                self.handing_over.pop(0)
            generation = self.generation  # nothing of it is left to be handed over
            await self._persistently(lambda: self._write(generation=generation))  # noqa: B023

    async def _settle_down(self) -> None:
        """Wait until the others have let go; not longer than any of them can go on unaware."""
        bell = self.bell()
        while True:
            # Not wait_for: it can swallow being cancelled.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self.is_settled else _LOOK_S):
                    await bell.wait()
            bell.clear()
            generation = self.generation
            if self.is_settled or not self.is_member:
                continue
            behind = _behind(self.brokers.values(), generation)
            # Who is cut off knows by the end of its lease; who hears late still flushes a while.
            patience_s = 2 * self._lease_s + HAND_OVER_S
            overdue = self._clock.elapsed_s() - self.learned_s > patience_s
            if behind and not overdue:
                continue
            # The watch may be behind; whoever was a member before this generation is in here.
            rows = await self._persistently(lambda: self._metadata.find(keys.BROKERS))
            behind = _behind(readable(keys.BrokerRow, rows), generation)
            if behind and not overdue:
                continue
            if behind:
                logger.warning("hand_over_overdue", brokers=behind, generation=generation)
            self.settle(generation)

    async def _persistently(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Ask until there is an answer; the lease says when to stop."""
        while True:
            try:
                return await ask()
            except MetadataUnavailable as problem:
                logger.debug("fleet_waits", reason=str(problem))
                await asyncio.sleep(_PAUSE_S)


async def _end_of(lease: Lease) -> None:
    await lease.lost()
    raise MetadataUnavailable("the lease is lost")


def _behind(rows: Iterable[keys.BrokerRow], generation: int) -> list[int]:
    """The brokers that have not let go yet of what they lost by this generation.

    We ourselves count, too: what was lost and comes back may still be flushed by its old log.
    """
    return [row.broker_id for row in rows if row.generation < generation]
