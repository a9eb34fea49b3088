"""A broker with peers: the shell around the fleet's state machine.

Here: the lease, the watches and the timer. The shell carries out what the machine asks for and
tells it what came of that; it decides nothing. Questions of the engine are answered from memory.
Next door: the machine (machine.py), what it knows (fleet_state.py), its reads and writes
(fleet_store.py), the only broker of a store (single.py).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final

import structlog

from kafscale import __version__
from kafscale.engine.cluster import identity as identities
from kafscale.engine.cluster.events import (
    Broken,
    Close,
    Conflict,
    DropAll,
    EndSession,
    FleetEffect,
    FleetEvent,
    FollowFleet,
    HandedOver,
    HandOver,
    JoinFleet,
    LeaveFleet,
    OpenOwnedLogs,
    OpenSession,
    ReportFailed,
    ReportJoined,
    ReportLeft,
    SessionEnded,
    SessionLost,
    SessionOpened,
    SetTimer,
    StoreEffect,
    TimerFired,
    Unavailable,
)
from kafscale.engine.cluster.fleet_store import FleetStore
from kafscale.engine.cluster.identity import Identity
from kafscale.engine.cluster.machine import FleetMachine
from kafscale.engine.cluster.membership import ClusterEvents, Node
from kafscale.engine.cluster.placement import NO_BROKER
from kafscale.metadata import keys
from kafscale.metadata.lease import Lease
from kafscale.metadata.store import MetadataStore
from kafscale.model.clock import Clock
from kafscale.model.errors import (
    MetadataConflict,
    MetadataUnavailable,
    NotTheCoordinator,
    NotTheOwner,
)
from kafscale.model.topics import iso_time
from kafscale.tasks import Tasks
from kafscale.transactions.rows import TRANSACTION_VERSION

logger = structlog.get_logger()

PATIENCE_S: Final = 2.0  # how long requests wait for a log that is about to be this broker's
_REVOKE_S: Final = 2.0


class Fleet:
    """Implements Membership by the metadata store."""

    has_peers = True

    def __init__(
        self,
        metadata: MetadataStore,
        identity: Identity,
        clock: Clock,
        *,
        lease_s: float,
        gather_s: float,
    ) -> None:
        """Register for `lease_s` at a time, once `join` is called."""
        self.identity = identity
        self.machine = FleetMachine(
            identity.broker_id, identity.epoch, lease_s=lease_s, gather_s=gather_s
        )
        self.state = self.machine.state
        self.store = FleetStore(metadata, identity.broker_id)
        self._metadata = metadata
        self._clock = clock
        self._lease_s = lease_s
        self._node = Node(identity.broker_id, {})
        self._started_at = iso_time(clock.now_ms())
        self._events: ClusterEvents | None = None
        self._lease: Lease | None = None  # while this broker is registered under it
        self._session_lease: Lease | None = None
        self._session = Tasks()  # all that ends with the session
        self._tasks = Tasks()
        self._timer: asyncio.TimerHandle | None = None
        self._settled = asyncio.Event()
        self._joined = asyncio.Event()
        self._left = asyncio.Event()
        self._ended = asyncio.Event()  # no session is open
        self._ended.set()
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    # -- coming and going --------------------------------------------------------------------

    def start(self, events: ClusterEvents) -> None:
        """Tell `events` what changes from now on."""
        self._events = events

    async def join(self, node: Node) -> None:
        """Register, and wait a while until there is a settled generation with this broker."""
        self._node = node
        first = next(iter(node.endpoints.values()))
        row = keys.BrokerRow(
            broker_id=node.broker_id,
            host=first.host,
            port=first.port,
            endpoints=dict(node.endpoints),
            rack=node.rack,
            started_at=self._started_at,
            version=__version__,
            transaction_version=TRANSACTION_VERSION,
        )
        self.feed(JoinFleet(row))
        await self._joined.wait()

    @property
    def has_joined(self) -> bool:
        """Whether there was a generation with this broker in it, or it took too long."""
        return self._joined.is_set()

    async def joined(self) -> None:
        """Wait for that."""
        await self._joined.wait()

    async def leave(self) -> None:
        """Hand everything over to the other brokers, if there are any."""
        self._left.clear()
        self.feed(LeaveFleet())
        await self._left.wait()

    async def failure(self) -> str:
        """Wait for the news that this broker must stop."""
        return await asyncio.shield(self._failed)

    async def aclose(self) -> None:
        """Give up the lease, and with it the registration and the controller's key."""
        self.feed(Close())
        await self._ended.wait()
        await self._tasks.aclose()
        if self._timer is not None:
            self._timer.cancel()

    # -- events in, effects out --------------------------------------------------------------

    def feed(self, event: FleetEvent) -> None:
        """Let the machine know, and do what it asks for."""
        known = self.state.brokers
        for effect in self.machine.handle(event, self._clock.elapsed_s()):
            self._carry_out(effect)
        if self.state.brokers != known and self._events is not None:
            self._events.brokers_changed()

    def _carry_out(self, effect: FleetEffect) -> None:
        match effect:
            case OpenSession():
                self._ended.clear()
                self._session = Tasks()
                self._spawn(self._session, self._open_session(effect))
            case FollowFleet():
                self._follow()
            case EndSession(reason):
                self._spawn(self._tasks, self._end_session(reason))
            case HandOver():
                self._hand_over(effect)
            case OpenOwnedLogs():
                self._open_logs(effect)
            case DropAll():
                self._drop_all()
            case SetTimer(when_s):
                self._set_timer(when_s)
            case ReportJoined():
                self._joined.set()
            case ReportLeft(reason):
                if reason is not None:
                    logger.warning("left_without_hand_over", reason=reason)
                self._left.set()
            case ReportFailed(reason):
                logger.error("fleet_failed", reason=reason)
                self._failed.set_result(reason)
            case _:
                self._spawn(self._session, self._ask_store(effect))

    def _spawn(self, tasks: Tasks, work: Coroutine[Any, Any, None]) -> None:
        tasks.spawn(self._guarded(work), "fleet")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as problem:
            # Better to be restarted than to live on without a part in the fleet.
            self.feed(Broken(f"the broker cannot follow the fleet: {problem!r}"))
            raise

    def _set_timer(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0.0, when_s - self._clock.elapsed_s())
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_s, self.feed, TimerFired())

    # -- one session -------------------------------------------------------------------------

    async def _open_session(self, effect: OpenSession) -> None:
        incarnation = None
        try:
            if effect.takes_incarnation:
                incarnation = await identities.next_epoch(self._metadata)
            lease = self._session_lease = await self._metadata.lease(self._lease_s)
        except (MetadataConflict, MetadataUnavailable) as problem:
            self.feed(SessionLost(str(problem)))
            return
        self._spawn(self._session, self._watch_lease(lease))
        self.feed(SessionOpened(incarnation))

    async def _watch_lease(self, lease: Lease) -> None:
        await lease.lost()
        self.feed(SessionLost("the lease is lost"))

    def _follow(self) -> None:
        self._lease = self._session_lease
        for watch in (
            self.store.watch_brokers(),
            self.store.watch_controller(),
            self.store.watch_members(),
        ):
            self._spawn(self._session, self._feed_all(watch))

    async def _feed_all(self, watch: AsyncIterator[FleetEvent]) -> None:
        try:
            async for event in watch:
                self.feed(event)
        except (MetadataConflict, MetadataUnavailable) as problem:
            self.feed(SessionLost(str(problem)))

    async def _ask_store(self, effect: StoreEffect) -> None:
        assert self._session_lease is not None
        event: FleetEvent
        try:
            event = await self.store.answer(effect, self._session_lease.id)
        except MetadataConflict as problem:
            event = Conflict(effect, str(problem))
        except MetadataUnavailable as problem:
            event = Unavailable(effect, str(problem))
        if isinstance(event, Conflict | Unavailable):
            name = type(effect).__name__
            logger.debug("fleet_request_failed", request=name, reason=event.reason)
        self.feed(event)

    async def _end_session(self, reason: str | None) -> None:
        if reason is not None:
            logger.warning("fleet_lost", reason=reason)
        try:
            await self._session.aclose()
            lease, self._session_lease = self._session_lease, None
            if lease is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_REVOKE_S):
                        await lease.revoke()
        finally:
            self._ended.set()
            self.feed(SessionEnded())

    # -- what the engine does ----------------------------------------------------------------

    def _hand_over(self, effect: HandOver) -> None:
        logger.info("members_changed", generation=effect.generation, brokers=effect.brokers)
        self._settled.clear()
        if self._events is None:
            asyncio.get_running_loop().call_soon(self.feed, HandedOver())
        else:
            handed_over = self._events.ownership_changed()
            handed_over.add_done_callback(lambda _: self.feed(HandedOver()))

    def _open_logs(self, effect: OpenOwnedLogs) -> None:
        if effect.overdue:
            logger.warning(
                "hand_over_overdue", brokers=effect.overdue, generation=effect.generation
            )
        self._settled.set()
        if self._events is not None:
            self._events.logs_ready()

    def _drop_all(self) -> None:
        self._lease = None
        self._settled.clear()
        if self._events is not None:
            self._events.lease_lost()

    # -- questions ---------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The leader epoch of every log."""
        return self.state.generation

    @property
    def transaction_version(self) -> int:
        """The version of transactions that all brokers know."""
        return self.state.placement.transaction_version

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self.state.controller == self.state.as_controller and self.holds()

    def holds(self) -> bool:
        """Whether this broker's lease surely holds."""
        return self._lease is not None and self._lease.remaining_s() > 0

    def may_open(self, folder: str) -> bool:
        """Whether a log is this broker's and no other broker can have it open any more."""
        return self.holds() and self.state.may_open(folder)

    def may_coordinate(self, group_id: str) -> bool:
        """The same for a group."""
        return self.holds() and self.state.may_coordinate(group_id)

    async def require_log(self, folder: str) -> None:
        """Raise NotTheOwner unless the log may be opened, now or in a moment."""
        if self.may_open(folder):
            return
        if self._is_coming(self.state.placement.owner(folder)):
            await self._wait_for_hand_over()
        if not self.may_open(folder):
            raise NotTheOwner(f"the log {folder} is not this broker's")

    async def require_group(self, group_id: str) -> None:
        """Raise NotTheCoordinator unless the group is this broker's, now or in a moment."""
        if self.may_coordinate(group_id):
            return
        if self._is_coming(self.state.placement.coordinator(group_id)):
            await self._wait_for_hand_over()
        if not self.may_coordinate(group_id):
            raise NotTheCoordinator(f"group {group_id!r} is not this broker's")

    def _is_coming(self, owner: int) -> bool:
        return owner == self.identity.broker_id and self.state.is_member and self.holds()

    async def _wait_for_hand_over(self) -> None:
        """Wait until the generation is settled; all requests wait until the same moment."""
        left_s = self.state.learned_s + PATIENCE_S - self._clock.elapsed_s()
        if left_s > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self._settled.wait()
            except TimeoutError:
                pass  # the client is told that the log is not here, and asks again

    def leader_of(self, folder: str) -> int:
        """The owner of a log, if it is known how to reach it."""
        owner = self.state.placement.owner(folder)
        return owner if self._node_of(owner) is not None else NO_BROKER

    def coordinator_of(self, group_id: str) -> Node | None:
        """The coordinator of a group, if it is known how to reach it."""
        return self._node_of(self.state.placement.coordinator(group_id))

    def _node_of(self, broker_id: int) -> Node | None:
        if broker_id == self.identity.broker_id:
            return self._node
        row = self.state.row_of(broker_id)
        return None if row is None else _node_from(row)

    def nodes(self) -> list[Node]:
        """Every registered broker, every member that is away for a moment, and this one.

        So clients always have a broker to ask, and keep what they know of a broker that returns.
        """
        ids = {self.identity.broker_id, *self.state.reachable()}
        return [node for who in sorted(ids) if (node := self._node_of(who)) is not None]

    def vanished_nodes(self) -> list[Node]:
        """Brokers whose lease has ended lately, although they did not leave."""
        return [_node_from(row) for row in self.state.list_vanished(self._clock.elapsed_s())]

    def controller_id(self) -> int:
        """The controller, if it is registered."""
        row = self.state.controller
        return row.broker_id if row and self._node_of(row.broker_id) is not None else NO_BROKER

    def why_not_ready(self) -> list[str]:
        """Why clients should stay away."""
        if self.state.is_leaving:
            return ["the broker is leaving"]
        if not self.holds():
            return ["the broker has no lease: the metadata store does not answer"]
        return [] if self.state.is_member else ["the broker is not a member of the fleet yet"]


def _node_from(row: keys.BrokerRow) -> Node:
    return Node(row.broker_id, row.by_listener(), row.rack)
