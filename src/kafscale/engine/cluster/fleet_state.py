"""A broker among others: what it knows of the fleet, and what follows for its logs and groups.

Here: taking up news, and answering the questions of membership.py from memory. The fleet's
members are one key with a rising generation; whom a log belongs to follows from it by arithmetic.
A log that was gained is opened only when the generation is *settled*: every other broker has let
go of what it lost by it, or is gone. What this broker had and keeps it never stops serving.
Next door: lease, registration and settling (fleet.py), who writes the members (controller.py),
the arithmetic (placement.py).

Nothing here makes writing safe; the log protocol and the claims of groups do. It makes brokers
agree, and keeps high watermarks from going back when a log changes hands.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import structlog

from kafscale.engine.cluster.identity import Identity
from kafscale.engine.cluster.membership import ClusterEvents, Node
from kafscale.engine.cluster.placement import NOBODY, Placement
from kafscale.metadata import keys
from kafscale.metadata.lease import Lease
from kafscale.metadata.store import Change, Entry, Listing
from kafscale.model.clock import Clock
from kafscale.model.errors import CorruptObject, NotTheCoordinator, NotTheOwner

logger = structlog.get_logger()

_Kind = TypeVar("_Kind", bound=msgspec.Struct)

PATIENCE_S: Final = 2.0  # how long requests wait for a log that is about to be ours


class FleetState:
    """The fleet as this broker knows it. Questions about logs and groups need no store."""

    has_peers = True

    def __init__(self, identity: Identity, clock: Clock) -> None:
        """Know nobody yet."""
        self.identity = identity
        self.incarnation = identity.epoch
        self.lease: Lease | None = None
        self.is_leaving = False
        self.node = Node(identity.broker_id, {})
        self.placement = Placement(keys.MemberList(generation=0))
        self.brokers: dict[int, keys.BrokerRow] = {}
        self.controller: keys.ControllerRow | None = None
        self.learned_s = 0.0  # when the newest generation was heard of
        self.events: ClusterEvents = _NoEvents()  # until `start` gives the engine's
        self.handing_over: list[asyncio.Future[None]] = []
        self._clock = clock
        # The generations since the last settled one, that one first; None: none was ever settled.
        self._since: list[Placement] | None = None
        # Each goes with whoever listens; they are rung in the order they came.
        self._news: WeakKeyDictionary[asyncio.Event, None] = WeakKeyDictionary()
        self._settled = asyncio.Event()

    # -- news --------------------------------------------------------------------------------

    def bell(self) -> asyncio.Event:
        """An event that is set with every piece of news."""
        rung = asyncio.Event()
        rung.set()
        self._news[rung] = None
        return rung

    def ring(self) -> None:
        """Let everyone who listens look again."""
        for rung in list(self._news):
            rung.set()

    def take_brokers(self, news: Listing | Change) -> None:
        """Registrations have come, changed or gone."""
        if isinstance(news, Listing):
            self.brokers = {}
        else:
            gone = {key.removeprefix(keys.BROKERS) for key in news.removed}
            self.brokers = {who: row for who, row in self.brokers.items() if str(who) not in gone}
        for row in readable(keys.BrokerRow, _written(news)):
            self.brokers[row.broker_id] = row
        self.ring()

    def take_controller(self, news: Listing | Change) -> None:
        """The controller has come or gone."""
        self.controller = None
        for row in readable(keys.ControllerRow, _written(news)):
            self.controller = row
        self.ring()

    def take_members(self, news: Listing | Change) -> None:
        """There may be a new generation."""
        for row in readable(keys.MemberList, _written(news)):
            self._take_generation(row)

    def _take_generation(self, members: keys.MemberList) -> None:
        before, now = self.placement, Placement(members)
        if now.generation <= before.generation:
            return
        self.placement = now
        self.learned_s = self._clock.elapsed_s()
        self._settled.clear()
        if self._since is not None and now.previous == before.generation:
            self._since.append(now)
        else:
            self._since = None  # somebody may have owned in between what seems to be ours still
        logger.info("members_changed", generation=now.generation, brokers=len(now.brokers))
        self.handing_over.append(self.events.ownership_changed())
        self.ring()

    def settle(self, generation: int) -> None:
        """Everyone else has let go of what is ours by this generation."""
        if generation == self.placement.generation and self.lease is not None:
            self._since = [self.placement]
            self._settled.set()
            self.events.logs_ready()
            self.ring()

    def lose(self) -> None:
        """The lease is gone: nothing is ours until the next generation with us in it."""
        self.lease = None
        self._since = None
        self._settled.clear()
        self.events.lease_lost()

    # -- questions ---------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Of the members."""
        return self.placement.generation

    @property
    def is_settled(self) -> bool:
        """Whether all that is ours may be opened."""
        return self._settled.is_set()

    @property
    def is_member(self) -> bool:
        """Whether the newest generation counts on us."""
        return self.placement.has(self.identity.broker_id, self.incarnation)

    @property
    def is_controller(self) -> bool:
        """Whether we are it, as far as we know."""
        ours = keys.ControllerRow(broker_id=self.identity.broker_id, incarnation=self.incarnation)
        return self.controller == ours and self.holds()

    def holds(self) -> bool:
        """Whether our lease surely holds."""
        return self.lease is not None and self.lease.remaining_s() > 0

    def may_open(self, folder: str) -> bool:
        """Whether a log is ours and nobody else's."""
        since, who = self._since, self.identity.broker_id
        if since is None or not self.is_member or not self.holds():
            return False
        return all(one.owner(folder) == who for one in since)

    def may_coordinate(self, group_id: str) -> bool:
        """Whether a group is ours and nobody else's."""
        since, who = self._since, self.identity.broker_id
        if since is None or not self.is_member or not self.holds():
            return False
        return all(one.coordinator(group_id) == who for one in since)

    async def require_log(self, folder: str) -> None:
        """Raise NotTheOwner unless the log may be opened, now or in a moment."""
        if self.may_open(folder):
            return
        if self._is_coming(self.placement.owner(folder)):
            await self._patience()
        if not self.may_open(folder):
            raise NotTheOwner(f"the log {folder} is not this broker's")

    async def require_group(self, group_id: str) -> None:
        """Raise NotTheCoordinator unless the group is ours, now or in a moment."""
        if self.may_coordinate(group_id):
            return
        if self._is_coming(self.placement.coordinator(group_id)):
            await self._patience()
        if not self.may_coordinate(group_id):
            raise NotTheCoordinator(f"group {group_id!r} is not this broker's")

    def _is_coming(self, who: int) -> bool:
        return who == self.identity.broker_id and self.is_member and self.holds()

    async def _patience(self) -> None:
        """Wait for the hand-over, all who wait until the same moment."""
        left_s = self.learned_s + PATIENCE_S - self._clock.elapsed_s()
        if left_s > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self._settled.wait()
            except TimeoutError:
                pass  # whoever asked is told that it is not ours, and asks again

    def leader_of(self, folder: str) -> int:
        """The owner, if it lives."""
        who = self.placement.owner(folder)
        return who if self._node(who) is not None else NOBODY

    def coordinator_of(self, group_id: str) -> Node | None:
        """The coordinator, if it lives."""
        return self._node(self.placement.coordinator(group_id))

    def _node(self, who: int) -> Node | None:
        if who == self.identity.broker_id:
            return self.node
        row = self.brokers.get(who)
        return None if row is None else Node(who, row.by_listener(), row.rack)

    def nodes(self) -> list[Node]:
        """Everyone registered, and this broker, so that clients always have somebody to ask."""
        ids = {self.identity.broker_id, *self.brokers}
        return [node for who in sorted(ids) if (node := self._node(who)) is not None]

    def controller_id(self) -> int:
        """The controller, if it lives."""
        who = NOBODY if self.controller is None else self.controller.broker_id
        return who if self._node(who) is not None else NOBODY

    def why_not_ready(self) -> list[str]:
        """Why clients should stay away."""
        if self.is_leaving:
            return ["the broker is leaving"]
        if not self.holds():
            return ["the broker has no lease: the metadata store does not answer"]
        return [] if self.is_member else ["the broker is not a member of the fleet yet"]


def readable(kind: type[_Kind], entries: Iterable[Entry]) -> Iterator[_Kind]:
    """What the entries say; one that is no longer readable must not stop a whole fleet."""
    for entry in entries:
        try:
            yield keys.decode(kind, entry.value)
        except CorruptObject as problem:
            logger.error("fleet_unreadable", key=entry.key, error=str(problem))


def _written(news: Listing | Change) -> list[Entry]:
    return news.entries if isinstance(news, Listing) else news.written


class _NoEvents:
    """A broker that has nothing open yet."""

    def ownership_changed(self) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def lease_lost(self) -> None:
        pass

    def logs_ready(self) -> None:
        pass
