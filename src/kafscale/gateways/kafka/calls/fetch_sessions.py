"""Incremental fetch sessions (KIP-227): a consumer names its partitions once, then what changes.

Here: the sessions, their cached partitions and their rules. A cached partition is *active* or
*parked*. A fetch looks at the active ones only. A partition that was read to its end is parked: it
subscribes to its partition, and the first news makes it active again. So a fetch costs what it
finds, not what the session holds. A partition that gave data moves to the end of the active ones,
so that small answers serve all partitions in turn.
Next door: the Fetch API (apis/fetch.py), what it answers (records/fetch_answers.py).
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kafscale.engine.partitions.partitions import Partitions
from kafscale.engine.partitions.reads import PartitionRead, ReadResult
from kafscale.engine.partitions.subscriptions import Subscription
from kafscale.model.clock import Dice

NO_SESSION: Final = 0
FULL: Final = 0  # epoch of a request that begins a session
CLOSE: Final = -1  # epoch of a request that wants none
# A subscription tells of records and of the end of a log, not of everything: not of a log start
# that moved, for example. So all partitions become active now and then.
ACTIVATE_ALL_EVERY_S: Final = 1.0
# A client that disappears does not close its session; after this time the broker does.
LONGEST_IDLE_S: Final = 600.0
# A session that was used within this time makes no room for another: Kafka's default.
KEPT_S: Final = 120.0
# Clients may name partitions that do not exist, and each takes about half a kilobyte.
MOST_PARTITIONS: Final = 20_000
MOST_IN_ALL: Final = 250_000

CachedKey = tuple[str | bytes, int]  # topic name or id, partition


class RequestedPartition(NamedTuple):
    """What a client wants of one partition."""

    topic: str | bytes
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int


class CachedPartition:
    """A partition in a session: what the client wants of it, and what it was last told."""

    __slots__ = ("_session", "_subscription", "had_error", "high", "requested", "start")

    def __init__(self, session: "FetchSession", requested: RequestedPartition) -> None:
        self._session = session
        self._subscription: Subscription | None = None
        self.requested = requested
        self.high = self.start = -1
        self.had_error = False

    @property
    def key(self) -> CachedKey:
        """Its name in the session."""
        return self.requested.topic, self.requested.partition

    def must_respond(self, result: ReadResult, *, full: bool) -> bool:
        """Whether the answer has to name this partition, and remember what it says.

        An incremental answer names it if it has data, an error, or other bounds than before.
        """
        is_same = result.high == self.high and result.start == self.start
        if is_same and not (full or result.batches or result.error or self.had_error):
            return False
        self.high, self.start, self.had_error = result.high, result.start, result.error is not None
        return True

    def activate(self) -> None:
        """Its subscription has news."""
        self._session.activate(self)

    def watch(self, partitions: Partitions, position: PartitionRead) -> Subscription | None:
        """Subscribe at a position; None if there is something to read already."""
        subscription = self._subscription
        if subscription is None:
            subscription = self._subscription = partitions.subscribe(position, self.activate)
        else:
            subscription.seek(position)
        return subscription if subscription.watch() else None

    def unsubscribe(self) -> None:
        """Stop watching."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None


class FetchSession:
    """One consumer's session: its cached partitions, and the epoch of its next request."""

    def __init__(self, session_id: int, by_id: bool, epoch: int = 1, *, now_s: float = 0.0) -> None:
        """Begin without partitions. `by_id`: the client names topics by their ids."""
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = epoch
        self.partitions: dict[CachedKey, CachedPartition] = {}
        self._active: OrderedDict[CachedKey, CachedPartition] = OrderedDict()
        # Parked, but their bounds have changed since the client was last told.
        self._unreported: dict[CachedKey, CachedPartition] = {}
        self._all_active_s = -math.inf  # when all partitions were last active
        self.used_s = now_s
        self._activated: asyncio.Future[None] | None = None
        self._is_closed = False

    def update(
        self, requested: Iterable[RequestedPartition], forgotten: Iterable[CachedKey]
    ) -> None:
        """Add, change and remove partitions."""
        for key in forgotten:
            cached = self.partitions.pop(key, None)
            self._active.pop(key, None)
            self._unreported.pop(key, None)
            if cached is not None:
                cached.unsubscribe()
        for wanted in requested:
            key = (wanted.topic, wanted.partition)
            cached = self.partitions.get(key)
            if cached is None:
                cached = self.partitions[key] = CachedPartition(self, wanted)
            else:
                cached.requested = wanted
                cached.unsubscribe()
            self._active.setdefault(key, cached)

    def advance(self) -> None:
        """Expect the next request."""
        self.epoch = 1 if self.epoch == 0x7FFFFFFF else self.epoch + 1

    # -- active and parked partitions --------------------------------------------------------

    def list_active(self, now_s: float) -> list[CachedPartition]:
        """The partitions that a fetch looks at now, in this order; now and then all of them."""
        self.used_s = now_s
        self._active.update(self._unreported)
        self._unreported.clear()
        if now_s - self._all_active_s >= ACTIVATE_ALL_EVERY_S:
            self._all_active_s = now_s
            for key, cached in self.partitions.items():
                self._active.setdefault(key, cached)
        return list(self._active.values())

    def activate(self, cached: CachedPartition) -> None:
        """Have a parked partition looked at, and wake the fetch that waits."""
        key = cached.key
        if self.partitions.get(key) is cached:
            self._unreported.pop(key, None)
            self._active.setdefault(key, cached)
            if self._activated is not None and not self._activated.done():
                self._activated.set_result(None)

    def move_to_end(self, cached: CachedPartition) -> None:
        """Let the other active partitions come first next time."""
        if cached.key in self._active:
            self._active.move_to_end(cached.key)

    def park(
        self, cached: CachedPartition, partitions: Partitions, position: PartitionRead
    ) -> None:
        """Park a partition that has nothing at the position; otherwise it stays active."""
        key = cached.key
        is_cached = self.partitions.get(key) is cached and not self._is_closed
        if not is_cached or cached.requested.offset != position.offset:
            return  # the session has changed while we read
        subscription = cached.watch(partitions, position)
        if subscription is not None:
            self._active.pop(key, None)
            if (cached.high, cached.start) != subscription.bounds():
                self._unreported[key] = cached

    @property
    def all_parked(self) -> bool:
        """Whether no partition is active."""
        return not self._active

    async def wait_for_active(self, timeout_s: float) -> None:
        """Return when a partition is active, or after the time."""
        if self.all_parked:
            if self._activated is None or self._activated.done():
                self._activated = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._activated,), timeout=timeout_s)

    def close(self) -> None:
        """End all subscriptions."""
        self._is_closed = True
        for cached in self.partitions.values():
            cached.unsubscribe()


class FetchSessions:
    """The session cache of a broker.

    A session that was used lately keeps its place (KIP-227). A client that finds no room gets no
    session: it names its partitions in each request.
    """

    def __init__(self, dice: Dice, slots: int = 1000) -> None:
        """Keep at most `slots` sessions."""
        self._dice = dice
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # used longest ago first
        self._partition_count = 0

    def __len__(self) -> int:
        """Count the sessions."""
        return len(self._sessions)

    def create(
        self,
        by_id: bool,
        requested: Sequence[RequestedPartition],
        now_s: float,
        later: int = 0,
    ) -> FetchSession | None:
        """Begin a session with these partitions; None if there is no room for it.

        `later`: how many more will be added right after.
        """
        count = len(requested) + later
        if count > MOST_PARTITIONS:
            return None
        self._make_room(now_s, slots=1, partitions=count)
        if not self._has_room(slots=1, partitions=count):
            return None
        while True:
            session_id = int.from_bytes(self._dice.token(4), "big") & 0x7FFFFFFF
            if session_id != NO_SESSION and session_id not in self._sessions:
                break
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now_s=now_s)
        session.update(requested, ())
        self._partition_count += len(session.partitions)
        return session

    def update(
        self,
        session: FetchSession,
        requested: Sequence[RequestedPartition],
        forgotten: Iterable[CachedKey],
        now_s: float,
    ) -> bool:
        """Add, change and remove partitions of a session; it ends if there is no room for them."""
        session.used_s = now_s
        if not self._may_grow(session, len(requested)):  # if all were new; as a rule most are not
            named = {(partition.topic, partition.partition) for partition in requested}
            added = len(named - session.partitions.keys())
            self._make_room(now_s, slots=0, partitions=added)
            if not self._may_grow(session, added):
                self.close(session.session_id)
                return False
        before = len(session.partitions)
        session.update(requested, forgotten)
        self._partition_count += len(session.partitions) - before
        return True

    def _may_grow(self, session: FetchSession, added: int) -> bool:
        fits = len(session.partitions) + added <= MOST_PARTITIONS
        return fits and self._has_room(slots=0, partitions=added)

    def _has_room(self, *, slots: int, partitions: int) -> bool:
        fits = self._partition_count + partitions <= MOST_IN_ALL
        return fits and len(self._sessions) + slots <= self._slots

    def _make_room(self, now_s: float, *, slots: int, partitions: int) -> None:
        """End sessions that were not used lately, as far as room is needed."""
        while self._sessions and not self._has_room(slots=slots, partitions=partitions):
            idle_longest = next(iter(self._sessions.values()))
            if now_s - idle_longest.used_s < KEPT_S:
                return
            self.close(idle_longest.session_id)

    def find(self, session_id: int) -> FetchSession | None:
        """Look up a session, which counts as used now."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._sessions.move_to_end(session_id)
        return session

    def close_idle(self, now_s: float) -> None:
        """End the sessions that their clients have not used for long."""
        while self._sessions:
            idle_longest = next(iter(self._sessions.values()))
            if now_s - idle_longest.used_s < LONGEST_IDLE_S:
                return
            self.close(idle_longest.session_id)

    def close(self, session_id: int) -> None:
        """End a session."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)
            session.close()
