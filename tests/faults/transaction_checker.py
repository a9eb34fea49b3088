"""What must not have happened to transactions: the words of their history, and its judgement.

In this room: what clients note of their transactions, what readers of committed records got, and
one function per promise.
Next door: records outside of transactions (history.py, checker.py), the planted stories that each
function must find (tests/unit/faults/test_transaction_checker.py).
Never here: clients, brokers, clocks.

An unknown outcome is read in the system's favour: such a transaction may be committed or aborted,
but it is the same everywhere.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from tests.faults.checker import Finding, Findings
from tests.faults.history import FAILED, OK, UNKNOWN

COMMIT: Final = "commit"
ABORT: Final = "abort"
OPEN: Final = ""  # its client went away


@dataclass(slots=True)
class Transaction:
    """One transaction of a client. Numbers rise within a transactional id."""

    owner: str  # the transactional id
    number: int
    wanted: str = OPEN
    outcome: str = UNKNOWN  # of what was wanted
    stored: list[tuple[int, str]] = field(default_factory=list)  # acknowledged: partition, value
    sent: list[str] = field(default_factory=list)
    fenced_s: float = -1.0  # when a younger instance had its epoch
    asked_s: float = -1.0  # when its end was asked for
    offset: int = -1  # of the owner's group, if it commits one


@dataclass(slots=True, frozen=True)
class Read:
    """A record that a reader of committed records got, and the end that was told with it."""

    reader: str
    partition: int
    offset: int
    value: str
    stable: int


@dataclass(slots=True, frozen=True)
class Stable:
    """A broker said up to where all outcomes are known."""

    broker: str
    partition: int
    offset: int
    begun_s: float
    ended_s: float


@dataclass(slots=True, frozen=True)
class MarkerFound:
    """A marker in the log at the end."""

    partition: int
    offset: int
    producer_id: int
    turn: int
    committed: bool


@dataclass(slots=True)
class TransactionHistory:
    """All events of a run."""

    transactions: list[Transaction] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    stable: list[Stable] = field(default_factory=list)
    committed: list[tuple[int, int, str]] = field(default_factory=list)  # read anew at the end
    markers: list[MarkerFound] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)  # by owner, fetched at the end
    hanging: list[str] = field(default_factory=list)  # partitions that stayed open
    left_alone: int = 0  # calls in which clients waited for nothing but themselves

    def visible(self) -> set[str]:
        return {value for _, _, value in self.committed}


def check_transactions(history: TransactionHistory) -> list[Finding]:
    """All broken promises."""
    return [finding for judge in TRANSACTION_JUDGES for finding in judge(history)]


def aborted_read(history: TransactionHistory) -> Findings:
    """Readers of committed records get nothing of a transaction that was not committed."""
    shown = history.visible() | {one.value for one in history.reads}
    for one in history.transactions:
        asked = one.wanted == COMMIT and one.outcome != FAILED
        for value in one.sent:
            if value in shown and not asked:
                why = f"{one.wanted or 'left open'}, {one.outcome}"
                yield Finding("aborted read", f"{value!r} was read as committed ({why})")


def torn(history: TransactionHistory) -> Findings:
    """Of one transaction all is visible, or nothing."""
    shown = history.visible()
    for one in history.transactions:
        there = [value for _, value in one.stored if value in shown]
        missing = [value for _, value in one.stored if value not in shown]
        if there and missing:
            yield Finding("torn", f"{there[0]!r} is committed, {missing[0]!r} is not")


def lost_commit(history: TransactionHistory) -> Findings:
    """What was acknowledged as committed is there, once."""
    times = Counter(value for _, _, value in history.committed)
    places = {(partition, value) for partition, _, value in history.committed}
    for one in history.transactions:
        for partition, value in one.stored:
            is_done = one.wanted == COMMIT and one.outcome == OK
            if is_done and (partition, value) not in places:
                yield Finding("lost commit", f"{value!r} was committed and is not there")
        for value in one.sent:
            if times[value] > 1:
                yield Finding("duplicate", f"{value!r} is there {times[value]} times")


def unstable(history: TransactionHistory) -> Findings:
    """What was shown as committed stays; the end of what is known never goes back."""
    final = {(partition, offset): value for partition, offset, value in history.committed}
    for one in history.reads:
        where = f"{one.reader} got {one.partition}/{one.offset} {one.value!r}"
        if one.offset >= one.stable:
            yield Finding("unstable", f"{where}, with {one.stable} as the end of what is known")
        if final.get((one.partition, one.offset)) != one.value:
            yield Finding("unstable", f"{where}, which is not there at the end")
    for partition in {one.partition for one in history.stable}:
        yield from _gone_back([one for one in history.stable if one.partition == partition])


def _gone_back(told: list[Stable]) -> Findings:
    ended = sorted((one.ended_s, one.offset) for one in told)
    times = [at_s for at_s, _ in ended]
    highest = list(accumulate((offset for _, offset in ended), max))
    for one in told:
        before = bisect_left(times, one.begun_s) - 1
        if before >= 0 and one.offset < highest[before]:
            text = f"partition {one.partition}: {one.broker} said {one.offset}"
            yield Finding("unstable", f"{text} after {highest[before]}")


def offsets_with_records(history: TransactionHistory) -> Findings:
    """A group has come to where the last committed transaction says."""
    shown = history.visible()
    last: dict[str, int] = {}
    for one in history.transactions:
        is_there = bool(one.stored) and all(value in shown for _, value in one.stored)
        if one.offset >= 0 and is_there:
            last[one.owner] = one.offset
    for owner, found in history.offsets.items():
        if found != last.get(owner, -1):
            text = f"{owner} has come to {found}, its records say {last.get(owner, -1)}"
            yield Finding("offsets", text)


def zombie(history: TransactionHistory) -> Findings:
    """What a fenced instance asks for afterwards does not happen."""
    shown = history.visible()
    for one in history.transactions:
        if 0 <= one.fenced_s < one.asked_s:
            for value in one.sent:
                if value in shown:
                    yield Finding("zombie", f"{value!r} of a fenced instance is committed")
            if one.outcome == OK and one.wanted == COMMIT:
                yield Finding("zombie", f"a fenced instance of {one.owner} was told: committed")


def hanging(history: TransactionHistory) -> Findings:
    """Every transaction ends, whatever becomes of its client."""
    for partition in history.hanging:
        yield Finding("hanging", f"a transaction stays open in {partition}")


def markers(history: TransactionHistory) -> Findings:
    """A transaction has one outcome, and no lane has a marker that no decision led to."""
    outcomes: dict[tuple[int, int], set[bool]] = defaultdict(set)
    last: dict[tuple[int, int], int] = {}
    for one in sorted(history.markers, key=lambda row: (row.partition, row.offset)):
        lane = one.partition, one.producer_id
        where = f"{one.partition}/{one.offset}"
        if one.turn <= last.get(lane, -1):
            text = f"{where} ends transaction {one.turn} of {one.producer_id} again"
            yield Finding("markers", f"{text}, after {last.get(lane, -1)}")
        else:
            outcomes[one.producer_id, one.turn].add(one.committed)
        last[lane] = max(one.turn, last.get(lane, -1))
    for (producer_id, turn), found in outcomes.items():
        if len(found) > 1:
            yield Finding("markers", f"transaction {turn} of {producer_id} ended both ways")


Judge = Callable[[TransactionHistory], Iterator[Finding]]
TRANSACTION_JUDGES: Final[tuple[Judge, ...]] = (
    aborted_read,
    torn,
    lost_commit,
    unstable,
    offsets_with_records,
    zombie,
    hanging,
    markers,
)
