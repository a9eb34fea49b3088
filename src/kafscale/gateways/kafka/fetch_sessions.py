"""Incremental fetch sessions: a consumer names its partitions once, then only what changes.

Here: the sessions and their rules (KIP-227). Partitions that got data move to the end of the
line, so that a small answer serves everyone in turn; those without news do not stand in it, so
that a fetch costs what it finds, not what the session has.
Next door: the Fetch API (apis/fetch.py), what it answers (fetch_answers.py).
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafscale.engine.partitions.reads import ReadResult
from kafscale.log.writer.lane import Lane
from kafscale.model.clock import Dice

NO_SESSION: Final = 0
FULL: Final = 0  # epoch of a request that begins a session
CLOSE: Final = -1  # epoch of a request that wants none
# Not all that becomes of a partition is told to those who watch it, only records and the end.
LOOK_EVERY_S: Final = 1.0
# Who has left without a word would be remembered, and its partitions watched, for ever.
LONGEST_IDLE_S: Final = 600.0
# Partitions need not exist to be named, and each takes its kilobyte.
MOST_PARTITIONS: Final = 100_000
_MOST_IN_ALL: Final = 500_000

PartitionKey = tuple[str | bytes, int]  # topic name or id, partition


class Asked(NamedTuple):
    """What a client wants of one partition."""

    topic: str | bytes
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int


class Told:
    """A partition in a session: what is asked, and what the client was last told.

    One that has been read to its end rests: it watches its lane, and the first news of it brings it
    back into the session's line.
    """

    __slots__ = ("_lane", "_session", "asked", "had_error", "high", "start")

    def __init__(self, session: "FetchSession", asked: Asked) -> None:
        """Tell of nothing yet."""
        self._session = session
        self._lane: Lane | None = None  # that it watches
        self.asked = asked
        self.high = self.start = -1
        self.had_error = False

    @property
    def key(self) -> PartitionKey:
        """Its name in the session."""
        return self.asked.topic, self.asked.partition

    def learns(self, part: ReadResult, anyway: bool) -> bool:
        """Whether the client is to be told of it: it is news, or everything is wanted anyway."""
        is_same = part.high == self.high and part.start == self.start
        if is_same and not (anyway or part.batches or part.error or self.had_error):
            return False
        self.high, self.start, self.had_error = part.high, part.start, part.error is not None
        return True

    def __call__(self, lane: Lane) -> None:
        """Its lane has news."""
        self.stand_up()
        self._session.join(self)

    def rest(self, lane: Lane) -> None:
        """It watches this lane now."""
        if self._lane is not lane:
            self.stand_up()
            self._lane = lane

    def stand_up(self) -> None:
        """Watch nothing any more."""
        if self._lane is not None:
            self._lane.watchers.discard(self)
            self._lane = None


class FetchSession:
    """One consumer's standing order.

    Of its partitions only those in the line are looked at; the others are known to have nothing.
    """

    def __init__(self, session_id: int, by_id: bool, epoch: int = 1) -> None:
        """Begin without partitions."""
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = epoch
        self.partitions: dict[PartitionKey, Told] = {}
        self._line: OrderedDict[PartitionKey, Told] = OrderedDict()
        self._untold: dict[PartitionKey, Told] = {}  # at rest, but for a word to the client
        self._looked_s = -math.inf  # when all were last in the line
        self.used_s = math.inf  # not yet
        self._joined: asyncio.Future[None] | None = None

    def update(self, asked: Iterable[Asked], forgotten: Iterable[PartitionKey]) -> None:
        """Add, change and remove partitions."""
        for key in forgotten:
            told = self.partitions.pop(key, None)
            self._line.pop(key, None)
            self._untold.pop(key, None)
            if told is not None:
                told.stand_up()
        for one in asked:
            key = (one.topic, one.partition)
            told = self.partitions.get(key)
            if told is None:
                told = self.partitions[key] = Told(self, one)
            else:
                told.asked = one
                told.stand_up()
            self._line.setdefault(key, told)

    def advance(self) -> None:
        """Expect the next request."""
        self.epoch = 1 if self.epoch == 0x7FFFFFFF else self.epoch + 1

    # -- the line ----------------------------------------------------------------------------

    def line_up(self, now_s: float) -> list[Told]:
        """Who is to be looked at now, in this order; now and then all are."""
        self.used_s = now_s
        self._line.update(self._untold)
        self._untold.clear()
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            for key, told in self.partitions.items():
                self._line.setdefault(key, told)
        return list(self._line.values())

    def join(self, told: Told) -> None:
        """There is news of a partition that was at rest."""
        key = told.key
        if self.partitions.get(key) is told:
            self._untold.pop(key, None)
            self._line.setdefault(key, told)
            if self._joined is not None and not self._joined.done():
                self._joined.set_result(None)

    def served(self, told: Told) -> None:
        """Who got data goes to the end of the line, if it still stands in it."""
        if told.key in self._line:
            self._line.move_to_end(told.key)

    def rest(self, told: Told, lane: Lane) -> None:
        """A partition has nothing for the client until its lane, which it watches, has news."""
        key = told.key
        if self.partitions.get(key) is not told:
            lane.watchers.discard(told)  # forgotten meanwhile
            return
        told.rest(lane)
        self._line.pop(key, None)
        if (told.high, told.start) != (lane.high, lane.start):
            self._untold[key] = told

    @property
    def all_rest(self) -> bool:
        """Whether there is nobody to look at."""
        return not self._line

    async def news(self, timeout_s: float) -> None:
        """Return when somebody stands in the line, or after a while."""
        if self.all_rest:
            if self._joined is None or self._joined.done():
                self._joined = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._joined,), timeout=timeout_s)

    def end(self) -> None:
        """Watch nothing any more."""
        for told in self.partitions.values():
            told.stand_up()


class FetchSessions:
    """All sessions of a broker; the one idle longest makes room for a new one."""

    def __init__(self, dice: Dice, slots: int = 1000) -> None:
        """Keep at most `slots` sessions."""
        self._dice = dice
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        """Count the sessions."""
        return len(self._sessions)

    def create(self, by_id: bool) -> FetchSession:
        """Begin a session."""
        while True:
            session_id = int.from_bytes(self._dice.token(4), "big") & 0x7FFFFFFF
            if session_id != NO_SESSION and session_id not in self._sessions:
                break
        in_all = sum(len(session.partitions) for session in self._sessions.values())
        while len(self._sessions) >= self._slots or in_all > _MOST_IN_ALL:
            _, idle_longest = self._sessions.popitem(last=False)
            in_all -= len(idle_longest.partitions)
            idle_longest.end()
        session = self._sessions[session_id] = FetchSession(session_id, by_id)
        return session

    def find(self, session_id: int) -> FetchSession | None:
        """The session, which counts as used now."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._sessions.move_to_end(session_id)
        return session

    def let_go_idle(self, now_s: float) -> None:
        """End the sessions that nobody has used for long."""
        while self._sessions:
            idle_longest = next(iter(self._sessions.values()))
            if now_s - idle_longest.used_s < LONGEST_IDLE_S:
                return
            self.close(idle_longest.session_id)

    def close(self, session_id: int) -> None:
        """End a session."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()
