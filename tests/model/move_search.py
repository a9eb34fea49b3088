"""What a move must not break, and the search for a step that does.

In this room: the promises, each with a name; breadth first through all states within the bounds.
Next door: the steps (move_old.py, move_new.py); how states are remembered (search.py).

A record counts as promised as soon as it lies in the old log, or in the new one once the topic is
there: that is stronger than "acknowledged", because what is acknowledged lies there.
"""

from collections.abc import Collection, Iterator
from typing import Final

from tests.model import move_new, move_old
from tests.model.move_state import SEAL, Bounds, Lane, Rules, State, initial
from tests.model.search import Result

LOST: Final = "LOST: the topic has moved, and a record of the old place is not in the new one"
TWO: Final = "TWO: an offset holds two different things, or comes twice"
MISSED: Final = "MISSED: a record gets an offset that a reader has passed already"
DUPLICATE: Final = "DUPLICATE: a batch that its producer numbers is stored twice"
DISORDER: Final = "DISORDER: a batch is taken before the one it follows"
EARLY: Final = "EARLY: the new place goes on while the old one may still take records"
CLOSED: Final = "CLOSED: the topic has moved, and its new place is sealed"
STUCK: Final = "STUCK: the topic stays, and its place is sealed"
BROKEN: Final = frozenset({LOST, TWO, MISSED, DUPLICATE, DISORDER, EARLY, CLOSED, STUCK})

# Not a promise, but the aim of a move: a search that never reaches it would prove nothing.
GOES_ON: Final = "the new place has taken a record after all of the old one"
STAYS: Final = "the move was called off, and the old place has a record that the new one has not"


def successors(state: State, rules: Rules, bounds: Bounds) -> Iterator[tuple[str, State]]:
    yield from move_old.steps(state, rules, bounds)
    yield from move_new.steps(state, rules, bounds)


def violations(state: State, bounds: Bounds) -> list[str]:
    """What is broken, or reached."""
    if state.phase == "stays":
        is_ahead = any(len(lane.old) > len(lane.new) > 0 for lane in state.lanes)
        sealed = [STUCK for lane in state.lanes if SEAL in lane.old]
        return sealed or [STAYS] * is_ahead
    if state.phase != "moved":
        return []
    found = [kind for lane in state.lanes for kind in _of_lane(lane, bounds)]
    first = state.lanes[0]
    passed = state.position if state.left_at < 0 else state.left_at  # in the old place
    for offset, batch in first.new:
        is_other = offset >= len(first.old) or first.old[offset] == SEAL
        if batch >= 0 and is_other and offset < passed:
            found.append(MISSED)
    return found


def _of_lane(lane: Lane, bounds: Bounds) -> list[str]:
    found: list[str] = []
    here = dict(lane.new)
    if SEAL in here.values():
        found.append(CLOSED)
    offsets = [offset for offset, _ in lane.new]
    if offsets != list(range(len(offsets))):
        found.append(TWO)
    for offset, batch in enumerate(lane.old):
        there = here.get(offset, SEAL)
        if batch >= 0 and there < 0:
            found.append(LOST)
        elif batch >= 0 and batch != there:
            found.append(TWO)
    if any(batch >= 0 and offset >= len(lane.old) for offset, batch in lane.new):
        found.append(GOES_ON if SEAL in lane.old else EARLY)
    numbered = [batch for _, batch in lane.new if 0 <= batch < bounds.idempotent]
    if len(set(numbered)) < len(numbered):
        found.append(DUPLICATE)
    if numbered != sorted(numbered) or set(numbered) != set(range(len(set(numbered)))):
        found.append(DISORDER)
    return found


def search(
    rules: Rules, bounds: Bounds, wanted: Collection[str] = BROKEN, limit: int = 3_000_000
) -> Result:
    """Look for a step that breaks (or reaches) what is wanted, by a shortest trace."""
    start = initial(bounds, rules)
    parents: dict[int, int] = {_mark(start): 0}
    level = [start]
    while level and len(parents) <= limit:
        following: list[State] = []
        for state in level:
            for _, after in successors(state, rules, bounds):
                mark = _mark(after)
                if mark in parents:
                    continue
                parents[mark] = _mark(state)
                hit = next((kind for kind in violations(after, bounds) if kind in wanted), "")
                if hit:
                    trace = _replay(start, mark, parents, rules, bounds)
                    return Result(len(parents), False, hit, trace)
                following.append(after)
        level = following
    return Result(len(parents), not level, "", ())


def _replay(
    start: State, goal: int, parents: dict[int, int], rules: Rules, bounds: Bounds
) -> tuple[str, ...]:
    marks = [goal]
    while parents[marks[-1]]:
        marks.append(parents[marks[-1]])
    labels: list[str] = []
    state = start
    for mark in reversed(marks[:-1]):
        offered = successors(state, rules, bounds)
        label, state = next((label, after) for label, after in offered if _mark(after) == mark)
        labels.append(label)
    return tuple(labels)


def _mark(state: State) -> int:
    """One state for all that differ only in which broker is called A and which B."""
    lanes = [
        (*lane[:5], tuple(sorted(lane.writers)), tuple(sorted(lane.copiers)), lane.late)
        for lane in state.lanes
    ]
    return hash((tuple(lanes), *state[1:]))
