"""Transactions whose records wait in memory for their commit: the state, and what must not be.

In this room: plain data and judgements.
Next door: the steps and the search (buffered_steps.py), transactions as they are otherwise
(transaction_state.py), whose rules count here, too.

One transactional id whose client gets an epoch for each transaction, two lanes in one log or in
two, two brokers that both take themselves for the owner of everything. A session is one opening of
a log by one broker. Records are acknowledged from the memory of a session.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

COMMIT, ABORT = "C", "A"
ONGOING, STAGED = "O", "S"
AT_REST: Final = "Eca"  # nothing yet; committed and done; aborted and done
LANES: Final = (0, 1)
NAMES: Final = "AB"

TORN: Final = "TORN: a transaction is committed in one lane and aborted in another"
LOST_RECORD: Final = "LOST: an acknowledged record is missing in a committed transaction"
LOST_COMMIT: Final = "LOST: an acknowledged commit is not there"
ABORTED_READ: Final = "ABORTED READ: what was not to be committed is"
HANGING: Final = "HANGING: the brokers alone do not come to an end"


@dataclass(frozen=True)
class Rules:
    """B1 to B6 of docs/internals/transactions.md."""

    staged_first: bool = True  # B1
    same_session: bool = True  # B2
    one_object: bool = True  # B3
    chain_decides: bool = True  # B4
    first_marker_counts: bool = True  # B4, its second half
    all_kept: bool = True  # B5
    kept_in_bucket: bool = True  # B6

    def without(self, *names: str) -> "Rules":
        return replace(self, **dict.fromkeys(names, False))


@dataclass(frozen=True)
class Bounds:
    transactions: int = 1
    one_log: bool = True
    crashes: int = 1
    timeouts: int = 0
    losses: int = 0
    openings: int = 3
    gives_up: bool = True

    def log_of(self, lane: int) -> int:
        return 0 if self.one_log else lane


class Entry(NamedTuple):
    transaction: int
    turn: int
    ends: str = ""  # "": a record; else the marker of `turn`
    epoch: int = 0


class Row(NamedTuple):
    epoch: int = 0
    state: str = "E"
    ended: int = -1
    turn: int = 0
    places: frozenset[int] = frozenset()  # lanes
    sessions: frozenset[tuple[int, int]] = frozenset()  # (log, session) that hold records
    kept: frozenset[tuple[int, int]] = frozenset()  # those that have written all of them


class Broker(NamedTuple):
    sessions: tuple[int, int] = (0, 0)  # by log; 0: not open, or out of date
    held: tuple[tuple[Entry, ...], ...] = ((), ())  # by lane
    admitted: frozenset[tuple[int, int, int]] = frozenset()  # lane, epoch, turn
    plan: tuple[int, str, int] | None = None  # what it is about to write: turn, outcome, epoch


class Client(NamedTuple):
    transaction: int = 1
    phase: str = "begin"
    epoch: int = 0


class State(NamedTuple):
    row: Row = Row()
    lanes: tuple[tuple[Entry, ...], ...] = ((), ())
    brokers: tuple[Broker, ...] = (Broker(), Broker())
    client: Client = Client()
    sent: frozenset[tuple[str, int, int, int]] = frozenset()  # what, transaction, lane, epoch
    acked: frozenset[tuple[int, int]] = frozenset()  # transaction, lane
    told: frozenset[tuple[int, str]] = frozenset()  # transaction, outcome
    crashes: int = 0
    timeouts: int = 0
    losses: int = 0
    openings: int = 0


def outcome_in(entries: tuple[Entry, ...], turn: int) -> str:
    """How a chain says that a turn has ended: the first marker counts."""
    return next((entry.ends for entry in entries if entry.ends and entry.turn == turn), "")


def open_epoch(entries: tuple[Entry, ...]) -> int:
    """The epoch of the records that no marker has ended; -1: there are none."""
    found = -1
    for entry in entries:
        found = -1 if entry.ends else entry.epoch
    return found


def outcomes(entries: tuple[Entry, ...]) -> dict[int, str]:
    """By transaction, for readers: a marker ends all records before it."""
    ended: dict[int, str] = {}
    waiting: list[int] = []
    for entry in entries:
        if not entry.ends:
            waiting.append(entry.transaction)
            continue
        ended |= dict.fromkeys(waiting, entry.ends)
        waiting = []
    return ended | dict.fromkeys(waiting, "?")


def judge(state: State, bounds: Bounds) -> str:
    """The first promise that a state breaks."""
    seen = [outcomes(entries) for entries in state.lanes]
    for number in range(1, bounds.transactions + 1):
        found = {lane[number] for lane in seen if number in lane}
        if {COMMIT, ABORT} <= found:
            return TORN
        if COMMIT in found:
            if ("end C", number) not in {(what, one) for what, one, _, _ in state.sent}:
                return ABORTED_READ
            if (number, ABORT) in state.told:
                return ABORTED_READ
            if any(one == number and one not in seen[lane] for one, lane in state.acked):
                return LOST_RECORD
        if (number, COMMIT) in state.told and found != {COMMIT}:
            return LOST_COMMIT
    return ""
