"""Incremental fetch sessions: a consumer names its partitions once, then only what changes.

Here: the sessions and their rules (KIP-227). Partitions that got data move to the end of the
line, so that a small answer serves everyone in turn.
Next door: the Fetch API (apis/fetch.py).
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafscale.engine.reads import Part
from kafscale.model.clock import Dice

NO_SESSION: Final = 0
FULL: Final = 0  # epoch of a request that begins a session
CLOSE: Final = -1  # epoch of a request that wants none

PartitionKey = tuple[str | bytes, int]  # topic name or id, partition


class Asked(NamedTuple):
    """What a client wants of one partition."""

    topic: str | bytes
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int


@dataclass(slots=True)
class Told:
    """A partition in a session: what is asked, and what the client was last told."""

    asked: Asked
    high: int = -1
    start: int = -1
    had_error: bool = False

    def learns(self, part: Part, anyway: bool) -> bool:
        """Whether the client is to be told of it: it is news, or everything is wanted anyway."""
        is_same = part.high == self.high and part.start == self.start
        if is_same and not (anyway or part.batches or part.error or self.had_error):
            return False
        self.high, self.start, self.had_error = part.high, part.start, part.error is not None
        return True


@dataclass(slots=True)
class FetchSession:
    """One consumer's standing order."""

    session_id: int
    by_id: bool
    epoch: int = 1
    partitions: OrderedDict[PartitionKey, Told] = field(default_factory=OrderedDict)

    def update(self, asked: list[Asked], forgotten: list[PartitionKey]) -> None:
        """Add, change and remove partitions."""
        for key in forgotten:
            self.partitions.pop(key, None)
        for one in asked:
            key = (one.topic, one.partition)
            told = self.partitions.get(key)
            if told is None:
                self.partitions[key] = Told(one)
            else:
                told.asked = one

    def served(self, one: Asked) -> None:
        """Who got data goes to the end of the line, if it still stands in it."""
        key = (one.topic, one.partition)
        if key in self.partitions:
            self.partitions.move_to_end(key)

    def advance(self) -> None:
        """Expect the next request."""
        self.epoch = 1 if self.epoch == 0x7FFFFFFF else self.epoch + 1


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
        while len(self._sessions) >= self._slots:
            self._sessions.popitem(last=False)
        session = self._sessions[session_id] = FetchSession(session_id, by_id)
        return session

    def find(self, session_id: int) -> FetchSession | None:
        """The session, which counts as used now."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int) -> None:
        """End a session."""
        self._sessions.pop(session_id, None)
