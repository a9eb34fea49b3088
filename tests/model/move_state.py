"""The state of a topic that moves: its lanes in both places, and what each broker knows.

In this room: the logs, the memory of each broker, the rules as switches, the bounds of a search.
Next door: the steps (move_old.py, move_new.py), what must hold and the search (move_search.py).

A log is a chain that only grows at its end, and a PUT succeeds only at the end: that is what the
model of one log (state.py) shows of the twelve rules, so that it need not be searched again here.
So a broker remembers of a log only how much of its chain it knows.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

SEAL = -1  # the last batch of a lane that moves away
NOTHING = -2  # a control batch: takes an offset, holds no record

Batch = int  # the record it holds, or one of the above
Placed = tuple[int, Batch]  # with its offset


@dataclass(frozen=True)
class Rules:
    """The rules of the chapter on moving in docs/formats/log-protocol.md."""

    sealed: bool = True  # 13; off: the owner merely stops
    seal_survives_roll_up: bool = True  # 14: a manifest's producers include the sealer
    seal_survives_expiry: bool = True  # 14: the sealer never expires
    end_after_commit: bool = True  # 15; off: the end is reported while the seal is on its way
    ends_first: bool = True  # 16; off: the old log is looked at, then the reports
    end_compared: bool = True  # 16; off: done when all that was seen is copied
    copies_from_the_end: bool = True  # 17; off: a re-opened log is copied on where the reader is
    producers_copied: bool = True  # 18
    unknown_producers_begin_at_zero: bool = True  # 18
    seal_becomes_nothing: bool = True  # 19; off: it is copied as it is
    seal_keeps_its_offset: bool = True  # 19; off: it is left out
    all_done: bool = True  # 20; off: one log that has everything is enough
    same_move: bool = True  # 21; off: reports of other moves count
    place_is_new: bool = True  # 22; off: an earlier move has been there
    one_descriptor: bool = True  # 23; off: a step that began before the topic moved seals its place
    called_off_in_time: bool = True  # 24; off: also when the descriptor says: sealing

    def without(self, *names: str) -> "Rules":
        return replace(self, **dict.fromkeys(names, False))


@dataclass(frozen=True)
class Bounds:
    """What one search may do. Pauses, retries and the number of steps are not bounded."""

    lanes: int = 1  # each of its own log, in both places
    writers: int = 2  # take themselves for the owner of the old log
    copiers: int = 2  # take themselves for the owner of the new log
    idempotent: int = 1  # batches of one producer that numbers them, sent in any order
    plain: int = 1  # batches that are stored again whenever they are sent again
    written: int = 0  # batches that lie in the old place before anything happens
    longest: int = 3  # a lane takes no batch of a producer beyond this many
    expiry: bool = False  # producers are forgotten
    roll_up: bool = True
    reader: bool = True
    earlier: bool = False  # reports of an earlier move lie there, or come late

    @property
    def records(self) -> range:
        return range(self.idempotent + self.plain)


class Writer(NamedTuple):
    """A broker that takes itself for the owner of an old log."""

    known: int = 0  # batches of the chain
    forgot: bool = False  # that the lane is sealed
    stopped: bool = False  # only without seals
    report: int = -1  # an end that it will report, if it lives


class Copier(NamedTuple):
    """A broker that takes itself for the owner of a new log."""

    known: int = 0  # batches of the chain
    stage: str = "idle"  # ends, copying, done
    end: int = -1  # of the sealed lane, by the report it read; -1: there was none
    seen: int = 0  # batches of the old log, when it looked
    at: int = 0  # the batch that it reads there next
    waiting: tuple[Placed, ...] = ()  # for one commit


class Lane(NamedTuple):
    """One partition: its old log, its new log, reports about them, brokers that work on them."""

    old: tuple[Batch, ...]
    rolled: int  # batches that the old log's manifest covers
    new: tuple[Placed, ...]
    sealed: tuple[int, int] | None  # (move, end), reported
    done: int | None  # move, reported
    writers: tuple[Writer, ...]
    copiers: tuple[Copier, ...]
    late: tuple[str, ...]  # reports of the earlier move that have not arrived: sealed, done


class State(NamedTuple):
    lanes: tuple[Lane, ...]
    phase: str  # of the descriptor: copying, sealing, moved; or stays: the move was called off
    position: int  # of a reader of the first lane
    left_at: int  # where it was when it left the old place; -1: it is there


EARLIER, THIS = 0, 1  # ids of moves


def initial(bounds: Bounds, rules: Rules) -> State:
    lane = Lane(
        old=tuple(bounds.records[: bounds.written]),
        rolled=0,
        new=() if rules.place_is_new else ((0, max(bounds.records)),),
        sealed=None,
        done=None,
        writers=(Writer(known=bounds.written),) * bounds.writers,
        copiers=(Copier(),) * bounds.copiers,
        late=("sealed", "done") if bounds.earlier else (),
    )
    return State((lane,) * bounds.lanes, "copying", 0, -1)


def with_lane(state: State, n: int, lane: Lane) -> State:
    return state._replace(lanes=(*state.lanes[:n], lane, *state.lanes[n + 1 :]))


def end_of(new: tuple[Placed, ...]) -> int:
    return new[-1][0] + 1 if new else 0


def takes(known: tuple[Batch, ...], record: int, bounds: Bounds, *, unknown_begin: bool) -> bool:
    """Whether a lane that holds these takes a batch: it is new, and the one before it is there.

    `unknown_begin`: a producer that the lane does not know may begin with any batch.
    """
    if record >= bounds.idempotent:
        return True
    if record in known:
        return False  # answered with the offset it has
    if record == 0 or record - 1 in known:
        return True
    return unknown_begin and not any(0 <= one < bounds.idempotent for one in known)
