"""A log that is ended beside its owners: which owner can still commit, and when a new topic
uses the name again.

In this room: the objects of one log; the owners, which know nothing of the end; the ender, which
wants the name; the deleter; their steps, and the search through all of them.
Next door: what a log does while its topic lives (state.py, writers.py).

Every segment holds one record, so that a base is a position. Time goes by ticks; the grace period
is two of them, so that a proof is fresh for one. An owner writes without asking another actor, and
every actor may pause between any two steps. A record belongs to the new topic if its PUT is sent
after the name was used again: an owner of the old log that acknowledges it loses it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tests.model.explore import explore
from tests.model.search import Result

GRACE: Final = 2
FRESH: Final = GRACE // 2
OLD: Final = GRACE + 1  # greater ages are not told apart
LOST: Final = "LOST: a record for the new topic is acknowledged in the old log"
USED_AGAIN: Final = "the name is used again, and owners have written before that"

FREE, RECORD, END = ".", "r", "E"


@dataclass(frozen=True)
class Rules:
    """The parts of rule 25 in docs/formats/log-protocol.md."""

    tail_taken: bool = True  # off: the last manifest alone
    last_manifest: bool = True  # off: the object at the tail alone
    last_manifest_first: bool = True  # off: it is put when the tail has been taken
    looks_twice: bool = True  # off: the tail as of the first look
    chain_stays: bool = True  # off: the objects go as soon as the log has ended
    end_remembered: bool = True  # off: the last manifest goes with the objects

    def without(self, *names: str) -> "Rules":
        return replace(self, **dict.fromkeys(names, False))


@dataclass(frozen=True)
class Bounds:
    """What one search may do. Pauses and the number of steps are not bounded."""

    owners: int = 2
    longest: int = 3  # positions of the chain, the end not counted
    roll_ups: int = 1
    deleter: bool = True


class Owner(NamedTuple):
    """A broker that takes itself for the owner of the log."""

    stage: str = "closed"  # looking, open, sent, taken
    tail: int = 0
    generation: int = 0  # of the manifest it knows
    proof: int = 0  # its age
    sent: int = 0  # how long ago the PUT was issued
    is_late: bool = False  # the PUT was issued after the name was used again


class State(NamedTuple):
    objects: str  # by base
    manifests: tuple[tuple[int, int], ...]  # (end, age) of each generation, from 1 on
    ended: int  # age of the last manifest; -1: there is none
    closed: bool  # the ender has seen the end at the tail
    age: int  # since then
    again: bool  # the name is used again
    ender: tuple[str, int, int]  # stage, generation it saw, base it will take
    owners: tuple[Owner, ...]


def initial(bounds: Bounds) -> State:
    free = FREE * (bounds.longest + 1)
    return State(free, (), -1, False, 0, False, ("begin", 0, 0), (Owner(),) * bounds.owners)


def _older(age: int) -> int:
    return min(age + 1, OLD)


def _tick(state: State) -> State:
    return state._replace(
        manifests=tuple((end, _older(age)) for end, age in state.manifests),
        ended=state.ended if state.ended < 0 else _older(state.ended),
        age=_older(state.age) if state.closed else 0,
        owners=tuple(
            one._replace(proof=_older(one.proof), sent=_older(one.sent)) for one in state.owners
        ),
    )


def _past(state: State) -> int:
    return state.manifests[-1][0] if state.manifests else 0


def _tail(state: State) -> int:
    """The end of the chain, walked from the newest manifest on."""
    at = _past(state)
    while at < len(state.objects) and state.objects[at] == RECORD:
        at += 1
    return at


def _put(state: State, base: int, what: str) -> State:
    return state._replace(objects=state.objects[:base] + what + state.objects[base + 1 :])


def successors(state: State, rules: Rules, bounds: Bounds) -> Iterator[tuple[str, State]]:
    yield "tick", _tick(state)
    for number, one in enumerate(state.owners):
        name = "AB"[number]
        for label, changed, after in _owner(state, one, bounds):
            owners = (*state.owners[:number], changed, *state.owners[number + 1 :])
            yield f"{name} {label}", after._replace(owners=owners)
    yield from _ender(state, rules)
    if bounds.deleter:
        yield from _deleter(state, rules)


def _owner(state: State, one: Owner, bounds: Bounds) -> Iterator[tuple[str, Owner, State]]:
    newest = len(state.manifests)
    if one.stage == "closed" and state.ended < 0:
        looking = Owner("looking", _tail(state), newest)
        yield "looks", looking, state
    elif one.stage == "looking":
        same = state.ended < 0 and one.generation == newest
        yield "looks again", one._replace(stage="open", proof=0) if same else Owner(), state
    elif one.stage == "open":
        if one.tail < bounds.longest:
            sent = one._replace(stage="sent", sent=0, is_late=state.again)
            yield f"sends {one.tail}", sent, state
        if one.tail > _past(state) and newest < bounds.roll_ups and one.generation == newest:
            rolled = state._replace(manifests=(*state.manifests, (one.tail, 0)))
            # Rule 6: it looks whether its own is the newest.
            knows = one._replace(generation=newest + 1, proof=0) if state.ended < 0 else Owner()
            yield "rolls up", knows, rolled
    elif one.stage == "sent":
        if state.objects[one.tail] == FREE:
            yield f"creates {one.tail}", one._replace(stage="taken"), _put(state, one.tail, RECORD)
        else:
            yield "finds the name taken", Owner(), state
    elif one.stage == "taken":
        checked = one.proof > FRESH
        if checked and (state.ended >= 0 or newest != one.generation):
            yield "finds a newer manifest", Owner(), state
        else:
            proof = 0 if checked else one.sent
            done = one._replace(stage="open", tail=one.tail + 1, proof=proof)
            yield "acknowledges", done, state


def _ender(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    stage, generation, base = state.ender
    says = state._replace(ended=0) if rules.last_manifest and state.ended < 0 else state
    if stage == "begin":
        begun = says if rules.last_manifest_first else state
        yield "E says that the log ends", begun._replace(ender=("look", 0, 0))
    elif stage == "look":
        # The highest base there is, as listed: what lies before it may be gone.
        found = [at for at, what in enumerate(state.objects) if what == RECORD]
        tail = max([_past(state), *(at + 1 for at in found)])
        ender = ("take", len(state.manifests), tail)
        yield f"E finds the tail at {tail}", state._replace(ender=ender)
    elif stage == "take":
        if not rules.tail_taken or state.objects[base] == END:
            yield "E leaves the tail", state._replace(ender=("again", generation, base))
        elif state.objects[base] == FREE:
            after = _put(state, base, END)._replace(ender=("again", generation, base))
            yield f"E takes {base}", after
        else:
            yield "E was late", state._replace(ender=("look", 0, 0))
    elif stage == "again":
        if rules.looks_twice and generation != len(state.manifests):
            yield "E looks again", state._replace(ender=("look", 0, 0))
        else:
            done = says._replace(closed=True, ender=("done", 0, 0))
            yield "E is done", done
    elif not state.again:
        yield "the name is used again", state._replace(again=True)


def _deleter(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    free = FREE * len(state.objects)
    if state.closed and (state.age >= GRACE or not rules.chain_stays) and state.objects != free:
        ended = state.ended if rules.end_remembered else -1
        # Manifests are counted, not kept: an owner's own one is gone as well.
        yield "D deletes the objects", state._replace(objects=free, ended=ended)
    if not state.closed and state.manifests and state.manifests[-1][1] >= GRACE:
        end = state.manifests[-1][0]
        if RECORD in state.objects[:end]:
            yield "D sweeps", state._replace(objects=FREE * end + state.objects[end:])


def _violation(before: State, label: str) -> str:
    if label.endswith("acknowledges"):
        one = before.owners["AB".index(label[0])]
        if one.is_late:
            return LOST
    if label == "the name is used again" and RECORD in before.objects:
        return USED_AGAIN
    return ""


def search(rules: Rules, bounds: Bounds, wanted: str = LOST) -> Result:
    """Look for a step that does what is wanted, by a shortest trace."""

    def is_wanted(before: State, label: str, _: State) -> str:
        return wanted if _violation(before, label) == wanted else ""

    return explore(initial(bounds), lambda state: successors(state, rules, bounds), is_wanted)
