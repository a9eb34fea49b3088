"""Share sessions: what a member of a share group reads from this broker, and has of it.

Here: sessions by group and member, and their partitions. A session ends with its connection: then
all that its member has not acknowledged goes to other members.
Next door: sessions of ordinary fetches (fetch_sessions.py), taking records (shares/acquiring.py),
what a partition does with its consumers (engine/subscriptions).
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kafscale.engine.subscriptions.attached import Attached
from kafscale.engine.subscriptions.ports import Receiver
from kafscale.model.errors import (
    InvalidShareSessionEpoch,
    KafscaleError,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from kafscale.subscriptions.events import MessageDelivery

FIRST_EPOCH: Final = 0
LAST_EPOCH: Final = -1
MOST_SESSIONS: Final = 2_000  # of a broker
MOST_PARTITIONS: Final = 100_000  # of all sessions of a broker
_HIGHEST_EPOCH: Final = 0x7FFFFFFF

SessionKey = tuple[str, str]  # group and member
SharePlace = tuple[bytes, int]  # topic id and partition


class SharePart(Receiver):
    """One partition of a session."""

    __slots__ = ("attached", "is_denied", "is_wanted", "place", "problem", "session", "taken")

    def __init__(self, session: "ShareSession", place: SharePlace) -> None:
        self.session = session
        self.place = place
        self.attached: Attached | None = None  # None: before the first fetch, or after a loss
        self.is_wanted = True  # False: the member reads it no more, and may still have some of it
        self.is_denied = False  # True: the member may not read it
        self.problem: KafscaleError | None = None  # for the next answer
        self.taken: list[MessageDelivery] = []  # for the next answer

    def deliver(self, deliveries: Sequence[MessageDelivery], epoch: int) -> None:
        """Take as much as the request has room for; the rest goes to others."""
        for delivery in deliveries:
            kept = self.session.room_for(delivery)
            if kept < delivery.next and self.attached is not None:
                self.attached.give_back(kept, delivery.next)
            if kept > delivery.first:
                self.taken.append(delivery._replace(next=kept))
        self.session.took()

    def activity(self, is_active: bool) -> None:
        """All members of a share group are active."""

    def disconnected(self, problem: KafscaleError | None) -> None:
        """The partition has gone, or a tool has reset the group's offset."""
        self.attached = None
        self.taken.clear()
        self.problem = problem
        self.session.took()

    def detach(self) -> None:
        """Hand back all that the member has of it."""
        if self.attached is not None:
            self.attached.detach()
            self.attached = None


class ShareSession:
    """What one member reads from this broker."""

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.epoch = 1  # of the next request
        self.parts: dict[SharePlace, SharePart] = {}
        self.room = Room()
        self.busy = asyncio.Lock()  # one request takes records at a time
        self.is_closed = False

    def room_for(self, delivery: MessageDelivery) -> int:
        """The offset up to which a delivery fits into the answer."""
        return self.room.take(delivery)

    def took(self) -> None:
        """Something has come, or gone."""
        room = self.room
        if room.is_full:
            self.stop()
        room.wake()

    def wanted(self) -> list[SharePart]:
        """The partitions that the member reads, and may read."""
        return [part for part in self.parts.values() if part.is_wanted and not part.is_denied]

    def deny(self, is_denied: Callable[[bytes], bool]) -> None:
        """Hand back what the member has of topics that it may not read any more."""
        answers = {topic_id: is_denied(topic_id) for topic_id in {one for one, _ in self.parts}}
        for part in self.parts.values():
            part.is_denied = answers[part.place[0]]
            if part.is_denied:
                part.detach()
                part.problem, part.taken = None, []

    def stop(self) -> None:
        """Take nothing more."""
        for part in self.parts.values():
            if part.attached is not None:
                part.attached.ask(0)

    def turn(self) -> None:
        """Let another partition be the first one of the next answer."""
        if self.parts:
            first = next(iter(self.parts))
            self.parts[first] = self.parts.pop(first)

    def close(self) -> None:
        """Hand back everything."""
        self.is_closed = True
        for part in self.parts.values():
            part.detach()
        self.parts.clear()
        self.room.wake()


class Room:
    """How much more fits into the answer to the request at hand."""

    def __init__(self, records: int = 0, size: int = 0, *, is_exact: bool = False) -> None:
        """`is_exact`: entries are cut, so that there are never more records than asked for."""
        self.records = records
        self.size = size
        self.is_exact = is_exact
        self.taken_bytes = 0
        self._is_over = False  # something did not fit any more
        self._last: object = None  # batch that was counted
        self._wake: Callable[[], None] = _no_one

    @property
    def is_full(self) -> bool:
        """Whether nothing more is taken."""
        return self._is_over or self.records <= 0 or self.taken_bytes >= self.size

    def take(self, delivery: MessageDelivery) -> int:
        """Count a delivery; gives the offset up to which it fits."""
        source = delivery.source
        assert isinstance(source, memoryview)
        size = 0 if source is self._last else len(source)  # records of a batch may come in pieces
        # The first batch is taken however large it is, so that every member gets on.
        self._is_over |= self.taken_bytes > 0 and self.taken_bytes + size > self.size
        if self.is_full:
            return delivery.first
        end = delivery.next
        if self.is_exact:
            end = min(end, delivery.first + self.records)
        self.records -= end - delivery.first
        self.taken_bytes += size
        self._last = source
        return end

    def on_news(self, wake: Callable[[], None]) -> None:
        """Call this whenever something has come or gone."""
        self._wake = wake

    def wake(self) -> None:
        """Something has come or gone."""
        self._wake()


class ShareSessions:
    """All share sessions of a broker."""

    def __init__(self, most: int = MOST_SESSIONS, most_partitions: int = MOST_PARTITIONS) -> None:
        self._most = most
        self._most_partitions = most_partitions
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        """Count them."""
        return len(self._sessions)

    def begin(self, key: SessionKey) -> ShareSession:
        """Begin a session; one that the member has had ends."""
        self.end(key)
        if len(self._sessions) >= self._most:
            raise ShareSessionLimitReached(f"this broker has {len(self._sessions)} share sessions")
        session = self._sessions[key] = ShareSession(key)
        return session

    def places(self, key: SessionKey) -> list[SharePlace]:
        """What a member reads from this broker, or still has of it."""
        session = self._sessions.get(key)
        return [] if session is None else list(session.parts)

    def find(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session of a request, which is in order by its epoch."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound("the member has no share session here")
        if epoch == LAST_EPOCH:
            return session
        if epoch != session.epoch:
            raise InvalidShareSessionEpoch(f"epoch {session.epoch} is next, not {epoch}")
        session.epoch = 1 if epoch == _HIGHEST_EPOCH else epoch + 1
        return session

    def read(self, session: ShareSession, places: Iterable[SharePlace]) -> None:
        """The member reads these partitions from now on."""
        held = sum(len(one.parts) for one in self._sessions.values())
        for place in places:
            part = session.parts.get(place)
            if part is None:
                if held >= self._most_partitions:
                    raise ShareSessionLimitReached("share sessions have too many partitions")
                held += 1
                part = session.parts[place] = SharePart(session, place)
            part.is_wanted = True

    def end(self, key: SessionKey) -> None:
        """End a session."""
        session = self._sessions.pop(key, None)
        if session is not None:
            session.close()

    def end_one(self, session: ShareSession) -> None:
        """End this session, unless the member has begun another one meanwhile."""
        if self._sessions.get(session.key) is session:
            del self._sessions[session.key]
        session.close()


def _no_one() -> None:
    """No request waits for news."""
