"""One transactional id over two lanes: its row, the lanes, the brokers, the client.

In this room: the state, the rules that can be switched off, and what must never be.
Next door: the steps (transaction_steps.py), what readers of one lane see (transaction_lane.py).

Ground truth: a record has the number of the client's transaction. Only the judgement looks at it.
An append is atomic, and fails for a broker that does not know the newest segment: that part is
what test_log_protocol.py searches. Messages stay: they come late, and again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

LANES: Final = (0, 1)
NAMES: Final = "AB"
EMPTY, ONGOING = "E", "O"
COMMIT, ABORT = "C", "A"  # decided; in small letters: done
AT_REST: Final = "Eca"
EPOCHS: Final = 100  # of one producer id; above them are those of the next one

TORN: Final = "TORN: a transaction is committed in one lane and aborted in another"
LOST: Final = "LOST: a commit was acknowledged, and a record is not committed"
ABORTED_READ: Final = "ABORTED READ: what was not to be committed is"
MIXED: Final = "MIXED: one marker ends two transactions"
DUPLICATE: Final = "DUPLICATE: a record is there twice"
HANGING: Final = "HANGING: a transaction stays open"
OFFSETS: Final = "OFFSETS: a transaction is done without its offsets"


@dataclass(frozen=True)
class Rules:
    """T1 to T9 and T14 to T16 of docs/internals/transactions.md."""

    row_compared: bool = True  # T1
    registered_first: bool = True  # T2
    registration_forgotten: bool = True  # T3
    decision_read: bool = True  # T4
    every_lane_marked: bool = True  # T5
    done_when_all_marked: bool = True  # T6
    unclaimed_aborted: bool = True  # T7
    judged_one_ended: bool = True  # T7, its second sentence
    turns_rise: bool = True  # T8
    older_one_first: bool = True  # T9
    instance_waits: bool = True  # T14
    offsets_before_done: bool = True  # T15
    acknowledged_when_done: bool = True  # T16
    markers_believed: bool = True  # T16: by the program that rebuilds the store
    all_fenced: bool = True  # T16

    def without(self, *names: str) -> "Rules":
        return replace(self, **dict.fromkeys(names, False))


@dataclass(frozen=True)
class Bounds:
    """What one search may do. Delays and repetitions are not bounded."""

    transactions: int = 1
    raises_epoch: bool = True  # with every transaction, as clients of version 2 expect
    crashes: int = 0
    timeouts: int = 0
    losses: int = 0  # of the metadata store
    gives_up: bool = True  # the client aborts when it likes
    second_instance: bool = False
    late_end: bool = True  # off: no EndTxn comes after the next transaction has begun
    remembers: bool = False  # a broker keeps a decision over a re-opening
    turns: int = 9
    lanes_of: tuple[tuple[int, ...], ...] = (LANES, LANES, LANES)  # by transaction


class Row(NamedTuple):
    epoch: int
    state: str
    ended: int  # epoch of the transaction that was decided last
    places: frozenset[int]
    turn: int
    offsets: int  # of the last transaction whose offsets are committed


class Record(NamedTuple):
    transaction: int
    epoch: int
    turn: int  # as the broker read it with the registration


class Marker(NamedTuple):
    turn: int
    outcome: str
    epoch: int


Lane = tuple[Record | Marker, ...]


class Plan(NamedTuple):
    """A marker that a broker is about to write."""

    turn: int
    outcome: str
    epoch: int
    judged: int = -1  # position of the open record, if no row claimed it


class Broker(NamedTuple):
    knows: tuple[bool, ...] = (False, False)  # by lane: the newest segment
    admitted: frozenset[tuple[int, int, int]] = frozenset()  # lane, epoch, turn
    plans: tuple[Plan | None, ...] = (None, None)
    held: tuple[Row, str, int] | None = None  # T1 off: what it will write, and for which EndTxn


class Client(NamedTuple):
    transaction: int
    phase: str  # init, begin, sent, ends, dead, finished
    epoch: int
    instance: int = 1
    wants: str = ""


class State(NamedTuple):
    row: Row
    lanes: tuple[Lane, ...]
    brokers: tuple[Broker, ...]
    client: Client
    zombie: Client | None
    sent: frozenset[tuple[str, int, int, int, str]]  # what, transaction, lane, epoch, outcome
    stored: frozenset[tuple[int, int]]  # transaction, lane: acknowledged to the client
    added: frozenset[tuple[int, int]]
    told: frozenset[tuple[int, str]]
    believed: frozenset[tuple[int, int]]  # producer, turn: committed, as markers say
    crashes: int = 0
    timeouts: int = 0
    losses: int = 0


def initial() -> State:
    nothing: frozenset[tuple[int, int]] = frozenset()
    return State(
        Row(0, EMPTY, -1, frozenset(), 0, 0),
        ((), ()),
        (Broker(), Broker()),
        Client(1, "begin", 0),
        None,
        frozenset(),
        nothing,
        nothing,
        frozenset(),
        nothing,
    )


# -- what a lane says ----------------------------------------------------------------------------


def producer_of(epoch: int) -> int:
    return epoch // EPOCHS


def open_at(lane: Lane, producer: int) -> int:
    """The position of the first record of a producer that no marker has ended; -1: none."""
    found = -1
    for at, entry in enumerate(lane):
        if producer_of(entry.epoch) == producer:
            if isinstance(entry, Marker):
                found = -1
            elif found < 0:
                found = at
    return found


def open_records(lane: Lane) -> Iterator[int]:
    """The same of all producers."""
    for producer in {producer_of(entry.epoch) for entry in lane}:
        at = open_at(lane, producer)
        if at >= 0:
            yield at


def last_turn(lane: Lane, producer: int) -> int:
    return max(
        (
            entry.turn
            for entry in lane
            if isinstance(entry, Marker) and producer_of(entry.epoch) == producer
        ),
        default=0,
    )


def has_marker(lane: Lane, row: Row) -> bool:
    """Whether the decided transaction of the row has its marker."""
    return last_turn(lane, producer_of(row.epoch)) >= row.turn


def groups_of(lane: Lane) -> Iterator[tuple[list[int], str]]:
    """Transactions that one marker ends, and how; "?" if none has come."""
    waiting: dict[int, list[int]] = {}
    for entry in lane:
        producer = producer_of(entry.epoch)
        if isinstance(entry, Record):
            waiting.setdefault(producer, []).append(entry.transaction)
        else:
            yield waiting.pop(producer, []), entry.outcome
    for rest in waiting.values():
        yield rest, "?"


# -- what must not be ----------------------------------------------------------------------------


def violation(before: State, after: State) -> str:
    """The promise that a step breaks, if it breaks one."""
    row = after.row
    if row.state == "c" and row.offsets != row.turn:
        return OFFSETS
    if after.lanes == before.lanes and after.told == before.told:
        return ""
    return judge(after)


def judge(state: State, *, is_final: bool = False) -> str:
    outcomes: dict[int, set[str]] = {}
    for lane in state.lanes:
        records = [entry.transaction for entry in lane if isinstance(entry, Record)]
        if len(set(records)) < len(records):
            return DUPLICATE
        for members, outcome in groups_of(lane):
            if len(members) > 1:
                return MIXED
            for one in members:
                outcomes.setdefault(one, set()).add(outcome)
    for one, found in outcomes.items():
        if {COMMIT, ABORT} <= found:
            return TORN
        asked = any(what == "end" and k == one and o == COMMIT for what, k, _, _, o in state.sent)
        if COMMIT in found and (not asked or (one, ABORT) in state.told):
            return ABORTED_READ
        if is_final and "?" in found:
            return HANGING
    for one, outcome in state.told:
        if outcome == COMMIT and _is_lost(state, one, outcomes.get(one, set())):
            return LOST
    if is_final and state.row.state in (ONGOING, COMMIT, ABORT):
        return HANGING
    return ""


def _is_lost(state: State, transaction: int, found: set[str]) -> bool:
    there = {
        number
        for number, lane in enumerate(state.lanes)
        if any(isinstance(entry, Record) and entry.transaction == transaction for entry in lane)
    }
    missing = {lane for one, lane in state.stored if one == transaction} - there
    return bool(missing) or ABORT in found
